"""Names of a pasted excerpt that nothing declares: variables of a kernel whose beginning was left out.

What such a name is shows in how it is used: cast to a pointer it is the shared-memory pool, subscripted by 0 alone it
is a scalar in a one-element array (as TIRx writes them), otherwise a scalar. Their values are unknown, except the warp
index under the name that TIRx always gives it.
"""

from __future__ import annotations

import re

from warplint.program import ir
from warplint.program.ctypes import INT, CType
from warplint.program.scope import Binding, Local, Memory, Root, Scope, Typed, Value
from warplint.program.unit import Build
from warplint.source import Span

_TIRX_WARP = "warp_id_in_cta"
"""TIRx kernels begin with `int warp_id_in_cta = __shfl_sync(full, threadIdx.x >> 5, 0)`."""


def implicit(build: Build, name: str) -> Binding | None:
    """What an undeclared name of an excerpt stands for; None in a whole kernel, and for qualified names."""
    scope = build.excerpt
    if scope is None or not name.isidentifier():
        return None
    made = _guess(build, name)
    scope.declare(name, made)
    return made


def _guess(build: Build, name: str) -> Binding:
    data = build.unit.source.data
    word = re.escape(name.encode())
    if re.search(
        rb"\(\s*[\w:]+(?:\s+\w+)*\s*\*+\s*\)\s*\(?\s*%s\b(?!\s*\[)|_cast\s*<[^<>]*\*\s*>\s*\(\s*%s\s*[)+]"
        % (word, word),
        data,
    ):
        return _pool(build, name)
    if name == _TIRX_WARP:
        warp = Typed(ir.Binary(">>", ir.Cast("i32", ir.Special("linear_tid")), ir.Const(5)), INT)
        return Value(lambda: warp, warp)
    indexes = set(re.findall(rb"\b%s\s*\[\s*([^\]]*?)\s*\]" % word, data))
    dims: tuple[int | None, ...] = ()
    if indexes:
        dims = (1,) if indexes == {b"0"} else (None,)
    return Local(Root(name, CType("i32", 0, dims), "local", Span(0, 0)))


def _pool(build: Build, name: str) -> Memory:
    if build.dynamic is None:
        build.dynamic = ir.Symbol(name, "dynamic_shared", "u8", 0, (None,), 1)
        build.shared.append(build.dynamic)
    return Memory(build.dynamic, CType("u8", 0, (None,)))


def open_scope(build: Build, scope: Scope) -> None:
    """Lets undeclared names be declared in a scope."""
    build.excerpt = scope
