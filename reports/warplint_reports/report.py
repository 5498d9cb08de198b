"""What every renderer gets: the finished file reports, the rules that ran, and small helpers over both."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator

from msgspec import Struct

from warplint.finding import FileReport, Finding, KernelReport, Level, RuleInfo, Suppressed, Verdict
from warplint.source import SourceFile


class Shard(Struct, frozen=True):
    """Which part of a whole a run was about."""

    number: int
    """From 1."""
    count: int
    positions: tuple[int, ...]
    """Where its files stood among those of the whole, in the order of the report's files."""


class Report(Struct, frozen=True, dict=True):
    """One run. `rules` are the enabled ones sorted by slug; empty for formats that print no rule text."""

    files: tuple[FileReport, ...]
    rules: tuple[RuleInfo, ...] = ()
    version: str = ""
    category: str = ""
    """Distinguishes several runs over one commit (SARIF `automationDetails`)."""

    show_suppressed: bool = False
    """Text and SARIF show what was suppressed; JSON and HTML always do."""
    fail_on: Level = Level.ERROR
    """The lowest level for which the run fails."""
    shard: Shard | None = None

    def kernels(self) -> Iterator[tuple[FileReport, KernelReport]]:
        """Every kernel with its file, in report order."""
        for file in self.files:
            for kernel in file.kernels:
                yield file, kernel

    def findings(self) -> Iterator[tuple[FileReport, Finding]]:
        """Every finding with its file, in report order."""
        for file in self.files:
            for finding in file.findings:
                yield file, finding
            for kernel in file.kernels:
                for finding in kernel.findings:
                    yield file, finding

    def suppressed(self) -> Iterator[tuple[FileReport, Suppressed]]:
        """Every suppressed finding with its file, in report order."""
        for file in self.files:
            for one in file.suppressed:
                yield file, one

    def count(self, level: Level) -> int:
        """How many findings of exactly this level."""
        return sum(finding.level is level for _, finding in self.findings())

    @property
    def incomplete(self) -> bool:
        """Some file or kernel could not be judged completely."""
        return any(file.reasons for file in self.files) or any(
            kernel.verdict is Verdict.INCOMPLETE for _, kernel in self.kernels()
        )


def sentences(finding: Finding) -> str:
    """Message, who executes it, consequence and remedy as plain sentences; the first stands alone."""
    said = [finding.message]
    if finding.threads and finding.threads not in finding.message:
        said.append(f"Executed by {finding.threads}")
    said += [finding.why, finding.remedy]
    flat = [" ".join(text.split()) for text in said if text.strip()]
    return " ".join(text if text.endswith((".", "!", "?")) else f"{text}." for text in flat)


def counted(number: int, noun: str) -> str:
    """`1 error`, `2 errors`, `0 errors`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def tally(findings: Iterable[Finding]) -> str:
    """Such as `1 error, 2 warnings`; empty when there is nothing."""
    levels = [finding.level for finding in findings]
    return ", ".join(
        counted(levels.count(level), level.value)
        for level in (Level.ERROR, Level.WARNING, Level.NOTE)
        if level in levels
    )


def lines_of(file: FileReport) -> SourceFile:
    """The file's text by line."""
    return SourceFile(file.path, file.data)


# Characters that would change what a terminal or a page shows around them: controls and bidirectional overrides.
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029\ufeff")


def visible(text: str) -> str:
    """`text` with control, bidirectional and surrogate characters written as escapes (`\\x1b`); tabs become spaces."""
    if text.isascii() and text.isprintable():
        return text
    out = []
    for char in text:
        if char == "\t":
            out.append(" ")
        elif char in _BIDI or unicodedata.category(char) in ("Cc", "Cs"):
            code = ord(char)
            out.append(f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")
        else:
            out.append(char)
    return "".join(out)
