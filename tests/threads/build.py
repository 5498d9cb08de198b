"""Building IR by hand, and a brute-force interpreter of it: one thread at a time, no abstraction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from warplint.program import ir
from warplint.source import Span

NOWHERE = Span(0, 0)
TID = ir.Special("tid.x")


def c(value: int) -> ir.Const:
    return ir.Const(value)


def b(op: str, left: ir.Expr, right: ir.Expr | int) -> ir.Binary:
    return ir.Binary(op, left, right if isinstance(right, ir.Expr) else c(right))


def later(expr: ir.Expr | int) -> ir.Deferred:
    value = expr if isinstance(expr, ir.Expr) else c(expr)
    return ir.Deferred(lambda: value)


def local(name: str, kind: ir.Kind = "local", **more: object) -> ir.Symbol:
    return ir.Symbol(name, kind, **more)  # type: ignore[arg-type]


def var(symbol: ir.Symbol) -> ir.Var:
    return ir.Var(symbol)


def seq(*body: ir.Stmt) -> ir.Seq:
    return ir.Seq(NOWHERE, body)


def assign(symbol: ir.Symbol, value: ir.Expr | int, declares: bool = False) -> ir.Assign:
    return ir.Assign(NOWHERE, symbol, None, later(value), declares)


def op(
    name: str,
    operands: Mapping[str, ir.Expr] | None = None,
    mods: Mapping[str, str | int | bool] | None = None,
    predicate: ir.Expr | None = None,
) -> ir.Operation:
    return ir.Operation(name, NOWHERE, operands or {}, mods or {}, name, predicate)


def do(name: str, predicate: ir.Expr | None = None, **operands: ir.Expr | int) -> ir.Do:
    given = {role: value if isinstance(value, ir.Expr) else c(value) for role, value in operands.items()}
    return ir.Do(NOWHERE, op(name, given, predicate=predicate))


def run(operation: ir.Operation) -> ir.Do:
    return ir.Do(NOWHERE, operation)


def when(test: ir.Expr, then: Sequence[ir.Stmt], orelse: Sequence[ir.Stmt] = (), text: str = "test") -> ir.If:
    return ir.If(NOWHERE, later(test), seq(*then), seq(*orelse), text, NOWHERE)


def loop(
    test: ir.Expr | None,
    body: Sequence[ir.Stmt],
    step: Sequence[ir.Stmt] = (),
    prelude: Sequence[ir.Stmt] = (),
    after: bool = False,
) -> ir.Loop:
    tested = None if test is None else later(test)
    return ir.Loop(NOWHERE, seq(*prelude), tested, seq(*step), seq(*body), "loop", NOWHERE, after)


def leave_kernel(trap: bool = False) -> ir.Exit:
    return ir.Exit(NOWHERE, trap)


def kernel(
    *body: ir.Stmt,
    threads: int | None = 128,
    params: Sequence[ir.Symbol] = (),
    arch: str = "sm_100a",
    cluster: tuple[int, ...] | None = None,
) -> ir.Kernel:
    launch = ir.LaunchInfo(
        block=None if threads is None else ir.Fact((threads, 1, 1), "test"),
        cluster=None if cluster is None else ir.Fact(cluster, "test"),
        arch=arch,
    )
    return ir.Kernel("k", NOWHERE, tuple(params), seq(*body), launch, ())


# ----------------------------------------------------------------------------------------- brute force
class _Jump(Exception):
    def __init__(self, kind: str, label: int | None = None) -> None:
        self.kind = kind
        self.label = label


class Thread:
    """One thread, run alone, with concrete values for the kernel's parameters."""

    def __init__(self, index: int, params: Mapping[ir.Symbol, int]) -> None:
        self.index = index
        self.values: dict[ir.Symbol, int] = dict(params)
        self.executed: list[ir.Operation] = []
        self.seen: list[tuple[ir.Operation, dict[str, int]]] = []

    def value(self, expr: ir.Expr) -> int:
        match expr:
            case ir.Const(value=value):
                return value
            case ir.Special(name="tid.x"):
                return self.index
            case ir.Var(symbol=symbol):
                return self.values[symbol]
            case ir.Unary(op="!", arg=arg):
                return int(not self.value(arg))
            case ir.Binary(op="&&", left=left, right=right):
                return int(bool(self.value(left)) and bool(self.value(right)))
            case ir.Binary(op="||", left=left, right=right):
                return int(bool(self.value(left)) or bool(self.value(right)))
            case ir.Binary(op=name, left=left, right=right):
                return _arith(name, self.value(left), self.value(right))
            case ir.Select(test=test, yes=yes, no=no):
                return self.value(yes) if self.value(test) else self.value(no)
        raise AssertionError(expr)

    def run(self, stmt: ir.Stmt) -> None:
        match stmt:
            case ir.Seq(body=body):
                for inner in body:
                    self.run(inner)
            case ir.Assign(symbol=symbol, value=value):
                self.values[symbol] = self.value(value.expr)
            case ir.Do(op=operation):
                if operation.predicate is None or self.value(operation.predicate):
                    self.executed.append(operation)
                    found = {role: self.value(expr) for role, expr in operation.operands.items()}
                    self.seen.append((operation, found))
            case ir.If(test=test, then=then, orelse=orelse):
                self.run(then if self.value(test.expr) else orelse)
            case ir.Exit():
                raise _Jump("exit")
            case ir.Break():
                raise _Jump("break")
            case ir.Continue():
                raise _Jump("continue")
            case ir.Leave(label=label):
                raise _Jump("leave", label)
            case ir.Inline(label=label, body=body):
                try:
                    self.run(body)
                except _Jump as jump:
                    if jump.kind != "leave" or jump.label != label:
                        raise
            case ir.Loop():
                self.loop(stmt)
            case _:
                raise AssertionError(stmt)

    def loop(self, stmt: ir.Loop) -> None:
        for _ in range(200):
            if not stmt.after:
                self.run(stmt.prelude)
                if stmt.test is not None and not self.value(stmt.test.expr):
                    return
            try:
                self.run(stmt.body)
            except _Jump as jump:
                if jump.kind == "break":
                    return
                if jump.kind != "continue":
                    raise
            self.run(stmt.step)
            if stmt.after:
                self.run(stmt.prelude)
                if stmt.test is not None and not self.value(stmt.test.expr):
                    return
        raise AssertionError("a test program that does not end")

    def start(self, body: ir.Stmt) -> None:
        try:
            self.run(body)
        except _Jump as jump:
            assert jump.kind == "exit"


