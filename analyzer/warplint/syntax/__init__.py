"""Source text to our own syntax tree (`ast`). The only room that knows tree-sitter.

`parse` never raises on any input: what cannot be read is a `ParseGap` of the file, a `Gap` among statements, or an
`Unparsed` expression, and everything else is still there.
"""

from __future__ import annotations

from warplint.source import SourceFile, Span
from warplint.syntax import ast


def parse(source: SourceFile, arch: str = "", host: bool = False) -> ast.File:
    """Parse one file. Function bodies are built on first use.

    `arch` (`gfx942`) decides the conditions on an AMD target's macros; `host` reads what the host's compiler reads.
    """
    from warplint.syntax.toplevel import TopLevel  # the grammar is loaded only when something is parsed

    return TopLevel(source, arch, host).build()


def parse_expression(text: str, span: Span) -> ast.Expr:
    """Parse text that is not in the file (a macro's expansion) as an expression; every node gets `span`.

    Text that is no expression becomes `Unparsed`.
    """
    from warplint.syntax.build import expression

    return expression(text.encode("utf-8", "replace"), 0, span)


def parse_statements(text: str, span: Span) -> tuple[ast.Stmt, ...]:
    """Parse text that is not in the file as the inside of a block; every node gets `span`."""
    from warplint.syntax.build import statements

    return statements(text.encode("utf-8", "replace"), span)
