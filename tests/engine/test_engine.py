"""What the engine makes of what rules say: one finding per cause, verdicts, and faults that stay where they are."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from warplint import engine
from warplint.engine import Settings, lint_bytes, lint_paths
from warplint.finding import Finding, Level, Location, Symptom, Verdict
from warplint.machine import Execution
from warplint.machine.compile import Code
from warplint.machine.outcome import BlockedRecord, Fault, Outcome, Party
from warplint.program.ir import Fact, Incomplete, Kernel, LaunchInfo, Operation, Seq
from warplint.registry import LoadedRule, UnknownRule
from warplint.rule import Rule
from warplint.source import Span
from warplint.threads.facts import Event, Reach, RoleNode, Roles

DATA = b"first\n  second();\nthird\n\tsecond();\nfifth\n"
NOWHERE = Span(0, 0)


def finding(rule="rule-a", line=2, level=Level.ERROR, message="it hangs", kernel="k", related=(), column=3):
    return Finding(rule, level, Symptom.DEADLOCK, message, Location("a.cu", line, column), kernel, related=related)


def roles(kernel, threads=256, assumed=False, events=(), incomplete=()):
    launch = LaunchInfo(block=Fact((threads, 1, 1), "assumed"), arch="sm_90a")
    tree = RoleNode("kernel", kernel.name, NOWHERE, Reach((1 << threads) - 1))
    return Roles(kernel, launch, assumed, tree, tuple(events), (), (), (), (), (), tuple(incomplete))


def event(name, threads):
    op = Operation(name, NOWHERE, {}, {}, name)
    return Event(op, 0, Reach(threads), (1 << 256) - 1, (), (), {})


@dataclass
class World:
    """What the analysis would say: kernels, the shapes of each, and the rules with what they find."""

    shapes: dict = field(default_factory=dict)
    rules: list = field(default_factory=list)

    def kernel(self, name="k", incomplete=(), **shape):
        made = Kernel(name, Span(0, 5), (), Seq(NOWHERE, ()), LaunchInfo(), (), incomplete=tuple(incomplete))
        self.shapes[made.name] = (made, [shape])
        return made

    def rule(self, slug, says=None, executed=None, **metadata):
        """A rule with a structural half, an executed one, or both."""
        halves = {name: half for name, half in (("check", says), ("check_execution", executed)) if half}
        metadata = {"executes": executed is not None, **metadata}
        module = SimpleNamespace(RULE=Rule(Level.ERROR, Symptom.DEADLOCK, **metadata), __name__=slug, **halves)
        self.rules.append(LoadedRule(slug, "family", module))  # type: ignore[arg-type]


@pytest.fixture
def world(monkeypatch):
    made = World()

    def module(source, _settings):
        return SimpleNamespace(kernels=[kernel for kernel, _ in made.shapes.values()], incomplete=(), source=source)

    monkeypatch.setattr(engine, "lower_source", module)
    monkeypatch.setattr(engine, "_rules", lambda *_: tuple(made.rules))
    analyze = lambda kernel: tuple(roles(kernel, **shape) for shape in made.shapes[kernel.name][1])  # noqa: E731
    monkeypatch.setattr("warplint.threads.analyze", analyze, raising=False)
    return made


def lint(**settings):
    (kernel,) = lint_bytes("a.cu", DATA, Settings(**settings)).kernels
    return kernel


def says(*findings):
    return lambda _: iter(findings)


# ------------------------------------------------------------------------------------------------- findings
def test_one_finding_per_rule_and_line(world):
    world.kernel()
    world.rule("rule-a", says(finding(column=9, level=Level.WARNING), finding(column=3), finding(line=4)))
    first, second = lint().findings
    assert (first.location.line, first.location.column, first.level) == (2, 3, Level.ERROR)
    assert [(place.line, place.column) for place in first.related] == [(2, 9)]
    assert second.location.line == 4 and not second.related


def test_sorted_by_place_then_rule(world):
    world.kernel()
    world.rule("rule-b", says(finding("rule-b", 4), finding("rule-b", 2)))
    world.rule("rule-a", says(finding("rule-a", 4)))
    assert [(f.location.line, f.rule) for f in lint().findings] == [(2, "rule-b"), (4, "rule-a"), (4, "rule-b")]


def test_a_consequence_is_dropped_where_it_shares_a_line(world):
    world.kernel()
    world.rule("cause", says(finding("cause", 2)), supersedes=("effect",))
    effect = finding("effect", 5, related=(Location("a.cu", 2),))
    world.rule("effect", says(effect, finding("effect", 4)))
    assert [(f.rule, f.location.line) for f in lint().findings] == [("cause", 2), ("effect", 4)]


def test_mutual_precedence_keeps_one(world):
    world.kernel()
    world.rule("one", says(finding("one")), supersedes=("two",))
    world.rule("two", says(finding("two")), supersedes=("one",))
    assert [f.rule for f in lint().findings] == ["one"]


def test_last_resort_speaks_only_when_alone(world):
    world.kernel()
    world.rule("resort", says(finding("resort", 4)), last_resort=True)
    assert [f.rule for f in lint().findings] == ["resort"]
    world.rule("warns", says(finding("warns", 2, Level.WARNING)))
    assert [f.rule for f in lint().findings] == ["warns", "resort"]
    world.rule("names-it", says(finding("names-it", 2)))
    assert [f.rule for f in lint().findings] == ["names-it", "warns"]


def test_level_filters_what_is_shown_but_not_the_verdict(world):
    world.kernel()
    world.rule("rule-a", says(finding(level=Level.WARNING), finding(line=4, level=Level.NOTE)))
    assert [f.level for f in lint(level=Level.NOTE).findings] == [Level.WARNING, Level.NOTE]
    shown = lint(level=Level.ERROR)
    assert shown.findings == () and shown.verdict is Verdict.FINDINGS


# ------------------------------------------------------------------------------ structural and executed halves
@pytest.fixture
def executed(world, monkeypatch):
    """A kernel that is executed; the outcomes are the test's to fill in."""
    kernel = world.kernel()
    world.shapes["k"] = (kernel, [{"events": [event("bar.sync.cta", 1)]}])
    outcomes = []
    run = lambda roles, *_, **__: Execution(roles, tuple(outcomes), Code([]))  # noqa: E731
    monkeypatch.setattr("warplint.machine.execute", run)
    return outcomes


