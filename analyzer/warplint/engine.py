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

from warplint.finding import FileReport, KernelReport, Level, Reason
from warplint.judge import internal, judge, reasons_of, unjudged
from warplint.memo import forget
from warplint.registry import LoadedRule, select
from warplint.source import DEFAULT_MAX_BYTES, SourceFile

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
    expect: tuple[str, ...] = ()
    """Fast paths that should be there: tma, tcgen05, wgmma, mfma."""
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
        return FileReport(path, problem=internal(error, "reading the file"), data=data)
    problems: list[str] = []
    kernels = []
    for kernel in module.kernels:
        try:
            kernels.append(judge(kernel, source, settings, rules, problems))
        except Exception as error:
            problems.append(internal(error, f"kernel {kernel.name}"))
            kernels.append(unjudged(kernel, source, problems[-1]))
    reasons = reasons_of(source, getattr(module, "incomplete", ()))
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
