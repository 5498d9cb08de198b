"""Loops: executed iteration by iteration when that is exact and cheap, else once for a general iteration."""

from __future__ import annotations

from warplint.program.ir import Loop
from warplint.threads.flow import Flow
from warplint.threads.general import General
from warplint.threads.interpret import Interpreter
from warplint.threads.unroll import Unrolled, plan

MAX_NESTING = 24
"""Loops nested deeper are not analysed: each level repeats what is inside."""


def execute(run: Interpreter, stmt: Loop, flow: Flow) -> Flow | None:
    """Runs a loop; gives the flow behind it."""
    needs = run.needs.loops[id(stmt)]
    if len(run.loops) >= MAX_NESTING:
        run.record.missing(f"loops nested deeper than {MAX_NESTING} levels were not analysed", stmt.span)
        run.havoc(tuple(needs.written), "`{}` changes in a loop that was not analysed")
        return flow
    planned = plan(run, stmt, needs, flow)
    if planned is not None:
        done = Unrolled(run, stmt, needs, flow, planned)
        if done.run():
            return done.after
    return General(run, stmt, needs, flow).execute()
