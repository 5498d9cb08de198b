"""Runs the analysis and the rules over files and turns what they say into `FileReport`s.

A fault of ours in one kernel never silences another: it becomes a problem of its file. `judge` decides about a kernel.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from warplint.dialects.packs import Pack
from warplint.finding import FileReport, Finding, KernelReport, Level, Reason, Suppression, Verdict
from warplint.headers import with_headers
from warplint.judge import internal, judge, reasons_of, unjudged
from warplint.memo import forget
from warplint.patterns import late
from warplint.registry import LoadedRule, select
from warplint.source import DEFAULT_MAX_BYTES, SourceFile, Span
from warplint.suppress import NEEDLE

if TYPE_CHECKING:
    from warplint.discover import Input
    from warplint.program import Module

COLLECT_BYTES = 2_000_000
"""Source after which the garbage of analysed files is collected."""


class Settings(Struct, frozen=True):
    """What the user decided. Launch facts given here win over what the source says."""

    arch: str = ""
    """`sm_90a`, `sm_100a`, `gfx942`; empty: from the source."""
    block: tuple[int, int, int] | None = None
    cluster: tuple[int, int, int] | None = None
    smem: int | None = None
    """Dynamic shared memory in bytes."""
    registers: int | None = None
    """Registers per thread at launch."""
    defines: tuple[tuple[str, str], ...] = ()
    """Macros: (name, value)."""
    fragment: bool | None = None
    """Read the source as an excerpt without its prelude; None: decide from the source."""
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    level: Level = Level.WARNING
    """Findings below it are left out of the report."""
    levels: tuple[tuple[str, Level], ...] = ()
    """Levels that the user gives to rules or families; a later pair wins."""
    suppress: tuple[Suppression, ...] = ()
    """Findings to set apart in this file, by rule and kernel."""
    expect: tuple[str, ...] = ()
    """Fast paths that should be there: tma, tcgen05, wgmma, mfma."""
    include: tuple[str, ...] = ()
    """Folders that headers are looked for in."""
    folder: str = ""
    """The file's own folder, where `#include "x.h"` is looked for first; empty: nowhere (standard input)."""
    dialects: tuple[Pack, ...] = ()
    """Dialect packs beside those of installed packages; an earlier one wins."""
    max_bytes: int = DEFAULT_MAX_BYTES
    execute: bool = True
    """Execute the hand-off protocol; without it only the structural rules speak."""
    tree: bool = False
    """Fill in `KernelReport.tree`; off where no report prints it."""
    tables: bool = False
    """Fill in `KernelReport.protocol`; off where no report prints it."""


def lint_bytes(path: str, data: bytes, settings: Settings) -> FileReport:
    """Analyse one file's bytes under the name `path`.

    Never raises for what stands in the file; raises UnknownRule for a name in `select` or `ignore`.
    """
    # The trees and facts of a file live until it is done: the cyclic collector would walk them again and again for
    # nothing, and took two thirds of the time.
    enabled = gc.isenabled()
    gc.disable()
    try:
        return _lint(path, data, settings, _rules(settings.select, settings.ignore))
    finally:
        forget()
        if enabled:
            gc.enable()


def lint_paths(inputs: Iterable[Input], settings: Settings | Callable[[Input], Settings]) -> Iterator[FileReport]:
    """Analyse inputs one by one, in order, under one `Settings` or one per input. Raises UnknownRule."""
    for item in inputs:
        yield lint_input(item, settings if isinstance(settings, Settings) else settings(item))


