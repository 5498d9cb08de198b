"""Host launches: `<<<>>>` and the launch functions of the CUDA and HIP runtime and driver.

Argument orders are those of the CUDA Runtime API (cudaLaunchKernel, cudaLaunchCooperativeKernel, cudaLaunchKernelExC),
the CUDA Driver API (cuLaunchKernel) and the HIP manual (hipLaunchKernelGGL, hipLaunchCooperativeKernel).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from msgspec.structs import replace
from tree_sitter import Node

from warplint.patterns import late
from warplint.source import Span
from warplint.syntax import ast
from warplint.syntax.build import Builder, expression
from warplint.syntax.grammar import kind
from warplint.syntax.nodes import CALL

MAX_LAUNCHES = 1000
_REACH = 1 << 16
"""Bytes before a launch in which its configuration is looked for."""
_K_LAUNCH = kind("kernel_call_syntax")
_APIS = late(
    rb"(?:cuda|hip|hipExt|cu|hipModule)Launch(?:CooperativeKernelMultiDevice|CooperativeKernel|KernelExC|KernelEx"
    rb"|KernelGGL|Kernel)(?![A-Za-z0-9_])\s*(?=[<(])"
)
_GRID_FIRST = frozenset({"hipLaunchKernelGGL", "hipExtLaunchKernelGGL"})
"""`(kernel, grid, block, smem, stream, args...)`."""
_POINTERS = frozenset(
    {"cudaLaunchKernel", "cudaLaunchCooperativeKernel", "hipLaunchKernel", "hipExtLaunchKernel"}
    | {"hipLaunchCooperativeKernel"}
)
"""`(kernel, grid, block, args, smem, stream)`."""
_CONFIGURED = frozenset({"cudaLaunchKernelEx", "cudaLaunchKernelExC", "cuLaunchKernelEx", "hipLaunchKernelExC"})
"""`(config, kernel, args...)`."""
_CONFIG_PARTS = {"gridDim": 0, "blockDim": 1, "dynamicSmemBytes": 2}
_CLUSTER = late(rb"clusterDim\s*\.\s*([xyz])\s*=(?!=)\s*([^;]{1,200});")


def holder(functions: Sequence[ast.Function], offset: int) -> ast.Function | None:
    """The innermost function whose span holds an offset (functions in source order; methods of local records nest)."""
    at = bisect_right(functions, offset, key=lambda function: function.span.start) - 1
    for function in functions[max(0, at - 50) : at + 1][::-1]:
        if function.span.start <= offset < function.span.end:
            return function
    return None


class Launches:
    """Finds the launches of one parsed file."""

    def __init__(
        self, builder: Builder, code: bytes, root: Node, functions: Sequence[ast.Function], gaps: list[ast.ParseGap]
    ) -> None:
        self.builder, self.code, self.root, self.gaps = builder, code, root, gaps
        self.functions = sorted(functions, key=lambda function: function.span.start)
        names = {function.name for function in functions if "__global__" in function.specifiers}
        self.kernels = {name.rpartition("::")[2] for name in names}

    def found(self) -> Iterator[ast.Launch]:
        """Launches in source order; after `MAX_LAUNCHES` the rest is a gap."""
        offsets: list[tuple[int, re.Match[bytes] | None]] = []
        at = self.code.find(b"<<<")
        while at != -1 and len(offsets) <= MAX_LAUNCHES:
            offsets.append((at, None))
            at = self.code.find(b"<<<", at + 3)
        if b"Launch" in self.code:
            for match in _APIS.finditer(self.code):
                if match.start() and chr(self.code[match.start() - 1]).isalnum():
                    continue
                offsets.append((match.start(), match))
                if len(offsets) > 2 * MAX_LAUNCHES:
                    break
        offsets.sort(key=lambda pair: pair[0])
        if len(offsets) > MAX_LAUNCHES:
            start = offsets[MAX_LAUNCHES][0]
            self.gaps.append(ast.ParseGap(Span(start, len(self.code)), f"more than {MAX_LAUNCHES} kernel launches"))
        for offset, match in offsets[:MAX_LAUNCHES]:
            made = self.chevron(offset) if match is None else self.api_call(match)
            if made is not None:
                yield self.resolved(made)

    def node_at(self, start: int, end: int, wanted: frozenset[int]) -> Node | None:
        """The innermost node of the wanted kinds that holds `[start, end)`."""
        node = self.root.descendant_for_byte_range(start, end)
        for _ in range(8):
            if node is None or node.kind_id in wanted:
                return node
            node = node.parent
        return None

    def chevron(self, at: int) -> ast.Launch | None:
        """`kernel<<<grid, block, smem, stream>>>(args)`."""
        node = self.node_at(at, at + 3, frozenset({_K_LAUNCH}))
        call = node.parent if node is not None else None
        if node is None or call is None or call.kind_id not in CALL:
            self.gaps.append(ast.ParseGap(Span(at, at + 3), "kernel launch could not be parsed"))
            return None
        values: list[ast.Expr | None] = [self.builder.expressions.build(child) for child in node.named_children]
        values += [None] * 3
        name = _kernel_name(self.builder.expressions.build(call.children[0]))
        span = self.builder.span(call)
        return ast.Launch(name, values[0], values[1], values[2], "<<<>>>", span, self.host(at))

    def api_call(self, match: re.Match[bytes]) -> ast.Launch | None:
        """A launch function; None when it is no call or names no kernel."""
        node = self.node_at(match.start(), match.end(), CALL)
        call = self.builder.expressions.build(node) if node is not None else None
        api = match[0].strip().decode()
        if not isinstance(call, ast.Call) or not isinstance(call.fn, ast.Name) or call.fn.id.strip(":") != api:
            return None
        args: list[ast.Expr | None] = [*call.args, *[None] * 9]
        grid = block = smem = cluster = None
        kernel = args[0]
        if api in _CONFIGURED:
            kernel = args[1]
            (grid, block, smem), cluster = self.configuration(args[0], match.start())
        elif api in _GRID_FIRST:
            grid, block, smem = args[1:4]
        elif api in _POINTERS:
            grid, block, smem = args[1], args[2], args[4]
        elif len(call.args) >= 8:  # driver: three sizes of the grid, three of the block, shared memory
            sizes = [arg for arg in args[1:7] if arg is not None]
            grid, block = ast.InitList(call.span, tuple(sizes[:3])), ast.InitList(call.span, tuple(sizes[3:]))
            smem = args[7]
        name = _kernel_name(kernel) if kernel is not None else ""
        if not name:
            return None
        return ast.Launch(name, grid, block, smem, api, call.span, self.host(match.start()), cluster)

    def host(self, offset: int) -> str:
        """Name of the function that holds an offset."""
        found = holder(self.functions, offset)
        return found.name if found is not None else ""

    def configuration(
        self, config: ast.Expr | None, offset: int
    ) -> tuple[tuple[ast.Expr | None, ast.Expr | None, ast.Expr | None], ast.Expr | None]:
        """Grid, block, shared memory and cluster that a `cudaLaunchConfig_t` was last given before the launch."""
        parts: list[ast.Expr | None] = [None, None, None]
        function = holder(self.functions, offset)
        name = _kernel_name(config) if config is not None else ""
        if function is None or not name:
            return (None, None, None), None
        start = function.span.start
        start = max(start, offset - _REACH)
        before = self.code[start:offset]
        word = rb"(?<![A-Za-z0-9_])" + re.escape(name.encode())
        for match in re.finditer(word + rb"\s*=?\s*\{([^;{}]{1,400})\}\s*;", before):
            listed = expression(b"T{" + match[1] + b"}", start + match.start(1) - 2, None, self.builder)
            if isinstance(listed, ast.InitList) and b"." not in match[1]:
                parts = [*listed.items[:3], *[None] * 3][:3]
        for match in re.finditer(word + rb"\s*\.\s*(\w+)\s*=(?!=)\s*([^;]{1,400});", before):
            place = _CONFIG_PARTS.get(match[1].decode())
            if place is not None:
                parts[place] = expression(match[2], start + match.start(2), None, self.builder)
        cluster: ast.Expr | None = None
        sizes: dict[bytes, ast.Expr] = {}
        for match in _CLUSTER.finditer(before):
            sizes[match[1]] = expression(match[2], start + match.start(2), None, self.builder)
        if sizes:
            span = next(iter(sizes.values())).span
            cluster = ast.InitList(span, tuple(sizes.get(axis, ast.Num(span, 1)) for axis in (b"x", b"y", b"z")))
        return (parts[0], parts[1], parts[2]), cluster

    def resolved(self, launch: ast.Launch) -> ast.Launch:
        """A launch through a local (`auto kernel = &k<4>;`) gets the kernel's name, when the file tells it."""
        function = holder(self.functions, launch.span.start)
        if not self.kernels or function is None or launch.kernel.rpartition("::")[2] in self.kernels:
            return launch
        start = max(function.span.start, launch.span.start - _REACH)
        assigned = rb"\s*=(?!=)\s*(?:\([^;()]{0,80}\)\s*)?&?\s*([A-Za-z_][\w:]*)"
        pattern = rb"(?<![A-Za-z0-9_])" + re.escape(launch.kernel.encode()) + assigned
        names = [match[1].decode() for match in re.finditer(pattern, self.code[start : launch.span.start])]
        if not names or names[-1].rpartition("::")[2] not in self.kernels:
            return launch
        return replace(launch, kernel=names[-1])


def _kernel_name(node: ast.Expr) -> str:
    """The name in a launch argument: casts and address-of dropped."""
    for _ in range(16):
        if isinstance(node, ast.Cast | ast.Unary):
            node = node.arg
        elif isinstance(node, ast.Call) and node.args:  # HIP_KERNEL_NAME(k<3>)
            node = node.args[0]
        else:
            break
    return node.id if isinstance(node, ast.Name) else ""
