"""Storage of shared variables."""

from __future__ import annotations

from warplint.program import ir
from warplint.program.scope import (
    Ctx,
    Memory,
)
from warplint.program.typetable import align_of, declared_type, size_of
from warplint.program.unit import Build
from warplint.syntax import ast


def shared(build: Build, item: ast.Declarator, ctx: Ctx) -> Memory:
    """The storage of a shared variable: one for each declaration; dynamic shared memory is one storage altogether."""
    type_ = declared_type(build, item, ctx)
    volatile = "volatile" in item.type.qualifiers
    element = type_._replace(dims=())
    if "extern" in item.type.qualifiers or (type_.dims and item.dims and item.dims[0] is None):
        if build.dynamic is None:
            build.dynamic = ir.Symbol(
                item.name, "dynamic_shared", element.name, element.pointer, (None,), size_of(build, element),
                item.alignment, item.span,
            )  # fmt: skip
            build.shared.append(build.dynamic)
        return Memory(build.dynamic, type_ if type_.dims else type_._replace(dims=(None,)), volatile)
    key = (item.span.start, item.span.end)
    found = build.statics.get(key)
    if found is None:
        symbol = ir.Symbol(
            item.name, "shared", element.name, element.pointer, type_.dims, size_of(build, element),
            max(item.alignment, align_of(build, element)), item.span,
        )  # fmt: skip
        build.statics[key] = found = Memory(symbol, type_, volatile)
        build.shared.append(symbol)
    return found
