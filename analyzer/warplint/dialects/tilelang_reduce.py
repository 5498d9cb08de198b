"""TileLang's `AllReduce<...>::run` and `run_batch` on CUDA, as the C++ that their template parameters select.

Source: TileLang 0.1.15, tl_templates/cuda/reduce.h (`butterfly_reduce_scalar`, `butterfly_reduce_batch`). The distance
is halved from `threads / 2` down to `scale`. A distance of a warp or more goes through shared memory between two
barriers: `__syncthreads`, or `bar.sync` 1 and 2 with the count of `NamedBarrier`; a smaller one is a shuffle of full
warps.
"""

from __future__ import annotations

from warplint.dialects.name_rows import Code, NameRow
from warplint.patterns import late

_NAME = late(
    r"tl::AllReduce<tl::\w+,(\d+),(\d+)(?:,(\d+))?(?:,tl::(?:SyncThreadsBarrier|NamedBarrier<(\d+)>))?"
    r"(?:,(\d+))?(?:,(\d+))?>::run(_batch)?"
)
_WARP = 32
_MOST = 1024
"""Threads of the largest block."""


def systematic(name: str) -> NameRow | None:
    """The row of a call by its name without blanks; None when the template does not take such parameters."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    width, scale, base, count, batch, stride = (int(part) if part else None for part in match.groups()[:6])
    many = match[7] is not None
    if width is None or not scale or width > _MOST or width % scale or (width // scale) & (width // scale - 1):
        return None
    if many and (batch or 1) > 1 and not stride:
        return None
    at = f"(threadIdx.x - {base or 0})"
    meet = ('asm volatile("bar.sync {id}, {count};"); ' if count else "__syncthreads(); ").format
    each = [(f"x[{i}]", f"v{i}", i * (stride or 0)) for i in range(batch or 1)] if many else [("x", "v0", 0)]
    text = "" if many else "auto v0 = x; "
    value = "" if many else "v0"
    distance = width // 2
    while width > scale:
        if distance >= _WARP:
            text += meet(id=1, count=count)
            text += "".join(f"b[{at} + {offset}] = {it if many else held}; " for it, held, offset in each)
            text += meet(id=2, count=count)
            load = "b[({at} ^ {distance}) + {offset}]"
        else:
            load = "__shfl_xor_sync(0xffffffffu, {it}, {distance})"
        for it, held, offset in each:
            kept = it if many else held
            text += f"{kept} = {kept} + {load.format(at=at, distance=distance, offset=offset, it=kept)}; "
        if distance == scale:
            break
        distance //= 2
    return NameRow((), code=Code(("x", "b"), text.strip(), value))


__all__ = ["systematic"]
