"""Which variables matter: what conditions, loop tests and operations depend on, through assignments."""

from __future__ import annotations

from collections.abc import Iterator

from warplint.program import ir


def needed(kernel: ir.Kernel) -> frozenset[ir.Symbol]:
    """Symbols that control flow, operation operands and predicates depend on, directly or through assignments.

    Only these need values; expressions of all other assignments stay unresolved.
    """
    assigned: dict[ir.Symbol, list[ir.Assign]] = {}
    pending: list[ir.Expr] = []
    for stmt in ir.walk(kernel.body):
        match stmt:
            case ir.Assign(symbol=symbol):
                assigned.setdefault(symbol, []).append(stmt)
            case ir.If(test=test):
                pending.append(test.expr)
            case ir.Loop(test=test):
                if test is not None:
                    pending.append(test.expr)
            case ir.Do(op=op):
                pending.extend(op.operands.values())
                if op.predicate is not None:
                    pending.append(op.predicate)
    found: set[ir.Symbol] = set()
    while pending:
        for node in nodes(pending.pop()):
            symbol = node.symbol if isinstance(node, (ir.Var, ir.Element, ir.Address)) else None
            if symbol is None or symbol in found:
                continue
            found.add(symbol)
            for stmt in assigned.get(symbol, ()):
                pending.append(stmt.value.expr)
                if stmt.index is not None:
                    pending.append(stmt.index.expr)
    return frozenset(found)


def reads(stmt: ir.Stmt) -> Iterator[ir.Load]:
    """The memory reads that a statement's own expressions make, in order (nested statements apart)."""
    trees: list[ir.Expr] = []
    match stmt:
        case ir.Assign(index=index, value=value):
            trees += [value.expr] if index is None else [index.expr, value.expr]
        case ir.Store(pointer=pointer, value=value):
            trees += [pointer.expr, value.expr]
        case ir.Read(pointer=pointer):
            yield ir.Load(pointer.expr, "other", stmt.volatile)
            trees.append(pointer.expr)
        case ir.If(test=test):
            trees.append(test.expr)
        case ir.Loop(test=test):
            if test is not None:
                trees.append(test.expr)
        case ir.Do(op=op):
            trees.extend(op.operands.values())
    for tree in trees:
        for node in nodes(tree):
            if isinstance(node, ir.Load):
                yield node


def nodes(tree: ir.Expr) -> Iterator[ir.Expr]:
    """Every expression below and including `tree`, in source order."""
    stack = [tree]
    while stack:
        top = stack.pop()
        yield top
        match top:
            case ir.Binary(left=left, right=right):
                stack += (right, left)
            case ir.Unary(arg=arg) | ir.Cast(arg=arg):
                stack.append(arg)
            case ir.Select(test=test, yes=yes, no=no):
                stack += (no, yes, test)
            case ir.Address(offset=offset):
                stack.append(offset)
            case ir.Load(pointer=pointer):
                stack.append(pointer)
            case ir.Element(index=index):
                stack.append(index)
            case ir.Pure(args=args):
                stack.extend(reversed(args))
