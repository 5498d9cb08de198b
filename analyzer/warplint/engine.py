"""Runs the analysis and the rules over files and turns what they say into `FileReport`s.

The engine decides what is one finding (`_merge`), who may speak when two rules see one cause (`_precedence`), what the
verdict on a kernel is, and that a fault of ours in one kernel never silences another: it becomes a problem of its file.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

from warplint.finding import FileReport, Finding, KernelReport, Level, Location, Reason, TreeNode, Verdict
from warplint.registry import LoadedRule, select
from warplint.source import DEFAULT_MAX_BYTES, SourceFile

if TYPE_CHECKING:
    from warplint.discover import Input
    from warplint.machine import Execution
    from warplint.program import Module
    from warplint.program.ir import Incomplete, Kernel
    from warplint.threads.facts import Roles

MAX_REASONS = 20
"""Reasons printed per kernel; more of one kind are counted."""
COLLECT_BYTES = 2_000_000
"""Source after which the garbage of analysed files is collected."""


@dataclass(frozen=True, slots=True)
class Settings:
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
    expect: tuple[str, ...] = ()
    """Fast paths that should be there: tma, tcgen05, wgmma, mfma."""
    max_bytes: int = DEFAULT_MAX_BYTES
    execute: bool = True
    """Execute the hand-off protocol; without it only the structural rules speak."""
    tree: bool = field(default=False, compare=False)
    """Fill in `KernelReport.tree`; off where no report prints it."""


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
        if enabled:
            gc.enable()


def lint_paths(inputs: Iterable[Input], settings: Settings | Callable[[Input], Settings]) -> Iterator[FileReport]:
    """Analyse inputs one by one, in order, under one `Settings` or one per input. Raises UnknownRule."""
    uncollected = 0
    for item in inputs:
        if item.problem:
            yield FileReport(item.name, problem=item.problem)
            continue
        if uncollected > COLLECT_BYTES:
            gc.collect()
            uncollected = 0
        chosen = settings if isinstance(settings, Settings) else settings(item)
        try:
            data = read_input(item, chosen.max_bytes + 1)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            yield FileReport(item.name, problem=f"cannot be read: {reason}")
            continue
        uncollected += len(data)
        yield lint_bytes(item.name, data, chosen)


def read_input(item: Input, limit: int) -> bytes:
    """At most `limit` bytes of an input; `-` is standard input. Raises OSError."""
    if item.path == "-":
        import sys

        return sys.stdin.buffer.read(limit)
    with open(item.path, "rb") as file:
        return file.read(limit)


@cache
def _rules(chosen: tuple[str, ...], ignored: tuple[str, ...]) -> tuple[LoadedRule, ...]:
    return select(chosen, ignored)


# ------------------------------------------------------------------------------------------------- one file
def _lint(path: str, data: bytes, settings: Settings, rules: Sequence[LoadedRule]) -> FileReport:
    if len(data) > settings.max_bytes:
        text = f"not analysed: larger than {settings.max_bytes} bytes (raise the limit with --max-bytes)"
        return FileReport(path, reasons=(Reason(text),))
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return FileReport(path, reasons=(Reason("not analysed: the file is UTF-16; save it as UTF-8", 1),), data=data)
    source = SourceFile(path, data)
    try:
        module = _lower(source, settings)
    except Exception as error:  # a fault of ours must not stop the other files
        return FileReport(path, problem=_internal(error, "reading the file"), data=data)
    problems: list[str] = []
    kernels = []
    for kernel in module.kernels:
        try:
            kernels.append(_judge(kernel, source, settings, rules, problems))
        except Exception as error:
            problems.append(_internal(error, f"kernel {kernel.name}"))
            kernels.append(_unjudged(kernel, source, problems[-1]))
    reasons = _reasons(source, getattr(module, "incomplete", ()))
    return FileReport(
        path,
        kernels=tuple(_fingerprinted(kernels, source)),
        problem="; ".join(problems),
        reasons=reasons,
        data=data,
    )


def _lower(source: SourceFile, settings: Settings) -> Module:
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
    )
    return lower(parse(source), source, options)


def _internal(error: Exception, where: str) -> str:
    """One line that names the place of a fault of ours, without absolute paths."""
    import traceback

    place = ""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if "warplint" in frame.filename:
            place = f" at {frame.filename.replace(chr(92), '/').rpartition('/')[2]}:{frame.lineno}"
            break
    text = " ".join(str(error).split())[:200]
    return f"internal error in {where}: {type(error).__name__}: {text}{place}, please report it"


# ----------------------------------------------------------------------------------------------- one kernel
def _judge(
    kernel: Kernel, source: SourceFile, settings: Settings, rules: Sequence[LoadedRule], problems: list[str]
) -> KernelReport:
    from warplint.threads import analyze

    shapes = analyze(kernel)
    by_slug = {rule.slug: rule for rule in rules}
    structural = [rule for rule in rules if not rule.rule.executes]
    executing = [rule for rule in rules if rule.rule.executes]
    findings = _said(kernel, structural, shapes, problems)
    executions: list[Execution] = []
    unexecuted = ""
    if not executing or not settings.execute:
        unexecuted = "structural checks only"
    elif any(finding.level is Level.ERROR for finding in findings):
        # what a narrowed collective or a missing init does to the protocol is a consequence of it
        unexecuted = "it depends on the errors that were found"
    elif kernel.is_amd:
        unexecuted = "the wave barriers and counters of AMD are not modelled"
    elif not kernel.shared and not any(roles.events for roles in shapes):
        unexecuted = "the kernel has no synchronisation and no shared memory"
    elif kernel.damaged:
        unexecuted = "part of the kernel could not be read"
    else:
        from warplint.machine import execute

        executions = [execute(roles) for roles in shapes]
        findings += _said(kernel, executing, executions, problems)
    findings = _precedence(findings, by_slug)
    incomplete = [*kernel.incomplete]
    for roles in shapes:
        incomplete.extend(roles.incomplete)
    for execution in executions:
        incomplete.extend(execution.incomplete)
    reasons = [*_reasons(source, incomplete)]
    if any(roles.assumed_block for roles in shapes) and any(map(_depends_on_block, shapes)):
        assumed = ", ".join(str(roles.threads) for roles in shapes)
        reasons.insert(
            0,
            Reason(
                f"block size unknown (assumed {assumed} threads; a finding is kept when it holds for all of them); "
                "pass --block",
                source.line_of(kernel.span.start),
            ),
        )
    broken = [text for text in problems if f"on kernel {kernel.name}:" in text]
    reasons.extend(Reason(text) for text in broken)
    if reasons:
        verdict = Verdict.INCOMPLETE
    elif any(finding.level is not Level.NOTE for finding in findings):
        verdict = Verdict.FINDINGS
    else:
        verdict = Verdict.CLEAN
    shown = tuple(sorted((f for f in findings if f.level.rank >= settings.level.rank), key=_order))
    return KernelReport(
        name=kernel.name,
        path=source.path,
        line=source.line_of(kernel.span.start),
        verdict=verdict,
        reasons=tuple(reasons),
        findings=shown,
        tree=_tree(shapes[0], source) if settings.tree and shapes else None,
        facts=_facts(kernel, shapes, executions, unexecuted),
    )


def _said(
    kernel: Kernel, rules: Sequence[LoadedRule], subjects: Sequence[Roles | Execution], problems: list[str]
) -> list[Finding]:
    """What the rules say about a kernel: findings that hold for each of its assumed shapes."""
    per_shape = []
    for subject in subjects:
        said: list[Finding] = []
        for rule in rules:
            try:
                said.extend(rule.check(subject))
            except Exception as error:
                text = _internal(error, f"rule {rule.slug} on kernel {kernel.name}")
                if text not in problems:
                    problems.append(text)
        per_shape.append(_merge(said))
    return _in_every_shape(per_shape)


def _unjudged(kernel: Kernel, source: SourceFile, problem: str) -> KernelReport:
    line = source.line_of(kernel.span.start)
    return KernelReport(kernel.name, source.path, line, Verdict.INCOMPLETE, (Reason(problem, line),))


def _tree(roles: Roles, source: SourceFile) -> TreeNode:
    from warplint.roletree import build

    return build(roles, source)


_SIZE_BOUND = ("mbarrier.", "bar.sync.named", "bar.arrive.named", "setmaxnreg", "wgmma.", "tcgen05.")
"""Operations whose rules depend on how many threads the block has even where all of them reach it."""


def _depends_on_block(roles: Roles) -> bool:
    """Whether the verdict could change with the block size: a place that not every thread reaches, or a count."""
    everyone = roles.everyone
    return any(
        event.reach.threads != everyone or not event.reach.exact or event.name.startswith(_SIZE_BOUND)
        for event in roles.events
    )


def _facts(
    kernel: Kernel, shapes: Sequence[Roles], executions: Sequence[Execution], unexecuted: str
) -> tuple[tuple[str, str], ...]:
    launch = shapes[0].launch if shapes else kernel.launch
    facts = []
    if launch.arch:
        facts.append(("arch", launch.arch))
    if launch.block:
        sizes = " or ".join(" x ".join(map(str, s.launch.block.value)) for s in shapes if s.launch.block)
        facts.append(("block", f"{sizes} {launch.block.origin}".strip()))
    if launch.cluster:
        facts.append(("cluster", f"{' x '.join(map(str, launch.cluster.value))} {launch.cluster.origin}".strip()))
    if launch.smem:
        facts.append(("dynamic shared memory", f"{launch.smem.value[0]} bytes {launch.smem.origin}".strip()))
    if executions:
        tried = list(dict.fromkeys(outcome.scenario for execution in executions for outcome in execution.outcomes))
        more = f" and {len(tried) - 3} more" if len(tried) > 3 else ""
        facts.append(("protocol", f"executed with {'; '.join(tried[:3])}{more}"))
    else:
        facts.append(("protocol", f"not executed: {unexecuted}"))
    return tuple(facts)


def _reasons(source: SourceFile, incomplete: Iterable[Incomplete]) -> tuple[Reason, ...]:
    """Reasons in source order, each said once; many of one text are folded into the first."""
    lines: dict[str, list[int]] = {}
    for item in incomplete:
        line = source.line_of(item.span.start) if item.span else 0
        places = lines.setdefault(item.reason, [])
        if line not in places:
            places.append(line)
    reasons = []
    for text, places in sorted(lines.items(), key=lambda item: (min(item[1]), item[0])):
        first, rest = min(places), sorted(places)[1:]
        if rest:
            more = ", ".join(map(str, rest[:5])) + (f" and {len(rest) - 5} more" if len(rest) > 5 else "")
            text = f"{text} (also line{'s' if len(rest) > 1 else ''} {more})"
        reasons.append(Reason(text, first))
    if len(reasons) > MAX_REASONS:
        left = len(reasons) - MAX_REASONS
        reasons[MAX_REASONS:] = [Reason(f"and {left} more reason{'s' if left > 1 else ''} like these")]
    return tuple(reasons)


# ------------------------------------------------------------------------------------------ which findings
def _order(finding: Finding) -> tuple[str, int, int, str, str]:
    place = finding.location
    return (place.path, place.line, place.column, finding.rule, finding.message)


def _merge(findings: Iterable[Finding]) -> list[Finding]:
    """One finding per rule and line: the first of the worst level; the places of the others become related ones."""
    groups: dict[tuple[str, str, int], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.rule, finding.location.path, finding.location.line), []).append(finding)
    merged = []
    for group in groups.values():
        group.sort(key=lambda f: (-f.level.rank, *_order(f)))
        best = group[0]
        related = list(best.related)
        seen = {(place.path, place.line, place.column) for place in (best.location, *related)}
        for other in group[1:]:
            for place in (other.location, *other.related):
                if (place.path, place.line, place.column) not in seen:
                    seen.add((place.path, place.line, place.column))
                    related.append(place if place.message else replace(place, message="the same here"))
        merged.append(replace(best, related=tuple(related)) if len(related) != len(best.related) else best)
    return merged


def _in_every_shape(per_shape: Sequence[list[Finding]]) -> list[Finding]:
    """Findings that appear for each assumed block shape (of one shape: all)."""
    if len(per_shape) < 2:
        return per_shape[0] if per_shape else []
    common = set.intersection(*({(f.rule, f.location.line) for f in found} for found in per_shape))
    return [f for f in per_shape[0] if (f.rule, f.location.line) in common]


def _precedence(findings: list[Finding], rules: dict[str, LoadedRule]) -> list[Finding]:
    """One cause gives one finding: drops what another finding at a shared line supersedes, and last resorts."""
    dropped: set[int] = set()
    for index, strong in enumerate(findings):
        losers = rules[strong.rule].rule.supersedes if strong.rule in rules else ()
        if not losers:
            continue
        lines = _lines(strong)
        for other, weak in enumerate(findings):
            if other != index and weak.rule in losers and index not in dropped and lines & _lines(weak):
                dropped.add(other)
    kept = [finding for index, finding in enumerate(findings) if index not in dropped]
    resort = {slug for slug, rule in rules.items() if rule.rule.last_resort}
    if any(f.level is Level.ERROR and f.rule not in resort for f in kept):
        kept = [f for f in kept if f.rule not in resort]
    return kept


def _lines(finding: Finding) -> set[tuple[str, int]]:
    places: tuple[Location, ...] = (finding.location, *finding.related)
    return {(place.path, place.line) for place in places}


def _fingerprinted(kernels: Iterable[KernelReport], source: SourceFile) -> Iterator[KernelReport]:
    """Gives each finding an identity that survives shifted lines: rule, kernel, text of the line, how manieth."""
    count: dict[str, int] = {}
    for kernel in kernels:
        if not kernel.findings:
            yield kernel
            continue
        from hashlib import sha256

        findings = []
        for finding in kernel.findings:
            text = " ".join(source.line_text(finding.location.line).split())
            base = "\0".join((finding.rule, kernel.name, text))
            nth = count[base] = count.get(base, -1) + 1
            digest = sha256(f"{base}\0{nth}".encode("utf-8", "replace")).hexdigest()[:16]
            findings.append(replace(finding, fingerprint=digest))
        yield replace(kernel, findings=tuple(findings))
