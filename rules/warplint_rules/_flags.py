"""Flags in shared memory that an execution waited for: which of them was to hand an access over."""

from __future__ import annotations

from warplint.machine.memory import Hazard, Order
from warplint.machine.outcome import Handed, Outcome


def generic(hazard: Hazard) -> bool:
    """Between ordinary accesses that nothing joins."""
    return (
        hazard.order in (Order.UNJOINED, Order.SAME_WARP)
        and not hazard.first.tensor
        and all(
            access.proxy == "generic" and not access.pending and not access.done
            for access in (hazard.first, hazard.second)
        )
    )


def raised_for(outcome: Outcome, hazard: Hazard, joined: bool) -> Handed | None:
    """The store that the second access's threads waited for, made by some threads of the first access's group after it.

    `joined` tells whether the storing thread was joined with the whole group before: if not, its store cannot speak
    for the group; if so, only a release or an acquire can be missing.
    """
    first, second = hazard.first, hazard.second
    for flag in outcome.handed:
        by = flag.by
        if by.cta != first.cta or flag.to.cta != second.cta or not flag.waited(second):
            continue
        if not by.threads & first.threads or flag.span.start < first.span.start or flag.knew(first) is not joined:
            continue
        if joined or first.threads & ~by.threads:
            return flag
    return None


def unreleased(outcome: Outcome, hazard: Hazard) -> Handed | None:
    """The flag that was to order the two accesses, where its store does not release the first."""
    flag = raised_for(outcome, hazard, joined=True)
    return flag if flag is not None and not flag.hands(hazard.first) else None


def unacquired(outcome: Outcome, hazard: Hazard) -> Handed | None:
    """The flag that was to order the two accesses, where whoever waits for it does not acquire."""
    flag = raised_for(outcome, hazard, joined=True)
    return flag if flag is not None and flag.hands(hazard.first) and not flag.acquired(hazard.second) else None


def weak(outcome: Outcome, hazard: Hazard) -> bool:
    """A flag was to order the two accesses, and its store or its wait is too weak for that."""
    return unreleased(outcome, hazard) is not None or unacquired(outcome, hazard) is not None


def handed(outcome: Outcome, hazard: Hazard) -> bool:
    """Some flag hands the first access over, if only in part."""
    return any(raised_for(outcome, hazard, joined) is not None for joined in (True, False))
