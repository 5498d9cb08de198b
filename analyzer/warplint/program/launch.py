"""What is known about how a kernel is launched: its own attributes, host launches in the file, and the user's word."""

from __future__ import annotations

import re
from collections.abc import Sequence

from warplint.patterns import late
from warplint.program import expr, ir, passes
from warplint.program.arith import unknown
from warplint.program.ctypes import INT, scalar_name, strip_namespace
from warplint.program.scope import Ctx, Frame, Scope, Typed, Value
from warplint.program.unit import Build, Unit, file_ctx
from warplint.source import Span
from warplint.syntax import ast, parse_expression

_PADDED = 3
_GROUP_SIZE = late(r"reqd_work_group_size\s*\(\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\)")
_FLAT_SIZE = late(r"amdgpu_flat_work_group_size\s*\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_CLUSTER_ATTRIBUTE = late(rb"\bclusterDim\s*\.\s*([xyz])\s*=\s*([^;]{1,80});")
_OTHER_AXIS = late(rb"\bthreadIdx\s*\.\s*[yz]\b|%tid\.[yz]\b|hipThreadIdx_[yz]\b")
_MAX_DECLARATIONS = 2000
MAX_THREADS = 1024
"""Threads of one block, on all hardware."""


def host_scope(build: Build, name: str, wave: int = 0) -> Ctx:
    """The constants of a host function, so that names in its launches resolve; `wave`: what `warpSize` is there."""
    unit = build.unit
    ctx = file_ctx(unit)
    if wave:
        ctx = Ctx(Scope(unit.scope), ctx.frame, None)
        ctx.scope.declare("warpSize", Value(lambda: Typed(ir.Const(wave), INT)))
    functions = unit.functions.get(name) or unit.functions.get(strip_namespace(name)) or []
    hosts = [fn for fn in functions if not fn.specifiers & {"__global__", "__device__"} or "__host__" in fn.specifiers]
    if not hosts:
        return ctx
    fn = hosts[0]
    scope = Scope(ctx.scope)
    inner = Ctx(scope, Frame(fn.name), None)
    for param in fn.params:
        if param.name:
            reason = f"parameter `{param.name}` of `{fn.name}`"
            scope.declare(param.name, Value(lambda reason=reason: unknown(reason, uniform=True)))
    data = unit.source.data[fn.span.start : fn.span.end]
    seen = 0
    pending: list[ast.Stmt] = list(reversed(fn.body().body))
    while pending and seen < _MAX_DECLARATIONS:
        item = pending.pop()
        seen += 1
        if isinstance(item, ast.Block):
            pending.extend(reversed(item.body))
        elif isinstance(item, ast.If):
            pending.append(item.then)
            if item.orelse is not None:
                pending.append(item.orelse)
        elif isinstance(item, (ast.For, ast.While)):
            pending.append(item.body)
        elif isinstance(item, ast.Decl):
            for declared in item.items:
                if declared.name not in scope.names:
                    scope.declare(declared.name, _host_value(build, declared, inner, data))
    return inner


def _host_value(build: Build, declared: ast.Declarator, ctx: Ctx, text: bytes) -> Value:
    """A host local: its initial value, unless it is assigned again."""
    name = re.escape(declared.name.encode())
    assigned = rb"(?<![.\w>])%s\s*(?:\.\s*\w+\s*)?(?:[-+*/]?=(?!=)|\+\+|--)" % name
    writes = len(re.findall(assigned + rb"|(?:\+\+|--|[(,]\s*&)\s*%s\b" % name, text))
    init = declared.init
    own = int(init is not None and build.unit.source.data[init.span.start : init.span.start + 1] not in (b"(", b"{"))
    if init is None or writes > own:
        reason = f"`{declared.name}` is computed on the host"
        return Value(lambda: unknown(reason, uniform=True))
    return Value(lambda: expr.value(build, init.expr, ctx))


def extents(build: Build, node: ast.Expr | None, ctx: Ctx, depth: int = 0) -> tuple[int, ...] | None:
    """Grid or block extents `(x, y, z)` from a launch argument, None when not constant."""
    if node is None or depth > 8:
        return None
    items: Sequence[ast.Expr] | None = None
    if isinstance(node, ast.InitList):
        items = node.items
    elif isinstance(node, ast.Call) and isinstance(node.fn, ast.Name) and node.fn.id == "dim3":
        items = node.args
    elif isinstance(node, ast.Cast) and node.type.name == "dim3":
        return extents(build, node.arg, ctx, depth + 1)
    elif isinstance(node, ast.Name):
        declared = _declaration(build, node.id, ctx)
        if declared is not None and declared.init is not None and declared.type.name in ("dim3", "auto", "uint3"):
            if _assigned_later(build, declared):
                return None
            return extents(build, declared.init.expr, ctx, depth + 1)
    if items is None:
        items = (node,)
    values = [expr.constant(build, item, ctx) for item in items[:_PADDED]]
    if any(value is None or value < 1 for value in values):
        return None
    found = tuple(value for value in values if value is not None)
    return found + (1,) * (_PADDED - len(found))


def _assigned_later(build: Build, declared: ast.Declarator) -> bool:
    name = re.escape(declared.name.encode())
    pattern = re.compile(rb"(?<![.\w>])%s\s*(?:\.\s*[xyz]\s*)?[-+*/]?=(?!=)" % name)
    return pattern.search(build.unit.source.data, declared.span.end) is not None


def _declaration(build: Build, name: str, ctx: Ctx) -> ast.Declarator | None:
    """The declarator of a host variable, by name, in the launch's function or at file scope."""
    functions = build.unit.functions.get(ctx.frame.name) or []
    for fn in functions:
        pending: list[ast.Stmt] = list(reversed(fn.body().body))
        seen = 0
        while pending and seen < _MAX_DECLARATIONS:
            item = pending.pop()
            seen += 1
            if isinstance(item, ast.Block):
                pending.extend(reversed(item.body))
            elif isinstance(item, ast.If):
                pending.append(item.then)
                if item.orelse is not None:
                    pending.append(item.orelse)
            elif isinstance(item, (ast.For, ast.While)):
                pending.append(item.body)
            elif isinstance(item, ast.Decl):
                for declared in item.items:
                    if declared.name == name:
                        return declared
    return build.unit.globals.get(name)


def host_launches(build: Build, kernel: str, mentions: bytes = b"") -> tuple[ir.HostLaunch, ...]:
    """Launches of a kernel in this file, as host code means them; `mentions` is the text that the kernel reaches."""
    device, unit = build, build.unit
    plain = strip_namespace(kernel)
    found: list[ir.HostLaunch] = []
    twice = unit.host if b"<<<" in unit.source.data or b"Launch" in unit.source.data else None
    wave = passes.HOST_WAVE if passes.width(unit) and b"warpSize" in unit.source.data else 0
    for launch in unit.file.launches if twice is None else twice("").file.launches:
        if strip_namespace(launch.kernel) != plain:
            continue
        if twice is not None:
            build = Build(twice(launch.function), budget=device.budget, limit=device.limit)
        ctx = host_scope(build, launch.function, wave)
        smem = (
            expr.constant(build, launch.smem, ctx)
            if launch.smem is not None
            else (0 if launch.api == "<<<>>>" else None)
        )
        cooperative = "Cooperative" in launch.api or (
            launch.api.startswith(("cudaLaunchKernelEx", "cuLaunchKernelEx"))
            and b"LaunchAttributeCooperative" in unit.source.data
        )
        grid, block = extents(build, launch.grid, ctx), extents(build, launch.block, ctx)
        made = ir.HostLaunch(launch.api, cooperative, grid, block, smem, launch.span)
        alike = build is device and not wave
        found.append(made if alike else passes.compared(build, device, launch, made, mentions))
    return tuple(found)


def template_arguments(unit: Unit, fn: ast.Function) -> list[list[ast.Expr]]:
    """Template arguments with which the file launches or instantiates a kernel template."""
    data = unit.source.data
    name = re.escape(strip_namespace(fn.name).encode())
    pattern = re.compile(rb"\b%s\s*<([^<>;{}]{1,300})>\s*(?:<<<|\(|,|\))" % name)
    found: list[list[ast.Expr]] = []
    for match in pattern.finditer(data):
        if fn.span.start <= match.start() < fn.name_span.start:
            continue
        parts = match[1].decode("utf-8", "replace").split(",")
        found.append([_argument(part.strip(), fn.name_span) for part in parts])
        if len(found) >= 16:
            break
    return found


def _argument(text: str, span: Span) -> ast.Expr:
    """A template argument: an expression, or the name of a type (`float` is a keyword and no expression)."""
    return ast.Name(span, text) if scalar_name(text) is not None else parse_expression(text, span)


def facts(
    build: Build, fn: ast.Function, ctx: Ctx, launches: tuple[ir.HostLaunch, ...], mentions: bytes
) -> ir.LaunchInfo:
    """Everything known about the launch, each fact with its origin."""
    options = build.unit.options
    attributes = fn.attributes
    bounds = [expr.constant(build, item, ctx) for item in attributes.launch_bounds]
    registers = [expr.constant(build, item, ctx) for item in attributes.maxnreg]
    cooperative: bool | None = None
    if launches:
        cooperative = all(launch.cooperative for launch in launches)
    smem = _agreed(build, [None if launch.smem is None else (launch.smem,) for launch in launches], launches)
    if options.smem is not None:
        smem = ir.Fact((options.smem,), "from --smem")
    return ir.LaunchInfo(
        block=_launchable(_block(build, fn, ctx, launches, bounds, mentions)),
        cluster=_cluster(build, fn, ctx),
        arch=options.arch,
        wave=_wave(build.unit) if build.unit.is_amd else 0,
        smem=smem,
        min_blocks=bounds[1] if len(bounds) > 1 else None,
        max_registers=registers[0] if registers else None,
        max_threads=bounds[0] if bounds else None,
        cooperative=cooperative,
        expect=tuple(options.expect),
    )


def _launchable(block: ir.Fact | None) -> ir.Fact | None:
    """A block of more than 1024 threads is refused by CUDA and clamped by HIP: it tells nothing."""
    if block is None:
        return None
    total = 1
    for extent in block.value:
        total *= extent
    return block if 0 < total <= MAX_THREADS else None


def _agreed(
    build: Build, values: Sequence[tuple[int, ...] | None], launches: Sequence[ir.HostLaunch]
) -> ir.Fact | None:
    """A fact that all launches agree on."""
    first = values[0] if values else None
    if first is None or any(value != first for value in values):
        return None
    line = build.unit.source.line_of(launches[0].span.start)
    return ir.Fact(first, f"from the launch at line {line}")


def _block(
    build: Build,
    fn: ast.Function,
    ctx: Ctx,
    launches: tuple[ir.HostLaunch, ...],
    bounds: list[int | None],
    mentions: bytes,
) -> ir.Fact | None:
    options = build.unit.options
    if options.block is not None:
        return ir.Fact(tuple(options.block), "from --block")
    if fn.attributes.block_size:
        values = [expr.constant(build, item, ctx) for item in fn.attributes.block_size[0]]
        if values and all(value for value in values):
            found = tuple(value for value in values if value)
            return ir.Fact(found + (1,) * (3 - len(found)), "from __block_size__")
    for text in fn.attributes.waves:
        match = _GROUP_SIZE.search(text)
        if match:
            return ir.Fact((int(match[1]), int(match[2]), int(match[3])), "from reqd_work_group_size")
    agreed = _agreed(build, [launch.block for launch in launches], launches)
    if agreed is not None:
        return agreed
    one_axis = _OTHER_AXIS.search(mentions) is None
    for text in fn.attributes.waves:
        match = _FLAT_SIZE.search(text)
        if match and one_axis and int(match[1]) == int(match[2]):
            return ir.Fact((int(match[2]), 1, 1), "from amdgpu_flat_work_group_size")
    if bounds and bounds[0] and one_axis:
        return ir.Fact((bounds[0], 1, 1), "from __launch_bounds__")
    return None


_WAVE64 = late(rb"wavefrontsize64|ballot_w64|_w64(?:_gfx12)?\s*\(|-mwavefrontsize64")
_WAVE32 = late(rb"wavefrontsize32|ballot_w32|_w32(?:_gfx12)?\s*\(|-mno-wavefrontsize64")
_MFMA = late(rb"__builtin_amdgcn_(?:smfmac|mfma)_|\bv_mfma_")


def _wave(unit: Unit) -> int:
    """The width of a wave that the source shows (attributes, intrinsics); 0 when it shows none, or both."""
    data = unit.source.data
    wide, narrow = _WAVE64.search(data) is not None, _WAVE32.search(data) is not None
    if not unit.options.arch and not narrow:
        wide = wide or _MFMA.search(data) is not None  # MFMA is for waves of 64 only
    return 0 if wide == narrow else 64 if wide else 32


def _cluster(build: Build, fn: ast.Function, ctx: Ctx) -> ir.Fact | None:
    options = build.unit.options
    if options.cluster is not None:
        return ir.Fact(tuple(options.cluster), "from --cluster")
    pairs: list[tuple[Sequence[ast.Expr], str]] = []
    if len(fn.attributes.block_size) > 1:
        pairs.append((fn.attributes.block_size[1], "from __block_size__"))
    if fn.attributes.cluster_dims:
        pairs.append((fn.attributes.cluster_dims, "from __cluster_dims__"))
    for items, origin in pairs:
        values = [expr.constant(build, item, ctx) for item in items]
        if values and all(value for value in values):
            found = tuple(value for value in values if value)
            return ir.Fact(found + (1,) * (3 - len(found)), origin)
    kernels = sum("__global__" in function.specifiers for function in build.unit.file.functions)
    if kernels == 1:
        axes = {"x": 1, "y": 1, "z": 1}
        matches = list(_CLUSTER_ATTRIBUTE.finditer(build.unit.source.data))
        for match in matches:
            value = expr.constant(
                build, parse_expression(match[2].decode("utf-8", "replace"), fn.name_span), file_ctx(build.unit)
            )
            if value is None or value < 1:
                return None
            axes[match[1].decode()] = value
        if matches:
            return ir.Fact((axes["x"], axes["y"], axes["z"]), "from the launch attribute in this file")
    return None