def _arith(name: str, a: int, d: int) -> int:
    match name:
        case "/":
            return abs(a) // abs(d) * (1 if (a < 0) == (d < 0) else -1)
        case "%":
            return a - _arith("/", a, d) * d
        case "min":
            return min(a, d)
        case "max":
            return max(a, d)
    table = {
        "+": a + d,
        "-": a - d,
        "*": a * d,
        "&": a & d,
        "|": a | d,
        "^": a ^ d,
        "==": int(a == d),
        "!=": int(a != d),
        "<": int(a < d),
        "<=": int(a <= d),
        ">": int(a > d),
        ">=": int(a >= d),
    }
    if name == "<<":
        return a << d
    if name == ">>":
        return a >> d
    return table[name]


def brute(body: ir.Stmt, threads: int, params: Mapping[ir.Symbol, int] | None = None) -> list[Thread]:
    """Runs every thread of a block by itself."""
    result = []
    for index in range(threads):
        thread = Thread(index, params or {})
        thread.start(body)
        result.append(thread)
    return result


# --------------------------------------------------------------------------------------------- showing
def text(expr: ir.Expr) -> str:
    """An expression as a person reads it."""
    match expr:
        case ir.Const(value=value):
            return str(value)
        case ir.Special(name=name):
            return name
        case ir.Var(symbol=symbol):
            return symbol.name
        case ir.Unary(op=name, arg=arg):
            return f"{name}({text(arg)})"
        case ir.Binary(op=name, left=left, right=right):
            return f"({text(left)} {name} {text(right)})"
    return repr(expr)


def show(stmt: ir.Stmt, indent: str = "") -> str:
    """A program as a person reads it, for failure messages."""
    more = indent + "  "
    match stmt:
        case ir.Seq(body=body):
            return "".join(show(inner, indent) for inner in body)
        case ir.Assign(symbol=symbol, value=value):
            return f"{indent}{symbol.name} = {text(value.expr)}\n"
        case ir.Do(op=operation):
            given = ", ".join(f"{role}={text(expr)}" for role, expr in operation.operands.items())
            guard = "" if operation.predicate is None else f" @{text(operation.predicate)}"
            return f"{indent}{operation.name}({given}){guard}\n"
        case ir.If(test=test, then=then, orelse=orelse):
            tail = f"{indent}else\n{show(orelse, more)}" if orelse.body else ""
            return f"{indent}if {text(test.expr)}\n{show(then, more)}{tail}"
        case ir.Loop(test=test, body=body, step=step):
            shown = "1" if test is None else text(test.expr)
            return f"{indent}while {shown}\n{show(body, more)}{indent} step\n{show(step, more)}"
        case ir.Inline(label=label, body=body):
            return f"{indent}inline {label}\n{show(body, more)}"
        case ir.Leave(label=label):
            return f"{indent}leave {label}\n"
    return f"{indent}{type(stmt).__name__.lower()}\n"
