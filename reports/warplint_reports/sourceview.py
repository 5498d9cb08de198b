"""Source text for the HTML report: coloured, one record per line, with the places of findings marked.

The input is hostile: every character is escaped, controls become visible escapes, and files too large to show whole are
cut to the surroundings of what is marked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from markupsafe import Markup, escape

from warplint.finding import FileReport
from warplint.source import SourceFile
from warplint_reports.report import lines_of, visible

MAX_LINE = 4_000
"""Characters of one line that are shown; none of a longer one's colours."""
NEAR = 4
"""Lines around a marked one that belong to it."""


@dataclass
class Mark:
    """What is marked on a line: character ranges, step numbers, and ids of findings."""

    level: str = ""
    """The worst level of a finding here; empty for a line that is only related."""
    ranges: list[tuple[int, int]] = field(default_factory=list)
    """UTF-16 columns, 1-based, end exclusive."""
    steps: list[int] = field(default_factory=list)
    findings: list[int] = field(default_factory=list)
    """Indices into the report's findings."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line as shown. `number` 0 is a gap of `skipped` lines."""

    number: int
    html: str = ""
    """Markup."""
    mark: Mark | None = None
    far: bool = False
    """Not near anything marked."""
    skipped: int = 0


def view(file: FileReport, marks: Mapping[int, Mark], *, whole: bool = True, coloured: bool = True) -> list[Line]:
    """The lines of a file; unless `whole`, only its beginning and the surroundings of what is marked.

    Without `coloured`, the surroundings of what is marked still are.
    """
    source = lines_of(file)
    total = len(source.line_starts)
    if total > 1 and source.line_starts[-1] == len(file.data):
        total -= 1  # the end of the last line starts no new one
    near = {line for marked in marks for line in range(marked - NEAR, marked + NEAR + 1)}
    if not whole:
        near |= {line for marked in marks for line in range(marked - 40, marked + 41)} | set(range(1, 41))
        return list(_excerpts(source, total, sorted(line for line in near if 1 <= line <= total), marks))
    if coloured:
        rows = _rows(source, 1, total, marks)
    else:
        rows = {}
        for first, last in _runs(line for line in near if 1 <= line <= total):
            rows.update(_rows(source, first, last, marks))
        for number in range(1, total + 1):
            if number not in rows:
                rows[number] = _pieces([("", source.line_text(number))], ())
    return [Line(number, rows[number], marks.get(number), number not in near) for number in range(1, total + 1)]


def _excerpts(source: SourceFile, total: int, numbers: Iterable[int], marks: Mapping[int, Mark]) -> Iterator[Line]:
    last = 0
    for start, end in _runs(numbers):
        if start > last + 1:
            yield Line(0, skipped=start - last - 1)
        for number, row in _rows(source, start, end, marks).items():
            yield Line(number, row, marks.get(number))
        last = end
    if last < total:
        yield Line(0, skipped=total - last)


def _runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Runs of consecutive numbers, ascending, as (first, last)."""
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def excerpt(lines: Sequence[Line], around: int, others: Iterable[int] = (), context: int = NEAR) -> list[Line]:
    """The lines within `context` of a line number, and the single lines `others`, with gaps between them."""
    wanted = {*range(around - context, around + context + 1), *others}
    out: list[Line] = []
    last = None
    for line in lines:
        if line.number and line.number in wanted:
            if last is not None and line.number > last + 1:
                out.append(Line(0, skipped=line.number - last - 1))
            out.append(line)
            last = line.number
    return out


# -------------------------------------------------------------------------------------------------- colours
def _rows(source: SourceFile, first: int, last: int, marks: Mapping[int, Mark]) -> dict[int, Markup]:
    """The lines `first` to `last` as coloured HTML, by number."""
    from pygments.lexers.c_like import CudaLexer
    from pygments.token import Comment, Keyword, Name, Number, String

    classes = (
        (Comment.Preproc, "p"),
        (Comment, "c"),
        (Keyword.Type, "t"),
        (Keyword, "k"),
        (Name.Variable.Global, "b"),
        (Name.Builtin, "b"),
        (Name.Function, "f"),
        (Number, "m"),
        (String, "s"),
    )
    known: dict[object, str] = {}

    def letter(kind) -> str:
        found = known.get(kind)
        if found is None:
            found = known[kind] = next((name for parent, name in classes if kind in parent), "")
        return found

    texts = [source.line_text(number) for number in range(first, last + 1)]
    # what the lexer must not see is blanked: over-long lines, and characters that it would take for line ends
    shown = [text if len(text) <= MAX_LINE and "\r" not in text else "" for text in texts]
    lexer = CudaLexer(stripnl=False, ensurenl=False, stripall=False, tabsize=0)
    rows: list[list[tuple[str, str]]] = [[]]
    for kind, value in lexer.get_tokens("\n".join(shown).replace("\x00", "\ufffd")):
        name = letter(kind)
        parts = value.split("\n")
        if parts[0]:
            rows[-1].append((name, parts[0]))
        for part in parts[1:]:
            rows.append([(name, part)] if part else [])
    rows.extend([] for _ in range(len(texts) - len(rows)))
    return {
        number: _pieces(row if kept else [("", text)], _bounds(text, marks.get(number)))
        for number, text, kept, row in zip(range(first, last + 1), texts, shown, rows, strict=False)
    }


def _bounds(text: str, mark: Mark | None) -> list[tuple[int, int]]:
    """The mark's columns as character ranges of `text`."""
    if mark is None or not mark.ranges:
        return []
    if text.isascii():
        return [(start - 1, end - 1) for start, end in sorted(mark.ranges)]
    units = text.encode("utf-16-le", "surrogatepass")

    def index(column: int) -> int:
        return len(units[: 2 * (column - 1)].decode("utf-16-le", "replace"))

    return [(index(start), index(end)) for start, end in sorted(mark.ranges)]


def _pieces(tokens: Sequence[tuple[str, str]], bounds: Sequence[tuple[int, int]]) -> Markup:
    """Tokens as spans, cut at the ends of marked ranges, which become <mark>."""
    out: list[str] = []
    at = 0
    for name, value in tokens:
        if at >= MAX_LINE:
            out.append("<i>... line cut here</i>")
            break
        value = value[: MAX_LINE - at]
        cuts = sorted({0, len(value), *(edge - at for pair in bounds for edge in pair if 0 < edge - at < len(value))})
        for start, end in pairwise(cuts):
            text = str(escape(_shown(value[start:end])))
            if name:
                text = f'<span class="{name}">{text}</span>'
            if any(low <= at + start and at + end <= high for low, high in bounds):
                text = f"<mark>{text}</mark>"
            out.append(text)
        at += len(value)
    return Markup("".join(out))


def _shown(text: str) -> str:
    """Tabs stay (the page sets their width); other controls become visible."""
    if "\t" not in text:
        return visible(text)
    return "\t".join(visible(part) for part in text.split("\t"))
