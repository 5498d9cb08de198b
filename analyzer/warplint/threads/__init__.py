"""Who executes what: values over the threads of a block, and the role-guard tree (contract: `facts`)."""

from __future__ import annotations

from warplint.program.ir import Kernel
from warplint.threads.facts import Roles

__all__ = ["analyze"]


def analyze(kernel: Kernel) -> tuple[Roles, ...]:
    """The facts about one kernel: one `Roles` when the block shape is known, else one per assumed shape."""
    from warplint.threads.analysis import analyze as run

    return run(kernel)
