"""Small programs for the machine, written as IR by hand: no parser, no lowering, only what the machine itself does."""

from __future__ import annotations

from warplint.machine.compile import Compiler
from warplint.machine.outcome import Outcome
from warplint.machine.semantics import handlers
from warplint.machine.semantics.asynchronous import deliver
from warplint.machine.world import Budget, Scenario, World
from warplint.program import ir
from warplint.source import Span

BARS = ir.Symbol("bars", "shared", "u64", dims=(16,), element_bytes=8)
DATA = ir.Symbol("data", "shared", "f32", dims=(1024,), element_bytes=4)
TID = ir.Special("tid.x")


class Builder:
    """Gives every operation a line of its own (its span's start is its number)."""

    def __init__(self) -> None:
        self.at = 0

    def span(self) -> Span:
        self.at += 1
        return Span(self.at, self.at + 1)

    def op(self, name: str, predicate: ir.Expr | None = None, mods: dict | None = None, **operands: object) -> ir.Do:
        made = ir.Operation(
            name,
            self.span(),
            {role: value if isinstance(value, ir.Expr) else ir.Const(int(value)) for role, value in operands.items()},  # type: ignore[call-overload]
            mods or {},
            name,
            predicate,
        )
        return ir.Do(made.span, made)

    def when(self, test: ir.Expr, *body: ir.Stmt, orelse: tuple[ir.Stmt, ...] = ()) -> ir.If:
        span = self.span()
        return ir.If(span, ir.Deferred(lambda: test), ir.Seq(span, body), ir.Seq(span, orelse), "test", span)

    def repeat(self, symbol: ir.Symbol, count: int, *body: ir.Stmt) -> tuple[ir.Stmt, ...]:
        span = self.span()
        step = self.set(symbol, ir.Binary("+", ir.Var(symbol), ir.Const(1)))
        test = ir.Binary("<", ir.Var(symbol), ir.Const(count))
        loop = ir.Loop(
            span, ir.Seq(span, ()), ir.Deferred(lambda: test), ir.Seq(span, (step,)), ir.Seq(span, body), "i < n", span
        )
        return (self.set(symbol, ir.Const(0)), loop)

    def set(self, symbol: ir.Symbol, value: ir.Expr) -> ir.Assign:
        return ir.Assign(self.span(), symbol, None, ir.Deferred(lambda: value))

    def store(self, offset: ir.Expr, size: int = 4) -> ir.Store:
        pointer = ir.Address(DATA, offset)
        return ir.Store(self.span(), ir.Deferred(lambda: pointer), ir.Deferred(lambda: ir.Const(0)), size)

    def read(self, offset: ir.Expr, size: int = 4) -> ir.Read:
        pointer = ir.Address(DATA, offset)
        return ir.Read(self.span(), ir.Deferred(lambda: pointer), size)


def bar(index: int | ir.Expr) -> ir.Expr:
    """Address of barrier word `index`."""
    number = ir.Const(index) if isinstance(index, int) else index
    return ir.Address(BARS, ir.Binary("*", number, ir.Const(8)))


def below(threads: int) -> ir.Expr:
    """`threadIdx.x < threads`."""
    return ir.Binary("<", TID, ir.Const(threads))


def run(
    body: list[ir.Stmt], threads: int = 64, ctas: int = 1, cuts: list[int] | None = None, repeats: bool = True
) -> Outcome:
    """Execute a body once; without `repeats` every iteration of a loop."""
    seq = ir.Seq(Span(0, 0), tuple(body))
    kernel = ir.Kernel("k", Span(0, 0), (), seq, ir.LaunchInfo(ir.Fact((threads, 1, 1), "test")), (BARS, DATA))
    scenario = Scenario("test", (threads, 1, 1), ctas, {"ctaid.x": 0, "nctaid.x": 4}, lambda _: 3)
    code = Compiler(None).compile(seq)
    return World(kernel, code, scenario, cuts or [], handlers(), deliver, Budget(), repeats=repeats).run()
