"""Kernels with one synchronisation fault each, made from a good kernel by editing its text.

`sites` finds what a kernel synchronises with: every operation of `SYNCHRONISING` at its call in the kernel's own text,
and every update of a variable that barrier indices, parities or the trip counts of synchronising loops depend on (phase
flips, stage advances, tiles). `deletions` and `changes` turn each into mutants; line numbers never move.

The text is edited at the spans that the analyzer's own IR carries, so a mutant differs from the original in exactly one
operation whatever the dialect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from msgspec import Struct

from warplint.engine import Settings
from warplint.program import Options, ir, lower
from warplint.source import SourceFile, Span
from warplint.syntax import parse

SYNCHRONISING = re.compile(
    r"mbarrier\.|fence\.(?:mbarrier_init|proxy|acq_rel)|elect\.sync|bar\.|barrier\.|grid\.sync|griddepcontrol\."
    r"|cp\.async\.(?:commit_group|wait_group|mbarrier\.arrive)|cp\.async\.bulk\.(?:commit_group|wait_group)"
    r"|wgmma\.(?:fence|commit_group|wait_group)|setmaxnreg|tcgen05\.(?:commit|wait|fence|dealloc|relinquish)"
)
"""Operations that only order, count or select; copies and MMAs are work, not synchronisation."""


@dataclass(frozen=True)
class Site:
    """One place that can be taken out: its text's span and what stands there."""

    span: Span
    what: str
    """Operation names joined by `+` (a helper may do several), or `update NAME`."""
    line: int


@dataclass(frozen=True)
class Mutant:
    """A kernel's text with one fault."""

    site: Site
    how: str
    """`delete`, `duplicate`, `swap`, `count+1`, `count-1`, `parity`, `bytes+16`, `bytes-16`."""
    data: bytes

    @property
    def key(self) -> str:
        """Name of the mutant, stable while the kernel's text is."""
        return f"{self.how} {self.site.what} line {self.site.line}"


def kernels(data: bytes, settings: Settings) -> tuple[SourceFile, tuple[ir.Kernel, ...]]:
    """Lower a file the way the engine does."""
    source = SourceFile("mutant.cu", data)
    options = Options(
        arch=settings.arch,
        block=settings.block,
        cluster=settings.cluster,
        smem=settings.smem,
        fragment=settings.fragment,
    )
    return source, tuple(lower(parse(source), source, options).kernels)


def sites(data: bytes, settings: Settings) -> list[Site]:
    """Everything a file's kernels synchronise with, in source order; several operations of one call are one site."""
    source, found = kernels(data, settings)
    named: dict[tuple[int, int], list[str]] = {}
    for kernel in found:
        for stmt in ir.walk(kernel.body):
            if isinstance(stmt, ir.Do) and SYNCHRONISING.match(stmt.op.name):
                names = named.setdefault((stmt.op.span.start, stmt.op.span.end), [])
                if stmt.op.name not in names:
                    names.append(stmt.op.name)
        carried = _carried(kernel)
        for stmt in _loop_statements(kernel.body):
            if isinstance(stmt, ir.Assign) and not stmt.declares and stmt.symbol in carried:
                if text(data, stmt.span) and stmt.span.start > kernel.span.start:
                    named[stmt.span.start, stmt.span.end] = [f"update {stmt.symbol.name}"]
    return [Site(Span(*at), "+".join(names), source.line_of(at[0])) for at, names in sorted(named.items())]


def text(data: bytes, span: Span) -> str:
    """The source text of a span."""
    return data[span.start : span.end].decode()


def _loop_statements(stmt: ir.Stmt, inside: bool = False) -> Iterator[ir.Stmt]:
    """Statements of loop bodies; the step of a `for` is left out (it is the loop, not synchronisation)."""
    if inside:
        yield stmt
    for child in [*stmt.body] if isinstance(stmt, ir.Seq) else [*ir.children(stmt)]:
        if not (isinstance(stmt, ir.Loop) and child is stmt.step):
            yield from _loop_statements(child, inside or isinstance(stmt, ir.Loop))


def _symbols(value: object) -> set[ir.Symbol]:
    """Symbols that an expression reads."""
    found: set[ir.Symbol] = set()
    stack = [value]
    while stack:
        top = stack.pop()
        if isinstance(top, ir.Symbol):
            found.add(top)
        elif isinstance(top, ir.Deferred):
            stack.append(top.expr)
        elif isinstance(top, tuple):
            stack.extend(top)
        elif isinstance(top, ir.Expr) and isinstance(top, Struct) and not isinstance(top, ir.OpValue):
            stack.extend(getattr(top, name) for name in top.__struct_fields__)
    return found


