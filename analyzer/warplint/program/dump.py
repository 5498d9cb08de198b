"""A compact, deterministic text of a lowered kernel, for tests and debugging."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from warplint.program import ir


class _Names:
    """Symbols under their names; the second of one name is `x'2`."""

    def __init__(self) -> None:
        self.known: dict[int, str] = {}
        self.count: dict[str, int] = {}
        self.ops: dict[int, str] = {}

    def symbol(self, symbol: ir.Symbol) -> str:
        found = self.known.get(id(symbol))
        if found is None:
            number = self.count[symbol.name] = self.count.get(symbol.name, 0) + 1
            found = symbol.name if number == 1 else f"{symbol.name}'{number}"
            self.known[id(symbol)] = found
        return found

    def op(self, op: ir.Operation) -> str:
        found = self.ops.get(id(op))
        if found is None:
            found = self.ops[id(op)] = f"%{len(self.ops)}"
        return found


def dump(kernel: ir.Kernel, resolve: bool = True) -> str:
    """The kernel as text, two spaces a level. `resolve=False` leaves deferred expressions alone (`...`)."""
    names = _Names()
    lines = [f"kernel {kernel.name}({', '.join(names.symbol(item) for item in kernel.params)})"]
    info = kernel.launch
    for label, fact in (("block", info.block), ("cluster", info.cluster), ("smem", info.smem)):
        if fact is not None:
            lines.append(f"  {label} {fact.value} {fact.origin}")
    for symbol in kernel.shared:
        lines.append(f"  shared {names.symbol(symbol)} {symbol.type} {symbol.dims} bytes={symbol.bytes}")
    lines.extend(_body(kernel.body, names, 1, resolve))
    lines.extend(f"  incomplete: {item.reason}" for item in kernel.incomplete)
    return "\n".join(lines)


def _body(seq: ir.Seq, names: _Names, level: int, resolve: bool) -> Iterator[str]:
    for stmt in seq.body:
        yield from _statement(stmt, names, level, resolve)


def _statement(stmt: ir.Stmt, names: _Names, level: int, resolve: bool) -> Iterator[str]:
    pad = "  " * level

    def late(item: ir.Deferred | None) -> str:
        if item is None:
            return "true"
        return text(item.expr, names) if resolve or item.built is not None else "..."

    match stmt:
        case ir.Seq():
            yield f"{pad}block"
            yield from _body(stmt, names, level + 1, resolve)
        case ir.Assign(symbol=symbol, index=index, value=value):
            where = "" if index is None else f"[{late(index)}]"
            yield f"{pad}{names.symbol(symbol)}{where} = {late(value)}"
        case ir.Store(pointer=pointer, value=value, bytes=width):
            words = " atomic" * stmt.atomic + " volatile" * stmt.volatile
            yield f"{pad}store{words} {late(pointer)} : {width} = {late(value)}"
        case ir.Read(pointer=pointer, bytes=width):
            yield f"{pad}read {late(pointer)} : {width}"
        case ir.Do(op=op):
            yield f"{pad}{operation(op, names, resolve)}"
        case ir.If(test=test, then=then, orelse=orelse):
            yield f"{pad}if {late(test)}"
            yield from _body(then, names, level + 1, resolve)
            if orelse.body:
                yield f"{pad}else"
                yield from _body(orelse, names, level + 1, resolve)
        case ir.Loop(prelude=prelude, test=test, step=step, body=body, after=after):
            yield f"{pad}{'do-loop' if after else 'loop'}"
            if prelude.body:
                yield f"{pad} prelude"
                yield from _body(prelude, names, level + 1, resolve)
            yield f"{pad} while {late(test)}"
            yield from _body(body, names, level + 1, resolve)
            if step.body:
                yield f"{pad} step"
                yield from _body(step, names, level + 1, resolve)
        case ir.Inline(label=label, name=name, body=body):
            yield f"{pad}inline {name} #{label}"
            yield from _body(body, names, level + 1, resolve)
        case ir.Leave(label=label):
            yield f"{pad}leave #{label}"
        case ir.Exit(trap=trap):
            yield f"{pad}{'trap' if trap else 'exit'}"
        case ir.Opaque(reason=reason, writes=writes):
            yield f"{pad}opaque: {reason}" + "".join(f" !{names.symbol(item)}" for item in writes)
        case _:
            yield f"{pad}{type(stmt).__name__.lower()}"


def operation(op: ir.Operation, names: _Names, resolve: bool = True) -> str:
    """One operation with its operands, modifiers and predicate."""
    parts = [names.op(op), "=", op.name]
    for role, value in _items(op.operands, resolve):
        parts.append(f"{role}={text(value, names) if value is not None else '...'}")
    if op.mods:
        parts.append("{" + " ".join(f"{key}={op.mods[key]}" for key in sorted(op.mods)) + "}")
    if op.predicate is not None:
        parts.append(f"if {text(op.predicate, names)}")
    return " ".join(parts)


def _items(operands: Mapping[str, ir.Expr], resolve: bool) -> Iterator[tuple[str, ir.Expr | None]]:
    for role in operands:
        yield role, operands[role] if resolve else None


def text(expr: ir.Expr, names: _Names | None = None, depth: int = 0) -> str:
    """One expression."""
    names = names or _Names()
    if depth > 60:
        return "..."

    def inner(item: ir.Expr) -> str:
        return text(item, names, depth + 1)

    match expr:
        case ir.Const(value=value):
            return str(value)
        case ir.Var(symbol=symbol):
            return names.symbol(symbol)
        case ir.Special(name=name):
            return f"@{name}"
        case ir.Unary(op=op, arg=arg):
            return f"{op}{inner(arg)}"
        case ir.Binary(op=op, left=left, right=right):
            return f"({inner(left)} {op} {inner(right)})"
        case ir.Select(test=test, yes=yes, no=no):
            return f"({inner(test)} ? {inner(yes)} : {inner(no)})"
        case ir.Cast(type=type_, arg=arg):
            return f"{type_}({inner(arg)})"
        case ir.Address(symbol=symbol, offset=offset):
            return f"&{names.symbol(symbol)}+{inner(offset)}"
        case ir.Load(pointer=pointer):
            return f"load{'.volatile' * expr.volatile}({inner(pointer)})"
        case ir.Element(symbol=symbol, index=index):
            return f"{names.symbol(symbol)}[{inner(index)}]"
        case ir.OpValue(op=op, output=output):
            return names.op(op) + ("" if output == "value" else f".{output}")
        case ir.Pure(name=name, args=args):
            return f"{name}({', '.join(inner(item) for item in args)})"
        case ir.Unknown(reason=reason, uniform=uniform):
            return f"?{'u' * uniform}<{reason}>"
    return "?"
