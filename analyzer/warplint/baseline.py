"""Findings that were there before: a file of them, so that a check fails only for new ones.

An entry is a rule, a path and a fingerprint (kernel, and text of the line without its white space and the numbers of
temporaries) with a count, so that it survives shifted lines. Paths are relative to the folder of the baseline, wherever
warplint is started. What is in the baseline and no longer found is stale; updating a baseline only ever removes that.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from warplint.finding import FileReport, Finding, KernelReport, Level, Suppressed, Verdict

SCHEMA = "warplint-baseline/1"

Key = tuple[str, str, str]
"""Rule, path, fingerprint without its number."""


class BaselineError(ValueError):
    """A baseline that cannot be read; the message names the file and what is wrong."""


class Entry(Struct, frozen=True):
    """A finding that was there, and how often."""

    count: int
    level: Level
    kernel: str = ""
    message: str = ""
    """Its first sentence, for people who read the file."""


class Baseline(Struct, frozen=True):
    """The known findings. Paths are relative to `folder`."""

    path: str
    entries: Mapping[Key, Entry]

    @property
    def folder(self) -> str:
        """Absolute folder of the file."""
        return os.path.dirname(os.path.abspath(self.path))


class Difference(Struct, frozen=True):
    """What a run and a baseline have that the other has not."""

    files: tuple[FileReport, ...]
    """The reports, with the known findings set apart."""
    stale: Mapping[Key, Entry]
    """Known findings that are no longer there; `count` says how many."""


def load(path: str) -> Baseline:
    """Read a baseline. Raises BaselineError."""
    try:
        with open(path, encoding="utf-8") as file:
            return load_text(file.read(), path)
    except OSError as error:
        raise BaselineError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BaselineError(f"{path}: not UTF-8: {error}") from error


def load_text(text: str, path: str) -> Baseline:
    """The baseline that a text at `path` holds. Raises BaselineError."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise BaselineError(f"{path}: not valid JSON: {error}") from error
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise BaselineError(f"{path}: no baseline of this version (`schema` is not {SCHEMA!r})")
    entries: dict[Key, Entry] = {}
    try:
        for item in data["findings"]:
            key = (str(item["rule"]), str(item["path"]), str(item["fingerprint"]))
            count = int(item.get("count", 1))
            if count < 1 or key in entries:
                raise ValueError(f"{key} is there twice, or never")
            entries[key] = Entry(count, Level(item["level"]), item.get("kernel", ""), item.get("message", ""))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BaselineError(f"{path}: an entry cannot be read: {type(error).__name__}: {error}") from error
    return Baseline(path, entries)


def dump(baseline: Baseline) -> str:
    """The file's text: sorted, so that two people's changes merge."""
    rows: list[dict[str, Any]] = []
    for (rule, path, fingerprint), entry in sorted(baseline.entries.items(), key=lambda item: _by_path(item[0])):
        rows.append(
            {
                "path": path,
                "kernel": entry.kernel,
                "rule": rule,
                "level": entry.level.value,
                "fingerprint": fingerprint,
                "count": entry.count,
                "message": entry.message,
            }
        )
    return json.dumps({"schema": SCHEMA, "findings": rows}, indent=1, ensure_ascii=False) + "\n"


def of_reports(path: str, files: Iterable[FileReport], root: str) -> Baseline:
    """The findings of a run as a baseline at `path`; report names are relative to `root`."""
    baseline = Baseline(path, {})
    entries: dict[Key, Entry] = {}
    for file in files:
        shown = path_in(baseline, file.path, root)
        for finding in _findings(file):
            key = _key(finding, shown)
            old = entries.get(key)
            entries[key] = (
                replace(old, count=old.count + 1)
                if old
                else Entry(1, finding.level, finding.kernel, _first_sentence(finding.message))
            )
    return Baseline(path, entries)


