"""Evaluating expressions for all threads of a flow at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from warplint.program.ir import (
    Address,
    Binary,
    Cast,
    Const,
    Element,
    Expr,
    LaunchInfo,
    Load,
    Operation,
    OpValue,
    Pure,
    Select,
    Special,
    Symbol,
    Unary,
    Unknown,
    Var,
)
from warplint.threads import bits
from warplint.threads.domain import CTA, GRID, LANE, Domain, least
from warplint.threads.facts import Known, Opaque, Pointer, Uniformity, Value
from warplint.threads.flow import Flow
from warplint.threads.results import result

MAX_DEPTH = 400
"""Deeper expressions are unknown."""

Key = Symbol | tuple[Symbol, int]
"""What the environment maps: a scalar, or one element of a local array or aggregate."""

MISSING = object()


class Environment:
    """Values of locals, with a trail so that a branch can be undone and its writes collected."""

    __slots__ = ("indices", "trail", "values")

    def __init__(self) -> None:
        self.values: dict[Key, Value] = {}
        self.trail: list[tuple[Key, object]] = []
        self.indices: dict[Symbol, dict[int, None]] = {}

    def set(self, key: Key, value: Value) -> None:
        """Assigns for all threads of the current flow."""
        values = self.values
        self.trail.append((key, values.get(key, MISSING)))
        values[key] = value
        if type(key) is tuple:
            self.indices.setdefault(key[0], {})[key[1]] = None

    def keys_of(self, symbol: Symbol) -> list[Key]:
        """All keys of a symbol that were ever written."""
        elements = self.indices.get(symbol)
        return [symbol] if not elements else [symbol, *((symbol, index) for index in elements)]

    def changes(self, mark: int) -> dict[Key, Value]:
        """Current values of what was written since `mark`."""
        return {key: self.values[key] for key, _ in self.trail[mark:] if key in self.values}

    def undo(self, mark: int) -> None:
        """Restores the state at `mark`."""
        trail, values = self.trail, self.values
        while len(trail) > mark:
            key, old = trail.pop()
            if old is MISSING:
                values.pop(key, None)
            else:
                values[key] = old  # type: ignore[assignment]


class Evaluator:
    """Expressions over one environment."""

    def __init__(self, domain: Domain, launch: LaunchInfo) -> None:
        self.domain = domain
        self.launch = launch
        self.env = Environment()
        self.results: dict[int, dict[str, Value]] = {}
        self.executed: dict[int, tuple[Operation, Mapping[str, Value], Flow]] = {}
        self._specials: dict[str, Value] = {}
        self._table: dict[type, Callable[..., Value]] = {
            Const: self._const,
            Var: self._var,
            Special: self._special,
            Unary: self._unary,
            Binary: self._binary,
            Select: self._select,
            Cast: self._cast,
            Address: self._address,
            Load: self._load,
            Element: self._element,
            OpValue: self._op_value,
            Pure: self._pure,
            Unknown: self._unknown,
        }

    def value(self, expr: Expr, flow: Flow, depth: int = 0) -> Value:
        """The value of an expression for the threads of a flow (for others nothing is claimed)."""
        if depth > MAX_DEPTH:
            return self.domain.fresh(LANE, why="an expression nested too deeply")
        return self._table[type(expr)](expr, flow, depth + 1)

    # ------------------------------------------------------------------------------------------------ leaves
    def _const(self, expr: Const, flow: Flow, depth: int) -> Value:
        return self.domain.const(expr.value)

    def _var(self, expr: Var, flow: Flow, depth: int) -> Value:
        symbol = expr.symbol
        held = self.env.values.get(symbol)
        if held is not None:
            return self.domain.restrict(held, flow.reach.threads)
        if symbol.dims or symbol.kind == "dynamic_shared":
            return Pointer(symbol, self.domain.const(0))
        return self._initial(symbol)

    def _initial(self, symbol: Symbol) -> Value:
        domain = self.domain
        name = f"{symbol.name}#{symbol.span.start}"
        match symbol.kind:
            case "param" | "constant":
                return Opaque(GRID, False, domain.key("name", name, id(symbol)), f"`{symbol.name}`")
            case "global":
                return domain.fresh(GRID, why=f"`{symbol.name}` in global memory")
            case "shared":
                return domain.fresh(CTA, why=f"`{symbol.name}` in shared memory")
        return Opaque(LANE, False, domain.key("uninitialised", id(symbol)), f"`{symbol.name}` has no known value")

    def _element(self, expr: Element, flow: Flow, depth: int) -> Value:
        index = self.domain.restrict(self.value(expr.index, flow, depth), flow.reach.threads)
        env, symbol = self.env, expr.symbol
        if isinstance(index, Known):
            if isinstance(index.each, int):
                held = env.values.get((symbol, index.each))
                if held is not None:
                    return self.domain.restrict(held, flow.reach.threads)
            elif symbol in env.indices:
                return self._gather_elements(symbol, index, flow)
        held = env.values.get(symbol)
        if held is not None and not (isinstance(index, Known) and symbol.kind == "local" and not symbol.dims):
            return self.domain.restrict(held, flow.reach.threads)
        if symbol.kind in ("param", "constant"):
            level, varies = self.domain.floor(index, flow.reach.threads)
            key = self.domain.key("field", id(symbol), self.domain.key_of(index))
            return self.domain.mark_across(Opaque(level, varies, key, f"`{symbol.name}`"), index)
        if isinstance(index, Known):
            key = self.domain.key("uninitialised", id(symbol), index.each)
            return Opaque(LANE, False, key, f"`{symbol.name}` has no known value")
        return self.domain.fresh(LANE, why=f"an element of `{symbol.name}`")

    def _gather_elements(self, symbol: Symbol, index: Known, flow: Flow) -> Value:
        pieces: list[tuple[int, Value]] = []
        each = index.each
        assert isinstance(each, tuple)
        rest = self.domain.everyone
        for wanted in dict.fromkeys(each):
            mask = bits.of_truths([value == wanted for value in each])
            held = self.env.values.get((symbol, wanted))
            rest &= ~mask
            other = held if held is not None else self.domain.fresh(LANE, why=f"`{symbol.name}` has no known value")
            pieces += self.domain.parts(other, mask)
        return self.domain.restrict(self.domain.gather(pieces), flow.reach.threads)

    def _special(self, expr: Special, flow: Flow, depth: int) -> Value:
        name = expr.name
        if name == "clock":
            return self.domain.fresh(LANE, why="the clock")
        held = self._specials.get(name)
        if held is None:
            held = self._specials[name] = self._make_special(name)
        return self.domain.restrict(held, flow.reach.threads)

    def _make_special(self, name: str) -> Value:
        domain, launch = self.domain, self.launch
        size = domain.warp_size
        block = launch.block.value if launch.block is not None else (domain.threads, 1, 1)
        block = (*block, 1, 1)[:3]
        base, _, axis = name.partition(".")
        at = "xyz".index(axis) if axis in ("x", "y", "z") else 0
        ranks = range(domain.threads)
        if base == "tid":
            x, y, _ = block
            each = {"x": [t % x for t in ranks], "y": [t // x % y for t in ranks], "z": [t // (x * y) for t in ranks]}
            return domain.known(each.get(axis, each["x"]))
        if base == "ntid":
            return domain.const(block[at])
        if base == "linear_tid":
            return domain.known(list(ranks))
        if base == "laneid":
            return domain.known([t % size for t in ranks])
        if base == "warpsize":
            return domain.const(size)
        if base == "warpid":
            # %warpid numbers the warps of a CTA, but not necessarily in thread order (PTX 10.3).
            return domain.named(name, Uniformity.WARP, True)
        if base.startswith("lanemask_"):
            masks: dict[str, Callable[[int], int]] = {
                "lt": lambda lane: (1 << lane) - 1,
                "le": lambda lane: (1 << lane + 1) - 1,
                "eq": lambda lane: 1 << lane,
                "ge": lambda lane: bits.full(size) & ~((1 << lane) - 1),
                "gt": lambda lane: bits.full(size) & ~((1 << lane + 1) - 1),
            }
            make = masks.get(base.removeprefix("lanemask_"))
            if make is not None:
                return domain.known([make(t % size) for t in ranks])
        if base == "dynamic_smem_size":
            return domain.const(launch.smem.value[0]) if launch.smem is not None else domain.named(name, GRID)
        if base.startswith("cluster_"):
            return self._cluster_special(base, name, at)
        if base == "clusterid":
            return domain.named(name, Uniformity.CLUSTER)
        if base in ("nctaid", "gridid", "nclusterid"):
            return domain.named(name, GRID)
        if base in ("ctaid", "smid"):
            return domain.named(name, CTA)
        return domain.named(name, LANE)

    def _cluster_special(self, base: str, name: str, at: int) -> Value:
        domain, cluster = self.domain, self.launch.cluster
        shape = None if cluster is None else (*cluster.value, 1, 1)[:3]
        if base in ("cluster_nctaid", "cluster_nctarank"):
            if shape is None:
                return domain.named(name, GRID)
            return domain.const(shape[at] if base == "cluster_nctaid" else shape[0] * shape[1] * shape[2])
        if shape is not None:
            extent = shape[at] if base == "cluster_ctaid" else shape[0] * shape[1] * shape[2]
            if extent == 1:
                return domain.const(0)
        return domain.named(name, CTA)

    def _unknown(self, expr: Unknown, flow: Flow, depth: int) -> Value:
        domain = self.domain
        level = GRID if expr.uniform else LANE
        return (
            Opaque(level, False, domain.key("unknown", id(expr)), expr.reason)
            if expr.uniform
            else domain.fresh(level, why=expr.reason)
        )

    # --------------------------------------------------------------------------------------------- operators
    def _unary(self, expr: Unary, flow: Flow, depth: int) -> Value:
        return self.domain.unary(expr.op, self.value(expr.arg, flow, depth))

    def _binary(self, expr: Binary, flow: Flow, depth: int) -> Value:
        return self.domain.binary(expr.op, self.value(expr.left, flow, depth), self.value(expr.right, flow, depth))

    def _select(self, expr: Select, flow: Flow, depth: int) -> Value:
        test = self.value(expr.test, flow, depth)
        yes = self.value(expr.yes, flow, depth)
        no = self.value(expr.no, flow, depth)
        return self.domain.restrict(self.domain.choose(test, yes, no, flow.reach.threads), flow.reach.threads)

    def _cast(self, expr: Cast, flow: Flow, depth: int) -> Value:
        return self.domain.cast(expr.type, self.value(expr.arg, flow, depth))

    def _address(self, expr: Address, flow: Flow, depth: int) -> Value:
        return Pointer(expr.symbol, self.value(expr.offset, flow, depth))

    def _load(self, expr: Load, flow: Flow, depth: int) -> Value:
        return self.loaded(self.value(expr.pointer, flow, depth), flow)

    def current(self, key: Key) -> Value:
        """What the environment holds for a key, or what its symbol holds at the start."""
        held = self.env.values.get(key)
        if held is not None:
            return held
        if isinstance(key, tuple):
            symbol, index = key
            whole = self.env.values.get(symbol)
            if whole is not None:
                return whole
            name = self.domain.key("uninitialised", id(symbol), index)
            return Opaque(LANE, False, name, f"`{symbol.name}` has no known value")
        return self._initial(key)

    def loaded(self, pointer: Value, flow: Flow) -> Value:
        """A read of memory: as uniform as its address, and no more than the memory is shared."""
        domain = self.domain
        level, varies = domain.floor(pointer, flow.reach.threads)
        if isinstance(pointer, Pointer):
            symbol = pointer.symbol
            if symbol.kind in ("shared", "dynamic_shared"):
                why = f"loaded from `{symbol.name}`"
                return domain.mark_across(domain.fresh(min(level, CTA), varies, why), pointer)
            if symbol.kind == "local":
                return domain.fresh(LANE, why=f"loaded from `{symbol.name}`")
            if symbol.kind in ("constant", "param"):
                offset = domain.key_of(pointer)
                if offset is not None:
                    value = Opaque(level, varies, domain.key("load", offset), f"loaded from `{symbol.name}`")
                    return domain.mark_across(value, pointer)
            return domain.mark_across(domain.fresh(level, varies, f"loaded from `{symbol.name}`"), pointer)
        return domain.mark_across(domain.fresh(level, varies, "loaded from memory"), pointer)

    # ------------------------------------------------------------------------------------------- operations
    def _op_value(self, expr: OpValue, flow: Flow, depth: int) -> Value:
        done = self.executed.get(id(expr.op))
        if done is None:
            return self.domain.fresh(LANE, why=f"result of {expr.op.spelling}")
        outputs = self.results[id(expr.op)]
        held = outputs.get(expr.output)
        if held is None:
            held = outputs[expr.output] = result(self.domain, expr.op, expr.output, done[1], done[2])
        return self.domain.restrict(held, flow.reach.threads)

    def execute(self, op: Operation, values: Mapping[str, Value], flow: Flow) -> None:
        """Remembers an execution whose results are read later."""
        self.executed[id(op)] = (op, values, flow)
        self.results[id(op)] = {}

    def _pure(self, expr: Pure, flow: Flow, depth: int) -> Value:
        domain = self.domain
        args = [self.value(arg, flow, depth) for arg in expr.args]
        if "mapa" in expr.name and len(args) == 2 and isinstance(args[0], Pointer):
            return replace(args[0], cta=args[1])
        if not expr.known_pure:
            return domain.fresh(LANE, why=f"`{expr.name}` is not known")
        level, varies = least(*(domain.floor(arg, flow.reach.threads) for arg in args))
        keys = [domain.key_of(arg) for arg in args]
        if None in keys:
            value = domain.fresh(level, varies, f"result of `{expr.name}`")
        else:
            value = Opaque(level, varies, domain.key("pure", expr.name, *keys), f"result of `{expr.name}`")
        return domain.mark_across(value, *args)