def test_two_independent_faults_are_both_found(world, executed):
    world.rule("columns", says(finding("columns", 2)))
    world.rule("race", executed=says(finding("race", 4)))
    assert [f.rule for f in lint().findings] == ["columns", "race"]


def test_what_an_execution_shows_at_the_place_of_a_structural_error_is_its_consequence(world, executed):
    world.rule("columns", says(finding("columns", 2, related=(Location("a.cu", 3),))))
    world.rule("leak", executed=says(finding("leak", 5, related=(Location("a.cu", 2),)), finding("other", 3)))
    world.rule("race", executed=says(finding("race", 4)))
    assert [f.rule for f in lint().findings] == ["columns", "race"]


def test_a_warning_explains_nothing(world, executed):
    world.rule("habit", says(finding("habit", 2, Level.WARNING)))
    world.rule("race", executed=says(finding("race", 2)))
    assert [f.rule for f in lint().findings] == ["habit", "race"]


def test_the_executed_half_of_a_rule_is_silent_where_its_structural_half_spoke(world, executed):
    both = finding("both", 5, related=(Location("a.cu", 4),), message="executed")
    world.rule(
        "both",
        says(finding("both", 2, Level.WARNING, related=(Location("a.cu", 4),), message="structural")),
        says(both, finding("both", 3, message="elsewhere")),
    )
    assert [f.message for f in lint().findings] == ["structural", "elsewhere"]


def test_after_an_error_that_spoils_the_schedule_only_local_rules_are_asked(world, executed):
    world.rule("divergent", says(finding("divergent", 2)), spoils="schedule")
    world.rule("deadlock", executed=says(finding("deadlock", 4)))
    world.rule("fence", executed=says(finding("fence", 5)), local=True)
    report = lint()
    assert [f.rule for f in report.findings] == ["divergent", "fence"]
    assert report.verdict is Verdict.FINDINGS


def test_nothing_is_executed_after_an_error_that_spoils_everything(world, executed):
    world.rule("no-init", says(finding("no-init", 2)), spoils="everything")
    world.rule("fence", executed=says(finding("fence", 5)), local=True)
    report = lint()
    assert [f.rule for f in report.findings] == ["no-init"]
    assert dict(report.facts)["protocol"] == "not executed: it depends on the errors that were found"


def blocked(**more):
    stuck = BlockedRecord(Party(0, 1), Span(8, 9), "named barrier", ("bar", 0, 1))
    return Outcome("n = 3", blocked=[stuck], **more)


def test_a_block_that_no_finding_explains_is_never_clean(world, executed):
    executed.append(blocked())
    world.rule("race", executed=says())
    report = lint()
    assert report.verdict is Verdict.INCOMPLETE
    assert "threads wait for ever at the named barrier" in report.reasons[0].text and report.reasons[0].line == 2


def test_a_block_that_an_error_explains_is_no_reason(world, executed):
    executed.append(blocked())
    world.rule("race", executed=says(finding("race", 4)))
    assert lint().verdict is Verdict.FINDINGS


def test_a_broken_operation_that_no_finding_names_is_never_clean(world, executed):
    fault = Fault("named-count-differs", Party(0, 1), Span(20, 21))
    executed.append(Outcome("n = 3", faults=[fault]))
    world.rule("race", executed=says())
    assert "two thread counts" in lint().reasons[0].text


# ------------------------------------------------------------------------------------------- unknown shapes
def test_kept_when_it_holds_for_every_assumed_block(world):
    kernel = world.kernel()
    everyone = (1 << 128) - 1
    world.shapes["k"] = (
        kernel,
        [{"threads": n, "assumed": True, "events": [event("bar.sync.cta", everyone >> 1)]} for n in (128, 256)],
    )
    always = finding(line=2)
    world.rule("rule-a", lambda r: iter([always, finding(line=4)] if r.threads == 128 else [always]))
    report = lint()
    assert [f.location.line for f in report.findings] == [2]
    assert report.verdict is Verdict.INCOMPLETE
    assert "block size unknown (assumed 128, 256 threads" in report.reasons[0].text
    assert report.reasons[0].line == 1


