"""The compiler's resource report in the file says that registers are spilled, or that fewer blocks fit than asked for

## Why
`ptxas -v` (`nvcc -Xptxas -v`, `cuobjdump -res-usage`) reports for each kernel how many registers it uses and how many
bytes it spills to local memory. Spills in a main loop cost more than most other mistakes; they come from too many
accumulators, too deep unrolling, or a `__launch_bounds__` that leaves too few registers. A report that was saved with
the kernel, as comments of the file, is read; without one the rule is silent.

## Bad
```cuda
// ptxas info    : Compiling entry function 'scale' for 'sm_90a'
// ptxas info    : Function properties for scale
//     48 bytes stack frame, 44 bytes spill stores, 52 bytes spill loads
// ptxas info    : Used 168 registers
extern "C" __global__ void __launch_bounds__(384) scale(float* out, const float* in) {
  out[threadIdx.x] = in[threadIdx.x] * 2.f;
}
```

## Good
```cuda
// ptxas info    : Compiling entry function 'scale' for 'sm_90a'
// ptxas info    : Function properties for scale
//     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
// ptxas info    : Used 168 registers
extern "C" __global__ void __launch_bounds__(384) scale(float* out, const float* in) {
  out[threadIdx.x] = in[threadIdx.x] * 2.f;
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from warplint.finding import Finding, Level, Symptom
from warplint.rule import Rule
from warplint.source import Span
from warplint.threads.facts import Roles
from warplint_rules._say import Reporter, location
from warplint_rules.registers._counts import FILE

RULE = Rule(Level.NOTE, Symptom.SLOW, guide=True)
SAY = Reporter(__name__, RULE)

_MARK = b"spill stores"
_USED = b"Used "
_ENTRY = rb"(?:Compiling entry function|Function properties for) '?([A-Za-z_$][\w$]*)'?|^.*\bFunction ([\w$]+):"
_SPILLS = rb"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
_REGISTERS = rb"Used (\d+) registers|\bREG:(\d+)"
_LINES = 12
"""Lines of a report that belong to the function it names."""


class Report(Struct):
    """What a report says of one function."""

    span: Span
    stores: int = 0
    loads: int = 0
    registers: int = 0


def check(roles: Roles) -> Iterator[Finding]:
    """Spills, and registers that leave room for fewer blocks than `__launch_bounds__` asks for."""
    data = roles.kernel.source.data
    if _MARK not in data and (_USED not in data or not roles.launch.min_blocks):
        return
    report = _report(data, roles.kernel.name.encode())
    if report is None:
        return
    place = location(roles, report.span, "the report")
    if report.stores or report.loads:
        yield SAY.at(
            roles,
            roles.kernel.span,
            f"The compiler spills registers of `{roles.kernel.name}`: {report.stores} bytes of stores and "
            f"{report.loads} bytes of loads to local memory.",
            why="Each spill is a round trip through the L1 cache; in a main loop that stalls copies and MMAs alike.",
            remedy="Use fewer accumulators or less unrolling, or leave more registers (`__launch_bounds__`, "
            "`setmaxnreg` for the warps that compute).",
            related=[place],
        )
    wanted, threads = roles.launch.min_blocks, roles.launch.threads
    if not (wanted and threads and report.registers) or roles.assumed_block:
        return
    # Registers are allocated in units of 8 per thread, for whole warps.
    warps = -(-threads // roles.launch.warp_size)
    fit = FILE // (-(-report.registers // 8) * 8 * warps * roles.launch.warp_size)
    if fit < wanted:
        yield SAY.at(
            roles,
            roles.kernel.span,
            f"`{roles.kernel.name}` uses {report.registers} registers in each of {threads} threads: {fit} block"
            f"{'s fit' if fit != 1 else ' fits'} on an SM, and `__launch_bounds__` asks for {wanted}.",
            why="Fewer blocks on an SM hide less latency than the kernel was planned for.",
            remedy="Use fewer registers in a thread, or ask for as many blocks as fit.",
            related=[place],
        )


def _report(data: bytes, name: bytes) -> Report | None:
    """The last report on a function: its own name, or a mangled name that holds it."""
    import re  # only where a report stands in the file

    found: Report | None = None
    current: Report | None = None
    at = left = 0
    for text in data.splitlines(keepends=True):
        if entry := re.search(_ENTRY, text):
            entry_name = entry[1] or entry[2]
            mine = entry_name == name or (entry_name.startswith(b"_Z") and b"%d%s" % (len(name), name) in entry_name)
            if mine and current is None:
                current = found = Report(Span(at, at + len(text.rstrip())))
            elif not mine:
                current = None
            left = _LINES
        elif left == 0:
            current = None
        if current is not None:
            left -= 1
            if spills := re.search(_SPILLS, text):
                current.stores, current.loads = int(spills[2]), int(spills[3])
            if used := re.search(_REGISTERS, text):
                current.registers = int(used[1] or used[2])
        at += len(text)
    return found
