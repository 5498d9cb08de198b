"""Global memory is read before `griddepcontrol.wait`.

## Why
With programmatic dependent launch the kernel may start while its predecessor still runs. Only what comes after
`griddepcontrol.wait` (`cudaGridDependencySynchronize`) is sure to see the predecessor's results; a load before it
may see the memory as it was. Loads of data that no kernel in the stream writes (weights) may stand before it: that
is the point.

## Bad
```cuda
extern "C" __global__ void __launch_bounds__(128) gather(float* out, const int* index, const float* in) {
  int row = index[blockIdx.x];
  asm volatile("griddepcontrol.wait;" ::: "memory");
  out[blockIdx.x * 128 + threadIdx.x] = in[row * 128 + threadIdx.x];
}
```

## Good
```cuda
extern "C" __global__ void __launch_bounds__(128) gather(float* out, const int* index, const float* in) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  int row = index[blockIdx.x];
  out[blockIdx.x * 128 + threadIdx.x] = in[row * 128 + threadIdx.x];
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.program.ir import Assign, Do, If, Load, Loop, Seq, Stmt, Store, Symbol, children, parts
from warplint.rule import Rule
from warplint.source import Span
from warplint.threads.facts import Roles
from warplint_rules._say import Reporter, line, location, reached
from warplint_rules.grid._global import base

RULE = Rule(Level.NOTE, Symptom.WRONG_RESULT, precision="medium")
SAY = Reporter(__name__, RULE)

_MAX_NODES = 4_000


def check(roles: Roles) -> Iterator[Finding]:
    """The first load through a parameter that stands before the first wait, in code that every thread runs."""
    wait = next(reached(roles, "griddepcontrol.wait"), None)
    if wait is None:
        return
    for span, symbol in _loads(roles.kernel.body, id(wait.op)):
        yield SAY.at(
            roles,
            span,
            f"`{symbol.name}` is read here, before `griddepcontrol.wait` at line {line(roles, wait.op.span)}.",
            why="With a programmatic dependent launch the previous kernel may still be writing; nothing before the "
            "wait is sure to see its results.",
            remedy="Move the load behind the wait, unless no earlier kernel of the stream writes this memory.",
            related=[location(roles, wait.op.span, "the wait")],
        )
        return


def _loads(body: Seq, wait: int) -> Iterator[tuple[Span, Symbol]]:
    """Loads through pointer parameters in the text before the wait."""
    stack: list[Stmt] = [body]
    while stack:
        stmt = stack.pop()
        match stmt:
            case Do(op=op) if id(op) == wait:
                return
            case Seq(body=inner):
                stack.extend(reversed(inner))
                continue
            case Assign(value=value):
                exprs = [value.expr]
            case Store(pointer=pointer, value=value):
                exprs = [pointer.expr, value.expr]
            case If(test=test):
                exprs = [test.expr]
            case Loop(test=test) if test is not None:
                exprs = [test.expr]
            case _:
                exprs = []
        for expr in exprs:
            todo, seen = [expr], 0
            while todo and seen < _MAX_NODES:
                seen += 1
                top = todo.pop()
                if isinstance(top, Load):
                    symbol = base(top.pointer)
                    if symbol is not None and symbol.kind == "param":
                        yield stmt.span, symbol
                todo.extend(parts(top))
        stack.extend(reversed(list(children(stmt))))
