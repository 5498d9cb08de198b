"""What was recognised in a kernel and what was not, for `warplint ops`: no rules, no execution, no verdicts."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from warplint.engine import Settings, lint_input
from warplint.finding import FileReport
from warplint.headers import with_headers
from warplint.judge import internal, reasons_of
from warplint.source import SourceFile

if TYPE_CHECKING:
    from warplint.discover import Input
    from warplint.program.ir import Kernel

MAX_ROWS = 20_000
"""Operations listed for one kernel; more are counted."""


class OpRow(Struct, frozen=True):
    """One operation at one place, as one set of threads executes it."""

    op: str
    spelling: str
    """The callee's name or the mnemonic as the source has it."""
    path: str
    line: int
    threads: str
    """For people: "warps 4-7 (128)"; `at most ` in front where the condition could not be evaluated."""
    count: int
    certain: bool
    by: str
    """`instruction`: read from inline assembly or a definition; `table`: by its name in a dialect table."""
    detail: str = ""
    """Operands that are known."""
    times: int = 1
    """How often it is executed so, in loops that are unrolled."""


class Unrecognised(Struct, frozen=True):
    """Something that may synchronise and is not known: inline assembly, or a call."""

    kind: str
    """`asm` or `call`."""
    what: str
    """Mnemonic or callee."""
    lines: tuple[int, ...]
    """One for each place."""
    given: tuple[str, ...] = ()
    """Shared variables that it is handed."""
    reason: str = ""


class KernelOps(Struct, frozen=True):
    """The operations of one kernel in program order."""

    name: str
    path: str
    line: int
    threads: int
    """Threads of the block that the sets are about; of the first assumed shape where it is not known."""
    assumed: bool
    operations: tuple[OpRow, ...]
    unrecognised: tuple[Unrecognised, ...]
    reasons: tuple[str, ...] = ()
    """What else could not be established: "line 4: ..."."""
    left_out: int = 0


class FileOps(Struct, frozen=True):
    """One input file."""

    path: str
    kernels: tuple[KernelOps, ...] = ()
    problem: str = ""
    reasons: tuple[str, ...] = ()


def list_paths(
    inputs: Iterable[Input], settings: Callable[[Input], Settings], wanted: tuple[str, ...] = ()
) -> Iterator[FileOps]:
    """The operations in the kernels of the inputs (those whose name contains one of `wanted`), file by file."""
    for item in inputs:
        made: list[FileOps] = []

        def analyse(path: str, data: bytes, chosen: Settings, made: list[FileOps] = made) -> FileReport:
            made.append(list_bytes(path, data, chosen, wanted))
            return FileReport(path)

        report = lint_input(item, settings(item), analyse)
        yield made[0] if made else FileOps(item.name, problem=report.problem)


def list_bytes(path: str, data: bytes, settings: Settings, wanted: tuple[str, ...] = ()) -> FileOps:
    """The operations in one file's bytes. Never raises for what stands there."""
    from warplint.engine import lower_source, unreadable

    reason = unreadable(data, settings)
    if reason:
        return FileOps(path, reasons=(reason,))
    enabled = gc.isenabled()
    gc.disable()
    try:
        source = with_headers(SourceFile(path, data), settings.folder, settings.include).source
        try:
            module = lower_source(source, settings)
        except Exception as error:  # a fault of ours must not stop the other files
            return FileOps(path, problem=internal(error, "reading the file"))
        kernels, problems = [], []
        for kernel in module.kernels:
            if wanted and not any(name in kernel.name for name in wanted):
                continue
            try:
                kernels.append(_listed(kernel, module.source))
            except Exception as error:
                problems.append(internal(error, f"kernel {kernel.name}"))
        reasons = tuple(reason.text for reason in reasons_of(module.source, module.incomplete))
        return FileOps(path, tuple(kernels), "; ".join(problems), reasons)
    finally:
        if enabled:
            gc.enable()


def _listed(kernel: Kernel, source: SourceFile) -> KernelOps:
    from warplint.place import location
    from warplint.roletree import operands
    from warplint.threads import analyze
    from warplint.threads.bits import reach_text

    roles = analyze(kernel)[0]
    rows: dict[tuple[int, str, str], OpRow] = {}
    times: dict[tuple[int, str, str], int] = {}
    left = 0
    for event in roles.events:
        threads = reach_text(event.reach, roles.threads, roles.launch.warp_size)
        key = (id(event.op), threads, operands(event))
        times[key] = times.get(key, 0) + 1
        if key in rows:
            continue
        if len(rows) >= MAX_ROWS:
            left += 1
            continue
        place = location(source, event.op.span)
        rows[key] = OpRow(
            event.name,
            event.op.spelling,
            place.path,
            place.line,
            threads,
            event.reach.count(roles.launch.warp_size),
            event.reach.exact,
            "table" if event.op.by_name else "instruction",
            key[2],
        )
    unknown, named = _unrecognised(kernel, source)
    others = [item for item in (*kernel.incomplete, *roles.incomplete) if item.reason not in named]
    reasons = tuple(f"line {one.line}: {one.text}" if one.line else one.text for one in reasons_of(source, others))
    counted = tuple(_times(row, times[key]) for key, row in rows.items())
    line = source.line_of(kernel.span.start)
    return KernelOps(
        kernel.name, source.path, line, roles.threads, roles.assumed_block, counted, unknown, reasons, left
    )


def _times(row: OpRow, times: int) -> OpRow:
    from msgspec.structs import replace

    return replace(row, times=times) if times > 1 else row


def _unrecognised(kernel: Kernel, source: SourceFile) -> tuple[tuple[Unrecognised, ...], set[str]]:
    """Unknown assembly and calls, most frequent first, and the reasons that say the same."""
    from warplint.program import ir

    found: dict[tuple[str, str], list[ir.Opaque]] = {}
    for stmt in ir.walk(kernel.body):
        if isinstance(stmt, ir.Opaque) and stmt.what:
            found.setdefault(("asm" if stmt.is_asm else "call", stmt.what), []).append(stmt)
    rows = []
    named: set[str] = set()
    for (kind, what), places in found.items():
        named.update(place.reason for place in places)
        given = tuple(sorted({symbol.name for place in places for symbol in place.writes}))
        lines = tuple(sorted(source.line_of(place.span.start) for place in places))
        rows.append(Unrecognised(kind, what, lines, given, places[0].reason))
    rows.sort(key=lambda row: (-len(row.lines), row.lines[0], row.kind, row.what))
    return tuple(rows), named
