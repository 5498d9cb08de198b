"""Judges one kernel: what the rules say about it, which of that is one finding, and the verdict.

Structural rules look at who executes what (`Roles`); rules that execute look at what the machine saw (`Execution`). One
cause gives one finding: what another finding explains is dropped here, and so is what an execution shows only because
of an error that a structural rule has named (`Rule.spoils`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from warplint.finding import Finding, KernelReport, Level, Location, Reason, Symptom, TreeNode, Verdict
from warplint.registry import LoadedRule
from warplint.source import SourceFile, Span

if TYPE_CHECKING:
    from warplint.engine import Settings
    from warplint.machine import Execution
    from warplint.program.ir import Incomplete, Kernel
    from warplint.tables import Protocol
    from warplint.threads.facts import Roles

MAX_REASONS = 20
"""Reasons printed per kernel; more of one kind are counted."""


def internal(error: Exception, where: str) -> str:
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
def judge(
    kernel: Kernel, source: SourceFile, settings: Settings, rules: Sequence[LoadedRule], problems: list[str]
) -> KernelReport:
    """Analyse one kernel and let the rules speak; faults of ours are added to `problems`."""
    from warplint.threads import analyze

    shapes = analyze(kernel)
    present = {event.name for roles in shapes for event in roles.events}
    rules = [rule for rule in rules if rule.concerns(present)]
    by_slug = {rule.slug: rule for rule in rules}
    findings = _said(kernel, [(rule.slug, rule.check) for rule in rules], shapes, problems)
    executing = [rule for rule in rules if rule.check_execution] if settings.execute else []
    spoiled = max((_spoils(by_slug, finding) for finding in findings), default=0)
    executions: list[Execution] = []
    unexecuted = _not_executed(kernel, shapes, executing, spoiled)
    protocol: Protocol | None = None
    if not unexecuted:
        if settings.tables:
            executions, protocol = _with_tables(shapes, problems)
        else:
            from warplint.machine import execute

            executions = [execute(roles) for roles in shapes]
        speaking = [(rule.slug, rule.check_execution) for rule in executing if not spoiled or rule.rule.local]
        shown = _shown(kernel, speaking, executions, problems)
        shown = _independent(shown, by_slug)
        findings = [*findings, *(finding for finding in shown if not _explained(finding, findings))]
    findings = _precedence(findings, by_slug)
    incomplete = [*kernel.incomplete]
    for roles in shapes:
        incomplete.extend(roles.incomplete)
    if not spoiled:
        for execution in executions:
            incomplete.extend(execution.incomplete)
        if executions and not (settings.select or settings.ignore):
            incomplete.extend(_unexplained(executions, findings, source))
            incomplete.extend(_missed(executions, findings))
            incomplete.extend(_unclaimed(executions, findings, source))
    reasons = [*reasons_of(source, incomplete)]
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
    return KernelReport(
        name=kernel.name,
        path=source.path,
        line=source.line_of(kernel.span.start),
        verdict=verdict,
        reasons=tuple(reasons),
        findings=tuple(sorted((f for f in findings if f.level.rank >= settings.level.rank), key=_order)),
        tree=_tree(shapes[0], source) if settings.tree and shapes else None,
        facts=_facts(kernel, shapes, executions, unexecuted),
        protocol=protocol,
    )


def _with_tables(shapes: Sequence[Roles], problems: list[str]) -> tuple[list[Execution], Protocol | None]:
    """The executions, and the hand-off tables of the first shape."""
    from warplint.handoffs import protocol, record

    recorded = [record(roles) for roles in shapes]
    tables = None
    try:
        tables = protocol(recorded[0], recorded[0].chosen, (), ()) if recorded else None
    except Exception as error:  # a fault of the tables must not cost the verdict
        problems.append(internal(error, f"hand-off tables of kernel {shapes[0].kernel.name}"))
    return [one.execution for one in recorded], tables


def _spoils(rules: dict[str, LoadedRule], finding: Finding) -> int:
    """What a structural finding does to an execution: 0 nothing, 1 it spoils the schedule, 2 everything."""
    if finding.level is not Level.ERROR or finding.rule not in rules:
        return 0
    return ("nothing", "schedule", "everything").index(rules[finding.rule].rule.spoils)


def _not_executed(kernel: Kernel, shapes: Sequence[Roles], executing: Sequence[LoadedRule], spoiled: int) -> str:
    """Why the kernel is not executed; empty when it is."""
    if not executing:
        return "structural checks only"
    if spoiled == 2 or (spoiled and not any(rule.rule.local for rule in executing)):
        return "it depends on the errors that were found"
    if not kernel.shared and not any(roles.events for roles in shapes):
        return "the kernel has no synchronisation and no shared memory"
    return "part of the kernel could not be read" if kernel.damaged else ""


def _said(
    kernel: Kernel,
    checks: Iterable[tuple[str, Callable[..., Iterator[Finding]] | None]],
    subjects: Sequence[Roles | Execution],
    problems: list[str],
) -> list[Finding]:
    """What checks (each with its rule's slug) say about a kernel: findings that hold for each of its assumed shapes."""
    asked = [(slug, check) for slug, check in checks if check is not None]
    per_shape = []
    for subject in subjects:
        said: list[Finding] = []
        for slug, check in asked:
            try:
                said.extend(check(subject))
            except Exception as error:
                text = internal(error, f"rule {slug} on kernel {kernel.name}")
                if text not in problems:
                    problems.append(text)
        per_shape.append(_merge(said))
    return _in_every_shape(per_shape)


def _independent(shown: list[Finding], rules: dict[str, LoadedRule]) -> list[Finding]:
    """Where an execution itself shows an error that spoils the schedule, what else it shows of the schedule follows."""
    if not any(_spoils(rules, finding) for finding in shown):
        return shown
    return [f for f in shown if _spoils(rules, f) or f.rule not in rules or rules[f.rule].rule.local]


def _shown(
    kernel: Kernel,
    checks: Sequence[tuple[str, Callable[..., Iterator[Finding]] | None]],
    executions: Sequence[Execution],
    problems: list[str],
) -> list[Finding]:
    """What executions show. A hang that is seen only when a size is 0 is a note: the host may never launch that."""
    working = [execution.at_work for execution in executions]
    found = _said(kernel, checks, working, problems)
    idle = [outcome for execution in executions for outcome in execution.outcomes if outcome.idle]
    if any(finding.level is Level.ERROR for finding in found) or not any(outcome.troubled for outcome in idle):
        return found
    known = {(finding.rule, finding.location.line) for finding in found}
    for finding in _said(kernel, checks, executions, problems):
        if (finding.rule, finding.location.line) not in known:
            if finding.symptom is Symptom.DEADLOCK:
                first, rest = finding.message[:1], finding.message[1:]
                message = f"With an unknown size of 0, if that is ever launched: {first.lower()}{rest}"
                finding = replace(finding, level=Level.NOTE, message=message)
            found.append(finding)
    return found


def _explained(shown: Finding, structural: Sequence[Finding]) -> bool:
    """What an execution shows is the consequence of an error that a structural rule has reported at the same place."""
    lines = _lines(shown)
    place = (shown.location.path, shown.location.line)
    for finding in structural:
        if finding.rule == shown.rule:
            if lines & _lines(finding):
                return True
        elif finding.level is Level.ERROR:
            if place in _lines(finding) or (finding.location.path, finding.location.line) in lines:
                return True
    return False


_BROKEN = {
    "uninitialised": "an mbarrier is used that was not initialised",
    "inval-in-use": "an mbarrier is invalidated while others wait for it",
    "named-count-differs": "a named barrier is used with two thread counts in one generation",
    "cluster-re-arrival": "threads arrive at the cluster barrier twice in one generation",
    "cluster-wait-without-arrive": "threads wait for the cluster barrier without having arrived",
    "tmem-full": "tensor memory is allocated that is not free",
    "tmem-not-allocated": "tensor memory is freed that is not allocated",
}
"""Faults of an execution that break it whatever the rules think of them."""


def _unexplained(
    executions: Sequence[Execution], findings: Sequence[Finding], source: SourceFile
) -> Iterator[Incomplete]:
    """What an execution ends in although no finding says why: the kernel cannot be called clean.

    Each place once: threads that wait for ever, and broken operations at lines that no finding names.
    """
    from warplint.program.ir import Incomplete

    if any(finding.level is Level.ERROR for finding in findings):
        return
    named = {line for finding in findings for _, line in _lines(finding)}
    said: set[object] = set()
    for outcome in (outcome for execution in executions for outcome in execution.at_work.outcomes):
        broken = [(_BROKEN[f.kind], f.span) for f in outcome.faults if f.kind in _BROKEN]
        broken = [(text, span) for text, span in broken if source.line_of(span.start) not in named]
        ends = [(f"threads wait for ever at the {b.what}", b.span) for b in outcome.blocked[:1]]
        for text, span in (*broken, *ends):
            if (text, span) not in said:
                said.add((text, span))
                yield Incomplete(f"executed with {outcome.scenario}, {text}, and no rule says why", span)


MAX_LOOSE = 3
"""Places of one kernel that are named although they rest on loaded data."""
UNORDERED = frozenset({"unjoined", "incomplete", "no-fence", "late-fence"})
"""How far two accesses miss each other where a rule makes an error of it; less is common practice (notes, warnings)."""


def _unclaimed(
    executions: Sequence[Execution], findings: Sequence[Finding], source: SourceFile
) -> Iterator[Incomplete]:
    """What an execution shows and no rule speaks of: it rests on loaded data, or the rules leave it alone.

    Accesses that nothing orders, waits that may miss a phase, arrivals that may count for another one. Each pair of
    places once; places that a finding names are explained.
    """
    from warplint.program.ir import Incomplete

    if any(finding.level is Level.ERROR for finding in findings):
        return
    named = {line for finding in findings for _, line in _lines(finding)}
    said: set[object] = set()
    loose: list[Incomplete] = []
    for outcome in (outcome for execution in executions for outcome in execution.at_work.outcomes):
        shown: list[tuple[object, str, Span]] = []
        for hazard in outcome.hazards:
            first, second = hazard.first, hazard.second
            lines = source.line_of(first.span.start), source.line_of(second.span.start)
            if first.what == "tcgen05.ld" and hazard.order.value == "incomplete":
                continue  # registers that are used make the load wait: `tmem-load-not-waited` decides about it
            if hazard.order.value in UNORDERED and not named & {*lines}:
                pair = frozenset((first.span, second.span))
                text = f"nothing orders this {second.what} and the {first.what} at line {lines[0]}"
                shown.append((pair, text, second.span))
        for record in outcome.barriers.values():
            shown.extend(
                ((wait.span, "late"), f"a phase of `{record.label}` may pass before this wait sees it", wait.span)
                for wait in record.waits
                if wait.late and source.line_of(wait.span.start) not in named
            )
            shown.extend(
                ((came.span, "racing"), f"this may count for another phase of `{record.label}`", came.span)
                for came in record.racing
                if source.line_of(came.span.start) not in named
            )
        for key, text, span in shown:
            if key not in said:
                said.add(key)
                if outcome.established:
                    yield Incomplete(f"executed with {outcome.scenario}, {text}, and no rule says why", span)
                else:
                    loose.append(Incomplete(f"{text}, if the data is ever like {outcome.scenario}", span))
    if len(loose) > MAX_LOOSE:
        more = len(loose) - MAX_LOOSE + 1
        last = loose[MAX_LOOSE - 1]
        loose[MAX_LOOSE - 1 :] = [Incomplete(f"{last.reason}; {more - 1} more places are like that", last.span)]
    yield from loose


def _missed(executions: Sequence[Execution], findings: Sequence[Finding]) -> Iterator[Incomplete]:
    """Operations that no execution came to: nothing is known of them, unless an error or a hang keeps threads away."""
    from warplint.program.ir import Incomplete

    if any(finding.level is Level.ERROR for finding in findings):
        return
    for execution in executions:
        if any(outcome.blocked or not outcome.finished for outcome in execution.outcomes[:1]):
            continue  # said already
        for op in execution.missed:
            yield Incomplete("no execution came here: the sizes and data that were tried do not lead to it", op.span)


def unjudged(kernel: Kernel, source: SourceFile, problem: str) -> KernelReport:
    """The report on a kernel that a fault of ours kept from being judged."""
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


def reasons_of(source: SourceFile, incomplete: Iterable[Incomplete]) -> tuple[Reason, ...]:
    """Reasons in source order, each said once; many of one text are folded into the first."""
    lines: dict[str, list[int]] = {}
    for item in incomplete:
        line = source.line_of(item.span.start) if item.span else 0
        reason = item.reason
        if item.span and source.parts and item.span.start >= source.own:
            reason = f"{reason} ({source.at(item.span.start)[0].path})"
        places = lines.setdefault(reason, [])
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
            wins = weak.rule in losers and weak.level.rank <= strong.level.rank
            if wins and other != index and index not in dropped and lines & _lines(weak):
                dropped.add(other)
    kept = [finding for index, finding in enumerate(findings) if index not in dropped]
    resort = {slug for slug, rule in rules.items() if rule.rule.last_resort}
    if any(f.level is Level.ERROR and f.rule not in resort for f in kept):
        kept = [f for f in kept if f.rule not in resort]
    return kept


def _lines(finding: Finding) -> set[tuple[str, int]]:
    places: tuple[Location, ...] = (finding.location, *finding.related)
    return {(place.path, place.line) for place in places}
