"""A parsed file as kernels: file tables, then each `__global__` function from its parameters inwards."""

from __future__ import annotations

from msgspec import Struct

from warplint.patterns import late
from warplint.program import body, effects, ir, launch, places, slicing, storage
from warplint.program.arith import unknown
from warplint.program.fragment import open_scope
from warplint.program.scope import Ctx, Frame, Local, Root, Scope, TemplateArgument, Value
from warplint.program.tables import Units
from warplint.program.typetable import declared_type
from warplint.program.unit import Build, Options, Unit, bind, budget
from warplint.source import SourceFile
from warplint.syntax import ast, parse

_AMD_TEXT = late(rb"__builtin_amdgcn_|hip/hip_runtime|hipLaunchKernelGGL|__HIP_PLATFORM_AMD__|<hip/")
_SEMICOLON = late(rb"\s*;")
_BLANK_TEXT = late(rb"[^\r\n]")
_LINEAR_RANK = late(rb"\bblockDim\b|%ntid|hipBlockDim")
_FRAGMENT_HEAD = b'extern "C" __global__ void fragment() {\n'


class Module(Struct, frozen=True):
    """The kernels of a file, and what could not be established about the file as a whole."""

    kernels: tuple[ir.Kernel, ...]
    incomplete: tuple[ir.Incomplete, ...] = ()
    source: SourceFile = SourceFile("", b"")
    """What all places in it are offsets of: the file, or an excerpt in its frame."""


def lower(file: ast.File, source: SourceFile, options: Options | None = None) -> Module:
    """Lowers every kernel of a file.

    A file without any function is read as the body of one kernel when `options.fragment` is not False (and always when
    it is True): a pasted excerpt.
    """
    options = options or Options()
    own = source.own
    functions = [fn for fn in file.functions if fn.span.start < own]
    kernels = [fn for fn in functions if "__global__" in fn.specifiers]
    if not kernels and (options.fragment or (options.fragment is None and not functions)):
        if source.data[:own].strip() and options.fragment is not False:
            return _fragment(file, source, options)
    units = Units(file, source, options, _is_amd(file, source, options))
    lowered = tuple(_bounded(units.of(fn), fn) for fn in kernels)
    inside = [(fn.span.start, fn.span.end) for fn in kernels]
    notes = tuple(
        ir.Incomplete(gap.reason, gap.span)
        for gap in file.gaps
        if gap.span.start < own and not any(start <= gap.span.start < end for start, end in inside)
    )
    return Module(lowered, notes, source)


def _fragment(parsed: ast.File, source: SourceFile, options: Options) -> Module:
    """An excerpt as the body of a kernel. What can only stand outside of one (functions, classes) is put in front."""
    own = SourceFile(source.path, source.data[: source.own])
    text = bytearray(own.data)
    outside = bytearray(_BLANK_TEXT.sub(b" ", own.data))
    for item in (*parsed.functions, *parsed.records):
        start, end = item.span.start, item.span.end
        ending = _SEMICOLON.match(own.data, end)
        end = ending.end() if ending is not None else end
        if end <= len(text) and text[start:end].strip():
            outside[start:end] = own.data[start:end]
            text[start:end] = _BLANK_TEXT.sub(b" ", own.data[start:end])
    begin = 0
    front = b""
    if outside.strip():
        front = bytes(outside) + b"\n"
        begin = len(front)
    begin += len(_FRAGMENT_HEAD)
    data = front + _FRAGMENT_HEAD + bytes(text) + b"\n}"
    pieces = ((begin, begin + len(text), 0), (0, len(front), 0))
    wrapped = SourceFile(source.path, data, origin=own, pieces=pieces)
    file = parse(wrapped)
    units = Units(file, wrapped, options, _is_amd(file, wrapped, options))
    kernels = [fn for fn in file.functions if "__global__" in fn.specifiers]
    if not kernels:
        return Module((), (ir.Incomplete("no kernel was found in this file", None),), wrapped)
    return Module(tuple(kernel(units.of(fn), fn, fragment=True) for fn in kernels), (), wrapped)


_CUDA_HEADER = late(r"cuda(?:_\w+)?\.h|cuda/.*|mma\.h|cub/.*")
"""Only CUDA has them: a file that includes one besides HIP's is written for both, and is read as CUDA."""


def _is_amd(file: ast.File, source: SourceFile, options: Options) -> bool:
    """The file is compiled by AMD's compiler, as far as its name, its includes and its text tell."""
    data = source.data[: source.own]
    if source.path.endswith((".hip", ".hip.cpp")) or options.arch.startswith("gfx"):
        return True
    if any(map(_CUDA_HEADER.fullmatch, file.includes)):
        return False
    if any("hip/" in name for name in file.includes):
        return True
    return not options.arch and _AMD_TEXT.search(data) is not None and b"cuda_runtime" not in data


