"""Executes kernels to show their protocol, for `warplint handoffs` and `warplint run`: no rules, no verdicts.

Unlike `lint`, it also executes kernels with structural errors and shows what happens: that is what it is asked for.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from warplint.engine import Settings, lower_source, read_input
from warplint.headers import with_headers
from warplint.judge import _facts, internal, reasons_of
from warplint.source import SourceFile

if TYPE_CHECKING:
    from warplint.discover import Input
    from warplint.handoffs.derive import Recorded
    from warplint.program.ir import Kernel


class Traced(Struct, frozen=True):
    """One kernel with its recorded executions, or why it was not executed."""

    name: str
    path: str
    line: int
    facts: tuple[tuple[str, str], ...]
    incomplete: tuple[tuple[str, int], ...]
    """(reason, line)."""
    unexecuted: str = ""
    recorded: Recorded | None = None


class TracedFile(Struct, frozen=True):
    """One input file."""

    path: str
    kernels: tuple[Traced, ...] = ()
    problem: str = ""
    """Non-empty when it could not be read, or on a fault of ours (exit code 2)."""
    reasons: tuple[str, ...] = ()
    """Why the file was not analysed (too large, UTF-16)."""


def trace_paths(
    inputs: Iterable[Input], settings: Callable[[Input], Settings], wanted: tuple[str, ...] = ()
) -> Iterator[TracedFile]:
    """Execute the kernels of the inputs, one file after the other; of all, or of those whose name contains one of
    `wanted`. Never raises for what stands in a file.
    """
    for item in inputs:
        if item.problem:
            yield TracedFile(item.name, problem=item.problem)
            continue
        chosen = settings(item)
        try:
            data = read_input(item, chosen.max_bytes + 1)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            yield TracedFile(item.name, problem=f"cannot be read: {reason}")
            continue
        # As in the engine: what a file needs lives until it is done, the cyclic collector would walk it for nothing.
        enabled = gc.isenabled()
        gc.disable()
        try:
            made = trace_bytes(item.name, data, chosen, wanted)
        finally:
            if enabled:
                gc.enable()
        yield made


def trace_bytes(path: str, data: bytes, settings: Settings, wanted: tuple[str, ...] = ()) -> TracedFile:
    """Execute the kernels of one file's bytes under the name `path`."""
    if len(data) > settings.max_bytes:
        text = f"not analysed: larger than {settings.max_bytes} bytes (raise the limit with --max-bytes)"
        return TracedFile(path, reasons=(text,))
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return TracedFile(path, reasons=("not analysed: the file is UTF-16; save it as UTF-8",))
    source = with_headers(SourceFile(path, data), settings.folder, settings.include).source
    try:
        module = lower_source(source, settings)
    except Exception as error:  # a fault of ours must not stop the other files
        return TracedFile(path, problem=internal(error, "reading the file"))
    kernels, problems = [], []
    for kernel in module.kernels:
        if wanted and not any(name in kernel.name for name in wanted):
            continue
        try:
            kernels.append(_trace(kernel, module.source))
        except Exception as error:
            problems.append(internal(error, f"kernel {kernel.name}"))
    reasons = tuple(reason.text for reason in reasons_of(module.source, module.incomplete))
    return TracedFile(path, tuple(kernels), "; ".join(problems), reasons)


def _trace(kernel: Kernel, source: SourceFile) -> Traced:
    from warplint.threads import analyze

    shapes = analyze(kernel)
    roles = shapes[0]
    recorded = None
    unexecuted = ""
    if not kernel.shared and not any(shape.events for shape in shapes):
        unexecuted = "the kernel has no synchronisation and no shared memory"
    else:
        from warplint.handoffs import record

        recorded = record(roles)
    incomplete = [*kernel.incomplete, *roles.incomplete, *(recorded.execution.incomplete if recorded else ())]
    reasons = [(reason.text, reason.line) for reason in reasons_of(source, incomplete)]
    line = source.line_of(kernel.span.start)
    if kernel.damaged:
        reasons.insert(0, ("part of the kernel could not be read: what stands there is not executed", line))
    if roles.assumed_block:
        text = f"block size unknown: {roles.threads} threads are assumed; pass --block"
        reasons.insert(0, (text, line))
    facts = tuple(fact for fact in _facts(kernel, shapes[:1], (), "") if fact[0] != "protocol")
    return Traced(kernel.name, source.path, line, facts, tuple(reasons), unexecuted, recorded)
