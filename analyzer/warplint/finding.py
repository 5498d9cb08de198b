"""What the analyzer says: findings, verdicts and the plain tables that reports print. Imports nothing of ours
when it runs.

Reports read only what stands here, so every value is plain data: strings, numbers and tuples of these.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from warplint.tables import Protocol


class Level(StrEnum):
    """How sure and how bad (RULES: `error` = breaks the model on established facts)."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"

    @property
    def rank(self) -> int:
        """0 for note, 1 for warning, 2 for error."""
        return _RANK[self]


_RANK = {Level.NOTE: 0, Level.WARNING: 1, Level.ERROR: 2}


class Symptom(StrEnum):
    """What a user sees when the fault strikes."""

    DEADLOCK = "deadlock"
    CRASH = "crash"
    WRONG_RESULT = "wrong-result"
    SLOW = "slow"
    HIDDEN = "hidden"
    """Nothing yet: a fault may go unseen."""


class Verdict(StrEnum):
    """What was established about one kernel."""

    CLEAN = "clean"
    FINDINGS = "findings"
    INCOMPLETE = "incomplete"


class Location(Struct, frozen=True):
    """A place in a file: 1-based lines and columns (UTF-16 units), the end column exclusive."""

    path: str
    line: int
    column: int = 1
    end_line: int = 0
    end_column: int = 0
    message: str = ""


class Guard(Struct, frozen=True):
    """One enclosing condition of a finding, as a person reads it."""

    text: str
    """Source text of the condition, `!(...)` for an else branch."""
    threads: str
    """The threads left after it: "32 of 256 threads: warp 4"."""
    line: int


class Finding(Struct, frozen=True):
    """One fault, with its evidence. The first sentence of `message` must stand alone."""

    rule: str
    level: Level
    symptom: Symptom
    message: str
    location: Location
    kernel: str
    threads: str = ""
    """The exact thread set that executes the operation, e.g. "32 of 256 threads: warp 4"."""
    guards: tuple[Guard, ...] = ()
    why: str = ""
    """What the hardware does about it."""
    remedy: str = ""
    """What to change."""
    related: tuple[Location, ...] = ()
    steps: tuple[Location, ...] = ()
    """The schedule that breaks it, in order; empty for structural findings."""
    fingerprint: str = ""
    """Stable identity over line shifts (filled in by the engine)."""


class Suppression(Struct, frozen=True):
    """An entry of the settings that sets findings apart: in the files it is for, of these rules, in these kernels."""

    rules: tuple[str, ...]
    """Rules or families."""
    kernel: str = ""
    """Pattern (`*`, `?`) for the kernel's name; empty: any."""
    reason: str = ""
    where: str = ""
    """The entry, for messages: "warplint.toml: suppress 2"."""


class Suppressed(Struct, frozen=True):
    """A finding that is not reported, and why."""

    finding: Finding
    by: str
    """`comment`, `settings`, `baseline` or `diff`."""
    where: str
    """"line 12", "warplint.toml: suppress 2", "warplint-baseline.json", "not changed since main"."""
    reason: str = ""
    """What was written beside the suppression."""
    line: int = 0
    """The comment's line in the finding's file; 0 for the others."""


class Reason(Struct, frozen=True):
    """Why a verdict is incomplete: what could not be established, and where (line 0: no line)."""

    text: str
    line: int = 0


class TreeOp(Struct, frozen=True):
    """An operation in the role tree: its canonical name, its spelling in the source, who executes it."""

    op: str
    spelling: str
    line: int
    threads: str
    detail: str = ""


class TreeNode(Struct, frozen=True):
    """A branch, loop or the kernel itself, with the exact set of threads in it."""

    kind: str
    """`kernel`, `if`, `else`, `loop`, `case` or `inline`."""
    label: str
    line: int
    threads: str
    """For people: "warps 4-7 (128)", "1 of 32 lanes of warp 3"."""
    mask: str
    """Hexadecimal bitset over the threads of the block (bit = linear thread index); an upper bound if `certain` is
    false."""
    count: int
    certain: bool
    items: tuple[TreeNode | TreeOp, ...] = ()


class KernelReport(Struct, frozen=True):
    """All that is said about one kernel."""

    name: str
    path: str
    line: int
    verdict: Verdict
    reasons: tuple[Reason, ...] = ()
    findings: tuple[Finding, ...] = ()
    tree: TreeNode | None = None
    facts: tuple[tuple[str, str], ...] = ()
    """What was assumed or read about the launch: ("block", "256 x 1 x 1 from __launch_bounds__") and the like."""
    protocol: Protocol | None = None
    """The hand-off tables of its execution."""


class FileReport(Struct, frozen=True):
    """One input file: its kernels, or why it could not be read."""

    path: str
    kernels: tuple[KernelReport, ...] = ()
    findings: tuple[Finding, ...] = ()
    """Findings of the file that belong to no kernel (host launches)."""
    problem: str = ""
    """Non-empty when the file could not be analysed (unreadable: exit code 2)."""
    reasons: tuple[Reason, ...] = ()
    """Why the file as a whole is incomplete (too large, not UTF-8 and so on)."""
    data: bytes = b""
    """The bytes, for reports that show source."""
    suppressed: tuple[Suppressed, ...] = ()
    """Findings that comments, settings, a baseline or a comparison set apart."""
    read: tuple[tuple[str, str], ...] = ()
    """Headers that were looked for: path, and SHA-256 of the content in hexadecimal (empty: there is none)."""


class RuleInfo(Struct, frozen=True):
    """What reports print about a rule: its metadata and the text of its docstring. Constant per rule."""

    slug: str
    family: str
    level: Level
    symptom: Symptom
    summary: str
    """One line, no full stop."""
    why: str
    bad: str
    """Source of the wrong example, without the fence."""
    good: str
    precision: str = "high"
    """SARIF's: very-high, high, medium or low."""
    guide: bool = False
    """The debugging guide asks for this check by name."""