def lint_input(
    item: Input,
    settings: Settings,
    analyse: Callable[[str, bytes, Settings], FileReport] = lint_bytes,
) -> FileReport:
    """Read one input and `analyse` its bytes; what cannot be read becomes a problem. Raises UnknownRule."""
    if item.problem:
        return FileReport(item.name, problem=item.problem)
    _collect_now_and_then()
    try:
        data = read_input(item, settings.max_bytes + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return FileReport(item.name, problem=f"cannot be read: {reason}")
    _uncollected[0] += len(data)
    return analyse(item.name, data, settings)


_uncollected = [0]


def _collect_now_and_then() -> None:
    """Files leave cycles behind, and the collector is off while one is analysed."""
    if _uncollected[0] > COLLECT_BYTES:
        gc.collect()
        _uncollected[0] = 0


def read_input(item: Input, limit: int) -> bytes:
    """At most `limit` bytes of an input; `-` is standard input. Raises OSError."""
    if item.path == "-":
        import sys

        return sys.stdin.buffer.read(limit)
    with open(item.path, "rb") as file:
        return file.read(limit)


def check_rules(settings: Settings) -> None:
    """Raises UnknownRule for a name in `select`, `ignore`, `levels` or `suppress` that is no rule and no family."""
    _rules(settings.select, settings.ignore)
    if settings.levels or settings.suppress:
        select([*(name for name, _ in settings.levels), *(n for one in settings.suppress for n in one.rules)], ())


@cache
def _rules(chosen: tuple[str, ...], ignored: tuple[str, ...]) -> tuple[LoadedRule, ...]:
    return select(chosen, ignored)


# ------------------------------------------------------------------------------------------------- one file
def _lint(path: str, data: bytes, settings: Settings, rules: Sequence[LoadedRule]) -> FileReport:
    refused = unreadable(data, settings)
    if refused:
        large = len(data) > settings.max_bytes
        return FileReport(path, reasons=(Reason(refused, 0 if large else 1),), data=b"" if large else data)
    source = SourceFile(path, data)
    headers = with_headers(source, settings.folder, settings.include)
    whole = headers.source
    try:
        module = lower_source(whole, settings)
    except Exception as error:  # a fault of ours must not stop the other files
        return FileReport(path, problem=internal(error, "reading the file"), data=data)
    problems: list[str] = []
    kernels = []
    everything = replace(settings, level=Level.NOTE) if settings.level is not Level.NOTE else settings
    for kernel in module.kernels:
        try:
            kernels.append(judge(kernel, module.source, everything, rules, problems))
        except Exception as error:
            problems.append(internal(error, f"kernel {kernel.name}"))
            kernels.append(unjudged(kernel, source, problems[-1]))
    reasons = reasons_of(module.source, module.incomplete)
    if headers.left:
        reasons = (*reasons, Reason(f"not all headers were read: {headers.left}"))
    report = FileReport(
        path,
        kernels=tuple(_fingerprinted(kernels, module.source)),
        problem="; ".join(problems),
        reasons=reasons,
        data=data,
        read=headers.read,
    )
    if settings.levels:
        report = _with_levels(report, settings)
    if NEEDLE in data or settings.suppress:
        spans = [kernel.span for kernel in module.kernels]
        if module.source.origin is not None:  # an excerpt: the whole file is the kernel
            spans = [Span(0, len(data)) for _ in spans]
        report = _without_suppressed(report, source, spans, settings, rules)
    return _from_level(report, settings.level)


def unreadable(data: bytes, settings: Settings) -> str:
    """Why bytes are not analysed at all; empty when they are."""
    if len(data) > settings.max_bytes:
        return f"not analysed: larger than {settings.max_bytes} bytes (raise the limit with --max-bytes)"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "not analysed: the file is UTF-16; save it as UTF-8"
    return ""


def lower_source(source: SourceFile, settings: Settings) -> Module:
    """The kernels of a file, headers included, as structured statements. Raises PackError."""
    from warplint.program import Options, lower
    from warplint.syntax import parse

    options = Options(
        arch=settings.arch,
        block=settings.block,
        cluster=settings.cluster,
        smem=settings.smem,
        defines=dict(settings.defines),
        fragment=settings.fragment,
        expect=settings.expect,
        packs=_packs(settings),
    )
    return lower(parse(source, settings.arch), source, options)


def _packs(settings: Settings) -> tuple[tuple[str, str], ...]:
    """The dialect packs from outside, as tables with their targets. Raises PackError for a broken installed one."""
    from warplint.packs import installed

    packs = (*settings.dialects, *installed())
    if not packs:
        return ()
    from warplint.dialects.names import use

    return tuple((use(pack), pack.target) for pack in packs)


_NUMBERED = late(r"\b([A-Za-z_]\w*?)_?\d+\b")
"""A name that ends in a number: generators count temporaries, and one more of them renames all that follow."""


def _identified(findings: Iterable[Finding], source: SourceFile, count: dict[str, int]) -> tuple[Finding, ...]:
    """Gives each finding an identity that survives shifted lines: rule, kernel, text of the line, how manieth.

    The file's name is no part of it. The number of a temporary is none, either.
    """
    from hashlib import sha256

    made = []
    for finding in findings:
        place = finding.location
        text = _NUMBERED.sub(r"\1", " ".join(source.called(place.path).line_text(place.line).split()))
        base = "\0".join((finding.rule, finding.kernel, text))
        nth = count[base] = count.get(base, 0) + 1
        digest = sha256(base.encode("utf-8", "replace")).hexdigest()[:16]
        made.append(replace(finding, fingerprint=digest if nth == 1 else f"{digest}-{nth}"))
    return tuple(made)


def _fingerprinted(kernels: Iterable[KernelReport], source: SourceFile) -> Iterator[KernelReport]:
    count: dict[str, int] = {}
    for kernel in kernels:
        yield replace(kernel, findings=_identified(kernel.findings, source, count)) if kernel.findings else kernel


# --------------------------------------------------------------------------------- what the user does not want
def _with_levels(report: FileReport, settings: Settings) -> FileReport:
    """Findings at the levels that the user gave to their rules or families."""
    family = {rule.slug: rule.family for rule in _rules((), ())}
    chosen: dict[str, Level] = dict(settings.levels)

    def leveled(finding: Finding) -> Finding:
        level = chosen.get(finding.rule, chosen.get(family.get(finding.rule, ""), finding.level))
        return finding if level is finding.level else replace(finding, level=level)

    kernels = []
    for kernel in report.kernels:
        findings = tuple(map(leveled, kernel.findings))
        verdict = kernel.verdict
        if verdict is not Verdict.INCOMPLETE:
            real = any(finding.level is not Level.NOTE for finding in findings)
            verdict = Verdict.FINDINGS if real else Verdict.CLEAN
        kernels.append(replace(kernel, findings=findings, verdict=verdict))
    return replace(report, kernels=tuple(kernels), findings=tuple(map(leveled, report.findings)))


def _without_suppressed(
    report: FileReport, source: SourceFile, kernels: Sequence[Span], settings: Settings, rules: Sequence[LoadedRule]
) -> FileReport:
    from warplint import suppress

    asked = frozenset(
        rule.slug
        for rule in rules
        if rule.rule.comments or rule.check is not None or (settings.execute and rule.check_execution is not None)
    )
    known = suppress.Known({rule.slug: rule.family for rule in _rules((), ())}, asked)
    report = suppress.apply(report, source, suppress.read(source, kernels, known), settings.suppress, known)
    return replace(report, findings=_identified(report.findings, source, {}))


def _from_level(report: FileReport, level: Level) -> FileReport:
    """Without the findings below a level."""
    if level is Level.NOTE:
        return report

    def reported(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
        return tuple(finding for finding in findings if finding.level.rank >= level.rank)

    return replace(
        report,
        kernels=tuple(
            replace(kernel, findings=reported(kernel.findings)) if kernel.findings else kernel
            for kernel in report.kernels
        ),
        findings=reported(report.findings),
        suppressed=tuple(one for one in report.suppressed if one.finding.level.rank >= level.rank),
    )
