"""What the tests of the syntax room share: parsing a snippet, and walking everything that it built."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from warplint.source import SourceFile
from warplint.syntax import ast, parse


def parsed(text: str | bytes, path: str = "kernel.cu") -> ast.File:
    """Parse a snippet."""
    data = text if isinstance(text, bytes) else text.encode()
    return parse(SourceFile(path, data))


def body(text: str, path: str = "kernel.cu") -> tuple[ast.Stmt, ...]:
    """The statements of a kernel whose body is `text`, which must leave no gap."""
    file = parsed("__global__ void k(int n, int *p) {\n" + text + "\n}", path)
    assert file.gaps == (), file.gaps
    (kernel,) = [function for function in file.functions if function.name == "k"]
    return kernel.body().body


def expr(text: str) -> ast.Expr:
    """The expression of a statement `text;`."""
    (statement,) = body(text + ";")
    assert isinstance(statement, ast.ExprStmt), statement
    return statement.value.expr


def everything(root: Any) -> Iterator[Any]:
    """Every node below `root`, lazy ones and function bodies built, in no particular order."""
    stack = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Lazy):
            stack.append(node.expr)
        elif isinstance(node, tuple):
            stack.extend(node)
        elif isinstance(node, Struct):
            yield node
            if isinstance(node, ast.Function):
                stack.append(node.body())
            for name in node.__struct_fields__:
                value = getattr(node, name)
                if isinstance(value, tuple | ast.Lazy | Struct):
                    stack.append(value)


def found(root: Any, *types: type) -> list[Any]:
    """All nodes of some types below `root`, by position."""
    nodes = [node for node in everything(root) if isinstance(node, types)]
    return sorted(nodes, key=lambda node: (node.span.start, -node.span.end))


def calls(root: Any) -> list[str]:
    """Names of the plain calls below `root`, in source order."""
    return [node.fn.id for node in found(root, ast.Call) if isinstance(node.fn, ast.Name)]
