"""The condition of a loop with barriers reads shared memory that another thread may be rewriting.

## Why
All threads must leave such a loop in the same iteration. If one thread may store the flag while slower threads are
still testing the old value, or test it before the store, some leave and some stay: the next barrier waits for ever.
A flag needs a barrier on both sides of its store.

## Bad
```cuda
extern "C" __global__ void __launch_bounds__(128) iterate(float* out, const float* in) {
  __shared__ int done;
  __shared__ float level;
  if (threadIdx.x == 0) {
    done = 0;
    level = in[0];
  }
  __syncthreads();
  while (done == 0) {
    if (threadIdx.x == 0) {
      level *= 0.5f;
      if (level < 1.f) done = 1;
    }
    __syncthreads();
  }
  out[threadIdx.x] = level;
}
```

## Good
```cuda
extern "C" __global__ void __launch_bounds__(128) iterate(float* out, const float* in) {
  __shared__ int done;
  __shared__ float level;
  if (threadIdx.x == 0) {
    done = 0;
    level = in[0];
  }
  __syncthreads();
  while (done == 0) {
    __syncthreads();
    if (threadIdx.x == 0) {
      level *= 0.5f;
      if (level < 1.f) done = 1;
    }
    __syncthreads();
  }
  out[threadIdx.x] = level;
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.program.ir import (
    Address,
    Assign,
    Binary,
    Break,
    Cast,
    Expr,
    If,
    Load,
    Loop,
    Select,
    Symbol,
    Unary,
    Var,
    walk,
)
from warplint.rule import Rule
from warplint.source import Span
from warplint.threads.facts import AccessFact, Event, LoopFact, Roles
from warplint_rules._say import Reporter, line, location, sites, spelled, who
from warplint_rules.participation._balance import barriers

RULE = Rule(Level.ERROR, Symptom.DEADLOCK, supersedes=("smem-race",), spoils="schedule")
SAY = Reporter(__name__, RULE)

_MAX_NODES = 500


def check(roles: Roles) -> Iterator[Finding]:
    """Loops with CTA barriers, the shared variables in their exits, and the stores to these inside the loop."""
    if roles.incomplete:
        return  # a barrier may hide in what was not understood
    whole = barriers(roles)
    for loop in roles.loops:
        inside = [event for event in whole if loop in event.loops]
        if not inside or not isinstance(loop.stmt, Loop):
            continue
        for symbol, span in _tested(loop.stmt):
            store = _unguarded(roles, loop, symbol, inside)
            if store is not None:
                yield _finding(roles, symbol, span, store, inside)
                break


def _tested(loop: Loop) -> list[tuple[Symbol, Span]]:
    """Shared scalars that an exit condition of the loop reads, itself or through a local of the loop, and where."""
    tests = [(loop.test, loop.test_span)] if loop.test is not None else []
    for stmt in walk(loop.body):
        if isinstance(stmt, If) and any(isinstance(jump, Break) for jump in (*stmt.then.body, *stmt.orelse.body)):
            tests.append((stmt.test, stmt.test_span))
    copies: dict[int, Expr] = {}
    for stmt in walk(loop):
        if isinstance(stmt, Assign) and stmt.index is None:
            copies[id(stmt.symbol)] = stmt.value.expr
    return [(symbol, span) for test, span in tests for symbol in _shared(test.expr, copies)]


def _shared(expr: Expr, copies: dict[int, Expr]) -> list[Symbol]:
    found: list[Symbol] = []
    stack, seen = [expr], 0
    followed: set[int] = set()
    while stack and seen < _MAX_NODES:
        seen += 1
        match stack.pop():
            case Load(pointer=Address(symbol=symbol)) if symbol.kind == "shared" and symbol not in found:
                found.append(symbol)
            case Binary(left=left, right=right):
                stack += [right, left]
            case Cast(arg=arg) | Unary(arg=arg):
                stack.append(arg)
            case Select(test=test, yes=yes, no=no):
                stack += [no, yes, test]
            case Var(symbol=symbol) if id(symbol) in copies and id(symbol) not in followed:
                followed.add(id(symbol))
                if isinstance(copies[id(symbol)], Load):
                    stack.append(copies[id(symbol)])
            case _:
                pass
    return found


def _unguarded(roles: Roles, loop: LoopFact, symbol: Symbol, inside: list[Event]) -> AccessFact | None:
    """A store to the variable in the loop that lacks a barrier before it or after it in the iteration."""
    for access in roles.accesses:
        if access.symbol is not symbol or not access.write or loop not in access.loops or not access.reach.threads:
            continue
        before = any(event.order < access.order and not _optional(event, access) for event in inside)
        after = any(event.order > access.order for event in inside)
        if not before or not after:
            return access
    return None


def _optional(event: Event, access: AccessFact) -> bool:
    """The barrier stands under a condition that the store does not stand under."""
    shared = {id(guard.stmt) for guard in access.guards}
    return any(not guard.known and id(guard.stmt) not in shared for guard in event.guards if guard.kind == "if")


def _finding(roles: Roles, symbol: Symbol, span: Span, store: AccessFact, inside: list[Event]) -> Finding:
    barrier = sites(inside)[0]
    early = not any(event.order < store.order for event in inside)
    return SAY.at(
        roles,
        span,
        f"The exit of this loop reads `{symbol.name}`, which {who(roles, store.reach)} may store at line "
        f"{line(roles, store.span)} while other threads are still {'testing it' if early else 'before the test'}; the "
        f"loop holds {spelled(barrier)}.",
        why="Threads that see different values leave the loop in different iterations, and the barrier in it waits "
        "for threads that have left.",
        remedy="Put a barrier on both sides of the store: one between the test and the store, one between the store "
        "and the next test.",
        related=[
            location(roles, store.span, f"`{symbol.name}` is stored here"),
            *(location(roles, event.op.span, "the barrier in the loop") for event in sites(inside)[:3]),
        ],
    )
