"""Findings that somebody has looked at and does not want to see again: comments in the source, entries in the settings.

    __syncwarp();             // warplint: ignore[missing-syncwarp] the lanes were joined by the shuffle above
    // warplint: ignore[smem-race, smem-out-of-bounds] on a line of its own: for the next line with code
    // warplint: ignore-kernel[dispatch] inside a kernel, or above it
    // warplint: ignore-file[dispatch] anywhere in the file

Names are rules or families. A comment that silences nothing is itself reported (`unused-suppression`): it would hide
the next fault at its place. So is one that cannot be read (`invalid-suppression`). Text inside strings is no comment.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct
from msgspec.structs import replace

from warplint.finding import FileReport, Finding, Level, Suppressed, Suppression, Symptom, Verdict
from warplint.place import location
from warplint.source import SourceFile, Span

UNUSED = "unused-suppression"
INVALID = "invalid-suppression"
NEEDLE = b"warplint:"

_COMMENT = re.compile(
    rb"warplint:[ \t]*(?P<word>[A-Za-z][\w-]*)[ \t]*(?:\[(?P<names>[^\]\r\n]*)\])?(?P<reason>[^\r\n]*)"
)
_KINDS = {"ignore": "line", "ignore-file": "file", "ignore-kernel": "kernel"}
_END = re.compile(r"\s*(?:\*/.*|//.*)?$")


class Directive(Struct, frozen=True):
    """One suppression comment."""

    kind: str
    """`line`, `kernel` or `file`."""
    names: tuple[str, ...]
    reason: str
    span: Span
    line: int
    """Where the comment stands."""
    target: int = 0
    """`line`: the line that it is about; `kernel`: the position of the kernel among the file's."""


class Comments(Struct, frozen=True):
    """The suppression comments of a file, and what is wrong with others: a place, what, and what to write."""

    directives: tuple[Directive, ...] = ()
    invalid: tuple[tuple[Span, str, str], ...] = ()


class Known(Struct, frozen=True):
    """What names mean: the family of each rule, and the rules that could have spoken in this run."""

    families: Mapping[str, str]
    asked: frozenset[str]

    def covers(self, names: Iterable[str], rule: str) -> bool:
        """Whether one of the names is the rule or its family."""
        return any(name in (rule, self.families.get(rule)) for name in names)

    def rules(self, name: str) -> frozenset[str]:
        """The rules that a name stands for; empty for one that is not known."""
        return frozenset(rule for rule, family in self.families.items() if name in (rule, family))


# ---------------------------------------------------------------------------------------------------- reading
def read(source: SourceFile, kernels: Sequence[Span], known: Known) -> Comments:
    """The suppression comments of a file; `kernels` are the places of its kernels' names, in source order."""
    if NEEDLE not in source.data:
        return Comments()
    from warplint.syntax.comments import comments

    places = list(comments(source.data))
    code = bytearray(source.data)
    for place in places:
        code[place.start : place.end] = re.sub(rb"[^\r\n]", b" ", source.data[place.start : place.end])
    code_lines = [number for number, line in enumerate(bytes(code).splitlines(), 1) if line.strip()]
    bodies = [_body(code, kernel) for kernel in kernels]
    directives: list[Directive] = []
    invalid: list[tuple[Span, str, str]] = []
    for place in places:
        if NEEDLE not in source.data[place.start : place.end]:
            continue
        for match in _COMMENT.finditer(source.data, place.start, place.end):
            span = Span(match.start(), match.start() + len(match[0].rstrip()))
            read_one = _directive(match, span, source, code_lines, kernels, bodies, known)
            if isinstance(read_one, Directive):
                directives.append(read_one)
            else:
                invalid.append((span, *read_one))
    return Comments(tuple(directives), tuple(invalid))