def _carried(kernel: ir.Kernel) -> set[ir.Symbol]:
    """Local variables that barrier operands, parities, or the ends of synchronising loops depend on."""
    wanted: set[ir.Symbol] = set()
    assigned: dict[ir.Symbol, set[ir.Symbol]] = {}
    for stmt in ir.walk(kernel.body):
        if isinstance(stmt, ir.Do) and "mbarrier" in stmt.op.name:
            for role in ("barrier", "parity"):
                wanted |= _symbols(stmt.op.operands.get(role))
        elif isinstance(stmt, ir.Assign):
            assigned.setdefault(stmt.symbol, set()).update(_symbols(stmt.value))
        elif isinstance(stmt, ir.Loop) and _synchronises(stmt):
            wanted |= _symbols(stmt.test)
            for inner in stmt.body.body:
                if isinstance(inner, ir.If) and any(isinstance(s, ir.Break) for s in ir.walk(inner)):
                    wanted |= _symbols(inner.test)
    todo = list(wanted)
    while todo:
        for symbol in assigned.get(todo.pop(), ()):
            if symbol not in wanted:
                wanted.add(symbol)
                todo.append(symbol)
    return {symbol for symbol in wanted if symbol.kind == "local"}


def _synchronises(stmt: ir.Stmt) -> bool:
    return any(isinstance(s, ir.Do) and SYNCHRONISING.match(s.op.name) for s in ir.walk(stmt))


# ------------------------------------------------------------------------------------------------- mutants
def deletions(data: bytes, settings: Settings) -> Iterator[Mutant]:
    """Each site taken out, one at a time."""
    for site in sites(data, settings):
        yield Mutant(site, "delete", _replaced(data, site.span, _nothing(data, site)))


def _nothing(data: bytes, site: Site) -> str:
    """What stands for a deleted call: nothing where it is a statement, else the value that lets everyone pass."""
    here = text(data, site.span)
    if _is_statement(data, site.span):
        return ";" if here.endswith(";") else ""
    if site.what.startswith("update"):  # `++stage` inside a condition
        return here.replace("++", "").replace("--", "")
    return "0" if site.what.startswith("mbarrier.arrive") else "1"


def _is_statement(data: bytes, span: Span) -> bool:
    before, after = data[: span.start].rstrip()[-1:], data[span.end :].lstrip()[:1]
    ended = after == b";" or text(data, span).endswith(";")
    return ended and before in (b";", b"{", b"}", b")", b"")


def _replaced(data: bytes, span: Span, new: str) -> bytes:
    """The span's text exchanged; its line breaks are kept behind the new text."""
    lines = data[span.start : span.end].count(b"\n")
    return data[: span.start] + new.encode() + b"\n" * lines + data[span.end :]


def changes(data: bytes, settings: Settings) -> Iterator[Mutant]:
    """Duplicates, swaps of neighbours, and counts, parities and sizes that are off by a little."""
    found = [site for site in sites(data, settings) if _is_statement(data, site.span)]
    for site in found:
        here = text(data, site.span)
        yield Mutant(site, "duplicate", _replaced(data, site.span, f"{here.rstrip(';')}; {here}"))
        if not site.what.startswith("update"):
            for how, new in _operands(site, here):
                yield Mutant(site, how, _replaced(data, site.span, new))
    for one, two in pairwise(found):
        between = data[one.span.end : two.span.start]
        if between.strip(b"; \n\t") == b"" and text(data, one.span) != text(data, two.span):
            first, second = text(data, one.span), text(data, two.span)
            joined = Span(one.span.start, two.span.end)
            yield Mutant(one, "swap", _replaced(data, joined, second + between.decode().replace("\n", " ") + first))


def _operands(site: Site, call: str) -> Iterator[tuple[str, str]]:
    """Variants of a call with its last argument changed, where that is a count, a parity or a number of bytes."""
    head, last, tail = _last_argument(call)
    if not last:
        return
    if site.what == "mbarrier.init":
        yield "count+1", f"{head}({last}) + 1{tail}"
        yield "count-1", f"{head}({last}) - 1{tail}"
    elif site.what in ("mbarrier.try_wait", "mbarrier.test_wait"):
        yield "parity", f"{head}(({last}) ^ 1){tail}"
    elif "expect_tx" in site.what:
        yield "bytes+16", f"{head}({last}) + 16{tail}"
        yield "bytes-16", f"{head}({last}) - 16{tail}"


def _last_argument(call: str) -> tuple[str, str, str]:
    """Text before, of and behind the last top-level argument of a call; the argument is empty when there is none."""
    end = call.rfind(")")
    depth = 0
    for at in range(end - 1, -1, -1):
        if call[at] in ")]}":
            depth += 1
        elif call[at] in "([{":
            if not depth:
                return call[: at + 1], call[at + 1 : end], call[end:]
            depth -= 1
        elif call[at] == "," and not depth:
            return call[: at + 1], call[at + 1 : end], call[end:]
    return call, "", ""