def test_unknown_block_does_not_matter_where_nothing_depends_on_it(world):
    kernel = world.kernel()
    world.shapes["k"] = (
        kernel,
        [{"threads": n, "assumed": True, "events": [event("bar.sync.cta", (1 << n) - 1)]} for n in (128, 256)],
    )
    assert lint().verdict is Verdict.CLEAN


# ------------------------------------------------------------------------------------------------- verdicts
def test_verdicts(world):
    world.kernel()
    assert lint().verdict is Verdict.CLEAN
    world.rule("rule-a", says(finding(level=Level.NOTE)))
    assert lint(level=Level.NOTE).verdict is Verdict.CLEAN
    world.rules.clear()
    world.rule("rule-a", says(finding()))
    assert lint().verdict is Verdict.FINDINGS


def test_reasons_are_said_once_in_source_order(world):
    world.kernel(
        incomplete=[
            Incomplete("`f` is not defined here", Span(32, 33)),
            Incomplete("`f` is not defined here", Span(8, 9)),
            Incomplete("`f` is not defined here", Span(9, 10)),
            Incomplete("a macro", Span(0, 1)),
        ]
    )
    report = lint()
    assert report.verdict is Verdict.INCOMPLETE
    assert [(r.text, r.line) for r in report.reasons] == [("a macro", 1), ("`f` is not defined here (also line 4)", 2)]


def test_facts(world):
    world.kernel()
    facts = dict(lint().facts)
    assert facts["block"] == "256 x 1 x 1 assumed" and facts["arch"] == "sm_90a"
    assert facts["protocol"] == "not executed: structural checks only"


# --------------------------------------------------------------------------------------------------- faults
def test_a_fault_in_a_rule_is_a_problem_and_the_rest_goes_on(world):
    world.kernel()

    def broken(_):
        yield finding("broken", 2)
        raise ZeroDivisionError("by zero")

    world.rule("broken", broken)
    world.rule("rule-a", says(finding(line=4)))
    report = lint_bytes("a.cu", DATA, Settings())
    assert "internal error in rule broken on kernel k: ZeroDivisionError: by zero" in report.problem
    assert "please report" in report.problem
    assert "rule-a" in [f.rule for f in report.kernels[0].findings]
    assert report.kernels[0].verdict is Verdict.INCOMPLETE


def test_a_fault_in_one_kernel_leaves_the_others(world, monkeypatch):
    world.kernel("one")
    world.kernel("two")
    world.rule("rule-a", says(finding()))

    def analyze(kernel):
        if kernel.name == "one":
            raise RecursionError("too deep")
        return (roles(kernel),)

    monkeypatch.setattr("warplint.threads.analyze", analyze)
    report = lint_bytes("a.cu", DATA, Settings())
    assert "internal error in kernel one: RecursionError" in report.problem
    assert [(k.name, k.verdict) for k in report.kernels] == [("one", Verdict.INCOMPLETE), ("two", Verdict.FINDINGS)]


def test_no_absolute_path_in_an_internal_error(world):
    world.kernel()
    world.rule("broken", lambda _: [][1])
    assert "/" not in lint_bytes("a.cu", DATA, Settings()).problem.split(", please")[0].replace("rule/kernel", "")


# --------------------------------------------------------------------------------------------- fingerprints
def prints(data, findings, world):
    world.rules.clear()
    world.rule("rule-a", says(*findings))
    return [f.fingerprint for f in lint_bytes("a.cu", data, Settings()).kernels[0].findings]


def test_fingerprints_survive_shifted_lines_and_indentation(world):
    world.kernel()
    before = prints(DATA, [finding(line=2), finding(line=4)], world)
    after = prints(b"\n\n" + DATA, [finding(line=4), finding(line=6)], world)
    assert before == after
    assert len(set(before)) == 2  # the same text twice is two findings
    assert prints(DATA, [finding(line=3)], world) != before[:1]


# ---------------------------------------------------------------------------------------------------- input
def test_too_large_and_wrong_encoding_are_incomplete():
    report = lint_bytes("a.cu", b"x" * 100, Settings(max_bytes=99))
    assert not report.problem and "larger than 99 bytes" in report.reasons[0].text
    report = lint_bytes("a.cu", "int x;".encode("utf-16"), Settings())
    assert "UTF-16" in report.reasons[0].text


def test_unknown_rule_names():
    with pytest.raises(UnknownRule, match="cta-barrier-in-divergent-code"):
        lint_bytes("a.cu", b"", Settings(select=("cta-barrier-in-divergent-cod",)))


def test_settings_may_differ_by_input(tmp_path):
    from warplint.discover import Input

    (tmp_path / "a.cu").write_bytes(b"x" * 10)
    item = Input(str(tmp_path / "a.cu"), "a.cu")
    (small,) = lint_paths([item], lambda _: replace(Settings(), max_bytes=5))
    assert small.reasons