def compare(
    baseline: Baseline, files: Sequence[FileReport], root: str, asked: Callable[[str], bool], level: Level
) -> Difference:
    """Set known findings apart, and tell which are gone.

    A finding is gone when its rule was `asked`, its level is reported and its file was judged completely, or when its
    file no longer exists. Of files that were not looked at nothing is said.
    """
    left: Counter[Key] = Counter({key: entry.count for key, entry in baseline.entries.items()})
    where = os.path.basename(baseline.path)
    kept: list[FileReport] = []
    judged: set[str] = set()
    seen: set[str] = set()
    for file in files:
        shown = path_in(baseline, file.path, root)
        seen.add(shown)
        if not (file.problem or file.reasons or any(k.verdict is Verdict.INCOMPLETE for k in file.kernels)):
            judged.add(shown)
        known: list[Suppressed] = []

        def new(finding: Finding, shown: str = shown, known: list[Suppressed] = known) -> bool:
            key = _key(finding, shown)
            if left[key] <= 0:
                return True
            left[key] -= 1
            known.append(Suppressed(finding, "baseline", where))
            return False

        # findings that comments or settings suppress are there as well: a baseline made before is not stale for them
        for one in file.suppressed:
            left[_key(one.finding, shown)] -= 1
        file = only(file, new)
        kept.append(replace(file, suppressed=(*file.suppressed, *known)) if known else file)
    stale = {
        key: replace(baseline.entries[key], count=number)
        for key, number in left.items()
        if number > 0
        and (
            not os.path.lexists(os.path.join(baseline.folder, key[1]))
            if key[1] not in seen
            else key[1] in judged and asked(key[0]) and baseline.entries[key].level.rank >= level.rank
        )
    }
    return Difference(tuple(kept), stale)


def without(baseline: Baseline, stale: Mapping[Key, Entry]) -> Baseline:
    """The baseline less what is stale."""
    left = {key: entry.count - (stale[key].count if key in stale else 0) for key, entry in baseline.entries.items()}
    entries = {key: replace(baseline.entries[key], count=count) for key, count in left.items() if count > 0}
    return replace(baseline, entries=entries)


def with_more(baseline: Baseline, more: Baseline) -> Baseline:
    """The baseline and the entries of another one, counts added."""
    entries = dict(baseline.entries)
    for key, entry in more.entries.items():
        old = entries.get(key)
        entries[key] = replace(old, count=old.count + entry.count) if old else entry
    return replace(baseline, entries=entries)


def only(file: FileReport, keep: Callable[[Finding], bool]) -> FileReport:
    """The report with those findings for which `keep` says so, asked once each, in order."""

    def of_kernel(kernel: KernelReport) -> KernelReport:
        found = tuple(finding for finding in kernel.findings if keep(finding))
        return kernel if len(found) == len(kernel.findings) else replace(kernel, findings=found)

    findings = tuple(finding for finding in file.findings if keep(finding))
    return replace(file, findings=findings, kernels=tuple(map(of_kernel, file.kernels)))


def path_in(baseline: Baseline, name: str, root: str) -> str:
    """A report's name for a file as the baseline has it: relative to its folder, with forward slashes."""
    return os.path.relpath(os.path.join(os.path.abspath(root), name), baseline.folder).replace(os.sep, "/")


def content(fingerprint: str) -> str:
    """A fingerprint without the number that tells equal findings apart."""
    return fingerprint.partition("-")[0]


def _key(finding: Finding, path: str) -> Key:
    return finding.rule, path, content(finding.fingerprint)


def _by_path(key: Key) -> tuple[str, str, str]:
    rule, path, fingerprint = key
    return path, rule, fingerprint


def _findings(file: FileReport) -> Iterable[Finding]:
    yield from file.findings
    for kernel in file.kernels:
        yield from kernel.findings


def _first_sentence(message: str) -> str:
    flat = " ".join(message.split())
    end = flat.find(". ")
    flat = flat if end < 0 else flat[: end + 1]
    return flat if len(flat) <= 160 else f"{flat[:157]}..."
