"""One recorded execution with its cast: what all tables are derived from, and how its things are called."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator

from warplint.handoffs.ahead import Ahead
from warplint.handoffs.recorder import Moment, Recorder
from warplint.handoffs.who import Cast
from warplint.machine.outcome import Outcome
from warplint.program.ir import Symbol
from warplint.source import Span
from warplint.threads.facts import Roles

LOOK = 400
"""Moments of one role that are looked at before or after another one."""
ARRIVES = {
    "mbarrier.arrive": "arrive", "mbarrier.arrive.noComplete": "arrive", "mbarrier.arrive_drop": "arrive_drop",
    "mbarrier.arrive.expect_tx": "arrive.expect_tx", "mbarrier.expect_tx": "expect_tx",
    "mbarrier.complete_tx": "complete_tx", "tcgen05.commit": "commit", "cp.async.mbarrier.arrive": "cp.async",
    "cp.async.bulk.g2s": "copy", "cp.async.bulk.s2s": "copy", "cp.async.bulk.tensor.load": "copy",
    "multicast.cluster": "copy", "st.async": "copy", "red.async": "copy", "clusterlaunchcontrol.try_cancel": "copy",
}  # fmt: skip
"""Operations that contribute to a phase of an mbarrier, and how."""
WAITS = frozenset({"mbarrier.try_wait", "mbarrier.test_wait"})
MEETS = {
    "bar.sync.cta": "CTA barrier", "bar.red.cta": "CTA barrier", "grid.sync": "CTA barrier",
    "bar.sync.named": "named barrier",
    "bar.arrive.named": "named barrier", "barrier.nonaligned": "named barrier",
    "barrier.cluster.arrive": "cluster barrier", "barrier.cluster.wait": "cluster barrier",
    "amd.s_barrier": "CTA barrier", "hip.__syncthreads": "CTA barrier",
}  # fmt: skip
"""Barriers that are not mbarriers."""
FENCES = {
    "fence.proxy.async": "fence.proxy.async", "tcgen05.fence.before_thread_sync": "tcgen05.fence::before_thread_sync",
    "tcgen05.fence.after_thread_sync": "tcgen05.fence::after_thread_sync", "tcgen05.wait": "tcgen05.wait::",
    "cp.async.bulk.wait_group": "bulk wait_group", "cp.async.wait_group": "cp.async.wait_group",
    "wgmma.wait_group": "wgmma.wait_group", "fence.acq_rel.cluster": "fence.acq_rel",
    "fence.mbarrier_init.release.cluster": "fence.mbarrier_init", "bar.warp.sync": "__syncwarp",
    "amd.s_waitcnt": "s_waitcnt",
}  # fmt: skip
"""What makes data visible or complete, and how it is written."""


class Scene:
    """One execution: who, what, where."""

    def __init__(self, roles: Roles, outcome: Outcome, recorder: Recorder) -> None:
        self.roles, self.outcome, self.recorder = roles, outcome, recorder
        self.moments = recorder.moments
        self.ctas = sorted({moment.cta for moment in self.moments})
        self.cast = Cast(roles, self.moments, self.ctas)
        self.rings: dict[Hashable, str] = {}
        """Name of the ring a barrier word (or another barrier) belongs to."""
        self.ahead = Ahead(roles, recorder, ARRIVES)
        self.index: dict[int, int] = {moment.number: at for at, moment in enumerate(self.moments)}

    def line(self, span: Span) -> int:
        """The line of a span."""
        return self.roles.kernel.source.line_of(span.start)

    def lines(self, spans: Iterable[Span]) -> tuple[int, ...]:
        """The lines of spans, ascending, each once."""
        return tuple(sorted({self.line(span) for span in spans}))

    def role(self, moment: Moment) -> str:
        """The role of a moment's threads."""
        return self.cast.role(moment.cta, moment.threads)

    def who(self, cta: int, threads: int) -> str:
        """Role and threads: "MMA (lane 0 of warp 4)", with its CTA in a cluster."""
        role, text = self.cast.role(cta, threads), self.cast.threads(threads)
        short = text.rpartition(" (")[0] or text
        where = f"CTA {cta}" if len(self.ctas) > 1 else ""
        more = ", ".join(part for part in ("" if short in role else short, where) if part)
        return f"{role} ({more})" if more else role

    def label(self, key: Hashable) -> str:
        """A barrier as the source's storage: `full[1]`, `pool + 8`, `barrier 3`; with its CTA in a cluster."""
        if key == "cluster":
            return "cluster barrier"
        if not isinstance(key, tuple):
            return "a barrier"
        where = ""
        if len(self.ctas) > 1:
            where = f" of CTA {key[1] if key[0] in ('bar', 'cta') else key[0]}"
        return word_label(key) + where

    def name(self, key: Hashable) -> str:
        """A barrier as the tables call it, with its word: "B2 (pool + 24)"."""
        ring = self.rings.get(key)
        if not ring or isinstance(key, str) or (isinstance(key, tuple) and key[0] == "cta"):
            return ring or self.label(key)
        return f"{ring} ({self.label(key)})"

    def before(self, moment: Moment) -> Iterator[Moment]:
        """What threads of a moment did before it, latest first."""
        return self._near(moment, range(self.index[moment.number] - 1, -1, -1))

    def after(self, moment: Moment) -> Iterator[Moment]:
        """What threads of a moment did after it."""
        return self._near(moment, range(self.index[moment.number] + 1, len(self.moments)))

    def _near(self, moment: Moment, indices: range) -> Iterator[Moment]:
        seen = 0
        for at in indices[: LOOK * 8]:
            other = self.moments[at]
            if other.cta == moment.cta and other.threads & moment.threads:
                seen += 1
                if seen > LOOK:
                    return
                yield other


def word_label(key: Hashable) -> str:
    """A barrier word, named or CTA barrier without its CTA."""
    assert isinstance(key, tuple)
    if key[0] == "bar":
        return f"barrier {key[2]}" if key[2] >= 0 else "barriers with an id for each warp"
    if key[0] == "cta":
        return "__syncthreads"
    _, base, offset = key
    if not isinstance(base, Symbol):
        return f"shared + {offset}"
    size = base.element_bytes
    if size == 8 and base.dims and offset % 8 == 0:
        return f"{base.name}[{offset // 8}]"
    return f"{base.name} + {offset}" if offset or base.dims or base.kind == "dynamic_shared" else base.name


def each_once(items: Iterable[str], limit: int = 8) -> tuple[str, ...]:
    """Each text once, in order; more than `limit` are counted."""
    found = list(dict.fromkeys(items))
    return (*found[:limit], f"and {len(found) - limit} more") if len(found) > limit else tuple(found)


def fence_words(moment: Moment, line: Callable[[Span], int]) -> str:
    """A fence or wait as the tables print it: "tcgen05.wait::ld (line 460)"."""
    text = FENCES[moment.op]
    if moment.op == "tcgen05.wait":
        text += moment.fence or "ld"
    detail = dict(moment.details)
    if "group" in detail:
        text += f" {detail['group']}"
    return f"{text} (line {line(moment.span)})"