def _near(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The known word that one was probably meant to be; empty when none is near."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, list(known), n=1, cutoff=cutoff)), "")


def _directive(
    match: re.Match[bytes],
    span: Span,
    source: SourceFile,
    code_lines: Sequence[int],
    kernels: Sequence[Span],
    bodies: Sequence[Span],
    known: Known,
) -> Directive | tuple[str, str]:
    """A directive, or what is wrong with it and what to write."""
    word = match["word"].decode("ascii")
    kind = _KINDS.get(word)
    if kind is None:
        near = _near(word, _KINDS, 0.5)
        advice = (
            f"Write `{near}[rule]`." if near else "Write `ignore[rule]`, `ignore-kernel[rule]`, `ignore-file[rule]`."
        )
        return f"`warplint: {word}` is no suppression that warplint knows", advice
    if match["names"] is None:
        return f"`warplint: {word}` names no rule", f"Write `{word}[rule]` with the rule's name in brackets."
    listed = match["names"].decode("utf-8", "replace").split(",")
    names = tuple(dict.fromkeys(name.strip() for name in listed if name.strip()))
    if not names:
        return f"`warplint: {word}[]` names no rule", "Put the rule's name into the brackets."
    for name in names:
        if not known.rules(name):
            near = _near(name, [*known.families, *known.families.values()])
            advice = f"Did you mean `{near}`?" if near else "`warplint rules` lists them."
            return f"there is no rule or family `{name}`", advice
    line = source.line_of(span.start)
    reason = _END.sub("", match["reason"].decode("utf-8", "replace")).strip(" \t:-")
    directive = Directive(kind, names, reason, span, line)
    if kind == "line":
        at = bisect_right(code_lines, line - 1)
        if at == len(code_lines):
            return f"no code follows `warplint: {word}`", "Put it on the line of the finding, or on a line above it."
        return replace(directive, target=code_lines[at])
    if kind == "kernel":
        inside = [index for index, body in enumerate(bodies) if body.start <= span.start < body.end]
        after = [index for index, kernel in enumerate(kernels) if kernel.start > span.start]
        if not inside and not after:
            return "no kernel follows `warplint: ignore-kernel`", "Put it into the kernel or above it."
        return replace(directive, target=(inside or after)[0])
    return directive


def _body(code: bytes | bytearray, kernel: Span) -> Span:
    """From a kernel's name to the end of its body, by counting braces."""
    depth = 0
    for match in re.compile(rb"[{};]").finditer(code, kernel.end):
        brace = match[0]
        if brace == b"{":
            depth += 1
        elif brace == b"}":
            depth -= 1
        if depth <= 0:
            return Span(kernel.start, match.end())  # a `;` before any brace: only declared
    return Span(kernel.start, len(code))


# ------------------------------------------------------------------------------------------------- applying
def apply(
    report: FileReport,
    source: SourceFile,
    comments: Comments,
    entries: Sequence[Suppression],
    known: Known,
) -> FileReport:
    """The report with suppressed findings set apart, and findings about the comments themselves.

    The kernels of the report are those that `read` was given, in the same order.
    """
    judge = _Judge(source, comments, entries, known)
    kernels = []
    for index, kernel in enumerate(report.kernels):
        kept = tuple(finding for finding in kernel.findings if not judge.silences(finding, index))
        kernels.append(kernel if len(kept) == len(kernel.findings) else replace(kernel, findings=kept))
    findings = [finding for finding in report.findings if not judge.silences(finding, -1)]
    # An error may keep other rules from speaking, and so may what could not be read.
    certain = not (report.problem or report.reasons) and all(
        kernel.verdict is not Verdict.INCOMPLETE and not any(f.level is Level.ERROR for f in kernel.findings)
        for kernel in kernels
    )
    about = sorted([*_invalid(source, comments, known), *judge.unused(certain)], key=_place)
    findings.extend(finding for finding in about if not judge.silences(finding, -1))
    return replace(
        report,
        kernels=tuple(kernels),
        findings=tuple(findings),
        suppressed=(*report.suppressed, *judge.suppressed),
    )


def _place(finding: Finding) -> tuple[int, int, str]:
    return finding.location.line, finding.location.column, finding.message


class _Judge:
    """Which suppressions speak about a finding; remembers those that did."""

    def __init__(self, source: SourceFile, comments: Comments, entries: Sequence[Suppression], known: Known) -> None:
        self._source = source
        self._directives = sorted(comments.directives, key=lambda one: ("line", "kernel", "file").index(one.kind))
        self._entries = entries
        self._known = known
        self._used: set[tuple[Directive, str]] = set()
        self.suppressed: list[Suppressed] = []

    def silences(self, finding: Finding, kernel: int) -> bool:
        """Whether the finding (of the kernel at that position; -1: of none) is suppressed."""
        for one in self._directives:
            here = finding.location.path == self._source.path and one.target == finding.location.line
            if one.kind == "file" or (here if one.kind == "line" else one.target == kernel):
                for name in one.names:
                    if self._known.covers((name,), finding.rule):
                        self._used.add((one, name))
                        self.suppressed.append(Suppressed(finding, "comment", f"line {one.line}", one.reason, one.line))
                        return True
        for entry in self._entries:
            if self._known.covers(entry.rules, finding.rule) and fnmatchcase(finding.kernel, entry.kernel or "*"):
                self.suppressed.append(Suppressed(finding, "settings", entry.where, entry.reason))
                return True
        return False

    def unused(self, certain: bool) -> Iterable[Finding]:
        """One finding for each name that silenced nothing, where the run could tell."""
        if not certain or UNUSED not in self._known.asked:
            return
        for one in self._directives:
            for name in one.names:
                rules = self._known.rules(name)
                if (one, name) in self._used or not rules <= self._known.asked or rules & {UNUSED, INVALID}:
                    continue
                about = {"line": f"line {one.target}", "kernel": "this kernel", "file": "this file"}[one.kind]
                yield Finding(
                    rule=UNUSED,
                    level=Level.WARNING,
                    symptom=Symptom.HIDDEN,
                    message=f"Nothing is suppressed here: {name} has no finding for {about}.",
                    location=location(self._source, one.span),
                    kernel="",
                    why="A suppression that outlives its finding hides the next fault of its kind at the same place.",
                    remedy=f"Remove `{name}` from the comment" + (", or all of it." if len(one.names) > 1 else "."),
                )


def _invalid(source: SourceFile, comments: Comments, known: Known) -> Iterable[Finding]:
    if INVALID not in known.asked:
        return
    for span, what, advice in comments.invalid:
        yield Finding(
            rule=INVALID,
            level=Level.WARNING,
            symptom=Symptom.HIDDEN,
            message=f"This suppression has no effect: {what}.",
            location=location(source, span),
            kernel="",
            why="The finding that it was written for is still reported, and who reads the comment believes otherwise.",
            remedy=advice,
        )