def _bounded(unit: Unit, fn: ast.Function) -> ir.Kernel:
    """One kernel; source nested too deep even for the bounds costs this kernel its verdict, and no other."""
    try:
        return kernel(unit, fn)
    except RecursionError:
        nothing = ir.Seq(fn.span, (ir.Opaque(fn.name_span, "nesting too deep to follow"),))
        info = ir.LaunchInfo(arch=unit.options.arch)
        return ir.Kernel(fn.name, fn.name_span, (), nothing, info, (), source=unit.source, is_amd=unit.is_amd)


def kernel(unit: Unit, fn: ast.Function, fragment: bool = False) -> ir.Kernel:
    """One kernel."""
    size = len(unit.source.data)
    effects.index(unit, fn)
    build = Build(unit, budget=budget(size), limit=300_000 + 2 * size)
    scope = Scope(unit.scope)
    frame = Frame(fn.name, kernel=True, base=unit.scope, active=(fn,))
    out: list[ir.Stmt] = []
    ctx = Ctx(scope, frame, out)
    if fragment:
        open_scope(build, scope)
    _bind_template(build, fn, ctx)
    params = tuple(_parameter(build, param, ctx) for param in fn.params if param.name)
    data = unit.source.data
    mentions = _reached_text(unit, fn)
    launches = launch.host_launches(build, fn.name, mentions)
    info = launch.facts(build, fn, ctx.into(None), launches, mentions)
    for declaration in unit.file.globals:
        for item in declaration.items:
            if "__shared__" in item.type.qualifiers and item.name.encode() in mentions:
                storage.shared(build, item, launch.file_ctx(unit))
    body.statements(build, fn.body().body, ctx)
    if fragment:  # its shared memory shows only where it is used
        slicing.needed(ir.Kernel(fn.name, fn.name_span, params, ir.Seq(fn.span, tuple(out)), info, ()))
    gaps = [gap for gap in unit.file.gaps if fn.span.start <= gap.span.start < fn.span.end]
    for gap in gaps:
        build.note(gap.reason, gap.span)
    return ir.Kernel(
        name=fn.name,
        span=fn.name_span,
        params=params,
        body=ir.Seq(fn.span, tuple(out)),
        launch=info,
        shared=tuple(build.shared),
        launches=launches,
        incomplete=tuple(build.incomplete),
        is_amd=unit.is_amd,
        fragment=fragment or (b"__device__" not in data and len(unit.file.functions) == 1),
        source=unit.source,
        damaged=bool(gaps),
    )


def _parameter(build: Build, param: ast.Param, ctx: Ctx) -> ir.Symbol:
    type_ = declared_type(build, param, ctx)
    grid_constant = "__grid_constant__" in param.type.qualifiers
    root = Root(
        param.name,
        type_,
        "param",
        param.span,
        grid_constant=grid_constant,
        volatile="volatile" in param.type.qualifiers,
    )
    bind(build, ctx, param.name, Local(root))
    return places.leaf(build, places.whole(root))


def _bind_template(build: Build, fn: ast.Function, ctx: Ctx) -> None:
    """Template parameters of a kernel: from --define, from the file's own instantiations, else unknown constants."""
    if not fn.template:
        return
    unit = build.unit
    given = launch.template_arguments(unit, fn)
    for i, name in enumerate(fn.template):
        if name in unit.options.defines:
            continue  # resolves as a macro
        values = [args[i] for args in given if i < len(args)]
        texts = {repr(_shape(value)) for value in values}
        if values and len(texts) == 1 and len(values) == len(given):
            ctx.scope.declare(name, TemplateArgument(values[0], launch.file_ctx(unit)))
            continue
        default = dict(fn.defaults).get(name)
        if default is not None and given and not values:
            ctx.scope.declare(name, TemplateArgument(default.expr, ctx.into(None)))
            continue
        reason = f"template parameter `{name}`"
        ctx.scope.declare(name, Value(lambda reason=reason: unknown(reason, uniform=True)))


def _shape(node: ast.Expr) -> object:
    if isinstance(node, ast.Num):
        return node.value
    return (type(node).__name__, getattr(node, "id", None))


def _reached_text(unit: Unit, fn: ast.Function) -> bytes:
    """The kernel's text, and that of the helpers it reaches except those that compute a linear rank."""
    data = unit.source.data
    parts = [data[fn.span.start : fn.span.end]]
    seen = {id(fn)}
    pending = [fn]
    while pending:
        top = pending.pop()
        effects.scan(unit, top)
        for name in unit.callees[id(top)]:
            for callee in unit.functions.get(name, ()):
                if id(callee) in seen or "__global__" in callee.specifiers:
                    continue
                seen.add(id(callee))
                pending.append(callee)
                text = data[callee.span.start : callee.span.end]
                if not _LINEAR_RANK.search(text):
                    parts.append(text)
    return b"\n".join(parts)
