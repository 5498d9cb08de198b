"""What changed since a commit, as git says it: findings elsewhere were there before.

A finding stays when one of its places (its own, a related one, a step) is in a changed hunk; where lines were only
removed, the lines around them count as changed. Removing a barrier often breaks accesses far away from it, so a finding
of a changed file also stays when the file at the base commit does not have it.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from warplint.baseline import content, only
from warplint.finding import FileReport, Finding, Suppressed

_HUNK = re.compile(rb"^@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@", re.M)


class DiffError(ValueError):
    """The difference cannot be had; the message says why."""


class Changes(Struct, frozen=True, dict=True):
    """The difference between a commit and the files as they are."""

    base: str
    """As it was named."""
    commit: str
    """Where the work branched off: the merge base of `base` and HEAD."""
    top: str
    """The repository's folder."""

    @cached_property
    def _tracked(self) -> frozenset[str]:
        return frozenset(_names(_git(self.top, "ls-files", "-z")))

    @cached_property
    def _origins(self) -> dict[str, str]:
        """Changed files by their present names, with their names at the commit (empty: it did not exist)."""
        words = iter(_names(_git(self.top, "diff", "--name-status", "-z", "-M", "--no-ext-diff", self.commit)))
        found: dict[str, str] = {}
        for status in words:
            name = next(words)
            if status[0] in "RC":
                found[next(words)] = name
            else:
                found[name] = "" if status[0] == "A" else name
        return found

    def name(self, path: str) -> str | None:
        """A file's name in the repository; None for one outside it."""
        relative = os.path.relpath(os.path.realpath(path), self.top).replace(os.sep, "/")
        return None if relative == ".." or relative.startswith("../") else relative

    def origin(self, path: str) -> str | None:
        """A file's name at the commit; empty when it is new, None when it is as it was."""
        name = self.name(path)
        if name is None or name not in self._tracked:
            return ""
        return self._origins.get(name)

    def lines(self, path: str) -> tuple[tuple[int, int], ...]:
        """The changed lines of a changed file as inclusive ranges."""
        name, origin = self.name(path), self.origin(path)
        assert name and origin
        common = ("diff", "-U0", "-M", "--no-color", "--no-ext-diff", "--no-textconv", self.commit, "--")
        text = _git(self.top, *common, *dict.fromkeys((origin, name)))
        ranges = []
        for match in _HUNK.finditer(text):
            first, count = int(match[1]), int(match[2] or 1)
            ranges.append((first, first + count - 1) if count else (first, first + 1))
        return tuple(ranges)

    def before(self, origin: str) -> bytes:
        """A file's bytes at the commit."""
        return _git(self.top, "show", f"{self.commit}:{origin}")


def changes(base: str, folder: str = ".") -> Changes:
    """What changed between `base` and the files in the repository around `folder`. Raises DiffError."""
    if base.startswith("-"):
        raise DiffError(f"{base!r} is no commit")
    top = os.fsdecode(_git(folder, "rev-parse", "--show-toplevel")).rstrip("\n")
    _git(top, "rev-parse", "--quiet", "--verify", f"{base}^{{commit}}", why=f"git knows no commit {base!r}")
    try:
        commit = os.fsdecode(_git(top, "merge-base", base, "HEAD")).strip()
    except DiffError:
        commit = base  # histories with nothing in common, as in a shallow clone
    return Changes(base, commit, os.path.realpath(top))


def keep_new(file: FileReport, path: str, since: Changes, analyse: Callable[[bytes], FileReport]) -> FileReport:
    """The report with the findings that are not about a change set apart. `analyse` reads the bytes at the commit."""
    origin = since.origin(path)
    if origin == "":
        return file
    hidden: list[Suppressed] = []
    ranges = () if origin is None else since.lines(path)
    before: dict[tuple[str, str], int] | None = None if origin else {}

    def keep(finding: Finding) -> bool:
        nonlocal before
        places = (finding.location, *finding.related, *finding.steps)
        lines = [place.line for place in places if place.path == file.path]
        inside = any(first <= line <= last for line in lines for first, last in ranges)
        if origin:
            if before is None:
                before = _counted(analyse(since.before(origin)))
            key = (finding.rule, content(finding.fingerprint))
            known = before.get(key, 0)
            before[key] = known - 1
            inside = inside or known <= 0
        if not inside:
            hidden.append(Suppressed(finding, "diff", f"not changed since {since.base}"))
        return inside

    file = only(file, keep)
    return replace(file, suppressed=(*file.suppressed, *hidden)) if hidden else file


def _counted(report: FileReport) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    everything: Iterable[Finding] = [
        *report.findings,
        *(finding for kernel in report.kernels for finding in kernel.findings),
        *(one.finding for one in report.suppressed),
    ]
    for finding in everything:
        key = (finding.rule, content(finding.fingerprint))
        found[key] = found.get(key, 0) + 1
    return found


def _names(output: bytes) -> Sequence[str]:
    return [os.fsdecode(name) for name in output.split(b"\0") if name]


def _git(folder: str, *arguments: str, why: str = "") -> bytes:
    """What a git command writes. Raises DiffError with its last words."""
    environment = {**os.environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        run = subprocess.run(
            ["git", "-C", folder, *arguments], capture_output=True, check=False, env=environment, timeout=300
        )
    except FileNotFoundError:
        raise DiffError("git is not installed") from None
    except subprocess.TimeoutExpired:
        raise DiffError(f"git {arguments[0]} takes more than five minutes") from None
    if run.returncode != 0:
        said = run.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise DiffError(why or f"git {arguments[0]}: {said or f'exit code {run.returncode}'}")
    return run.stdout
