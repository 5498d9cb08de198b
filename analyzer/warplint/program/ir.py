"""The intermediate representation: a kernel as structured statements over resolved symbols and canonical operations.

This is what `threads`, `machine` and the rules see; nothing here knows how C++ is spelled. Device functions are inlined
at their call sites (`Inline`), names are resolved to `Symbol`s, macros and constants are folded, and every
synchronisation, copy, collective or tensor operation is an `Operation` with operands by role.

Expressions of plain assignments are resolved on first use (`Deferred`): a generated kernel is mostly data arithmetic
that neither control nor synchronisation depends on. `program.needed(kernel)` tells which symbols matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from msgspec import Struct

from warplint.source import SourceFile, Span

Kind = Literal["param", "local", "shared", "dynamic_shared", "global", "constant"]


# ------------------------------------------------------------------------------------------------- symbols
class Symbol(Struct, frozen=True, eq=False):
    """One variable after resolution; two variables of one name in different scopes (or inlinings) are two symbols."""

    name: str
    kind: Kind
    type: str = "int"
    """Scalar type name as in `Cast.type`, or the class name."""
    pointer: int = 0
    dims: tuple[int | None, ...] = ()
    """Array dimensions, outermost first; None where not constant."""
    element_bytes: int | None = None
    """Size of one element in bytes (None when the type is not known)."""
    alignment: int = 0
    span: Span = Span(0, 0)
    grid_constant: bool = False

    @property
    def bytes(self) -> int | None:
        """Size of the whole variable in bytes, None when unknown."""
        total = self.element_bytes
        for dim in self.dims:
            if total is None or dim is None:
                return None
            total *= dim
        return total


# --------------------------------------------------------------------------------------------- expressions
class Expr(Struct, frozen=True):
    """Base of resolved expressions."""


class Const(Expr, frozen=True):
    """An integer (booleans are 0 and 1)."""

    value: int


class Var(Expr, frozen=True):
    """The value of a scalar symbol, or the address of an array one (arrays decay)."""

    symbol: Symbol


class Special(Expr, frozen=True):
    """A built-in coordinate.

    `tid.x|y|z`, `ntid.x|y|z`, `ctaid.x|y|z`, `nctaid.x|y|z`, `laneid`, `warpid` (hardware %warpid), `linear_tid`
    (thread rank in the CTA), `warpsize`, `cluster_ctaid.x|y|z`, `cluster_nctaid.x|y|z`, `cluster_ctarank`,
    `cluster_nctarank`, `clusterid.x|y|z`, `gridid`, `smid`, `lanemask_lt|le|eq|ge|gt`, `dynamic_smem_size`, `clock`.
    """

    name: str


class Unary(Expr, frozen=True):
    """`op` of: - ! ~"""

    op: str
    arg: Expr


class Binary(Expr, frozen=True):
    """`op` of: + - * / % << >> & | ^ && || == != < <= > >= min max; pointer arithmetic is in bytes already."""

    op: str
    left: Expr
    right: Expr


class Select(Expr, frozen=True):
    """`test ? yes : no`."""

    test: Expr
    yes: Expr
    no: Expr


class Cast(Expr, frozen=True):
    """Conversion to `bool i8 u8 i16 u16 i32 u32 i64 u64 f32 f64 other`; pointers cast to integers keep their region."""

    type: str
    arg: Expr


class Address(Expr, frozen=True):
    """Byte address `offset` into the storage of a symbol (`&x`, `&x[i]`, an array name, a cvta of these)."""

    symbol: Symbol
    offset: Expr


class Load(Expr, frozen=True):
    """A read of memory through `pointer` (which evaluates to an address, often unknown)."""

    pointer: Expr
    type: str = "i32"
    volatile: bool = False


class Element(Expr, frozen=True):
    """A read of element `index` of a local (per-thread) array or of field `index` of a local aggregate."""

    symbol: Symbol
    index: Expr


class OpValue(Expr, frozen=True):
    """The value returned by an operation: elect, shuffle, vote, try_wait token, cluster rank read and so on.

    `output` picks one of several results ("value" unless stated).
    """

    op: Operation
    output: str = "value"


class Pure(Expr, frozen=True):
    """A call of something unknown that has no effect we know of; its value is unknown.

    `name` is for messages. Uniform when its arguments are and `known_pure` (a math function, `__float2int_rn`);
    otherwise nothing is known about who gets which value.
    """

    name: str
    args: tuple[Expr, ...]
    known_pure: bool


class Unknown(Expr, frozen=True):
    """A value that could not be resolved, with the reason (a macro, a template parameter, a float)."""

    reason: str
    uniform: bool = False
    """True when it is the same for all threads of the grid whatever it is (a template argument, a host constant)."""
    adding: Store | None = None
    """The atomic addition that found it in memory: counters hand out one number after the other."""
    whole: int | None = None
    """The value of a floating-point literal without a fraction (`32.f`)."""


FOUND = "what `atomic"
"""How the reason of an `Unknown` begins that is what an atomic operation found in memory."""
UNDEFINED = " is not defined in this file"
"""How the reason of a name's `Unknown` ends where the file does not define the name."""


class Deferred(Struct, eq=False):
    """An expression resolved on first use."""

    make: Callable[[], Expr]
    built: Expr | None = None

    @property
    def expr(self) -> Expr:
        """The resolved expression."""
        if self.built is None:
            self.built = self.make()
        return self.built


# ---------------------------------------------------------------------------------------------- operations
class Operation(Struct, frozen=True, eq=False):
    """One static site of a canonical operation (a key of `warplint.ops`), after inlining.

    Operand roles are listed per operation in `ops.toml` (`operands`): `barrier`, `count`, `parity`, `bytes`, `dst`,
    `src`, `id`, `threads`, `columns`, `address`, `mask`, `cta`, `value` ... Addresses are shared-memory addresses
    (`Address`) whether the source passed a pointer, a cvta'd integer or a reference. Constant counts that stand in a
    mnemonic are `Const` operands like any other.
    """

    name: str
    span: Span
    """The outermost call in the kernel's own text that leads here (what a person looks for)."""
    operands: Mapping[str, Expr]
    mods: Mapping[str, str | int | bool]
    """Modifiers: `cta_group` 1|2, `multicast` bool, `read` bool, `aligned` bool, `scope`, `sem`, `space`
    (`shared::cta`, `shared::cluster`, `global`), `noinc`, `dim`, `shape`, `num`, `kind`, `elects` (elects inside),
    `blocking` (a wait that loops inside), `direction` inc|dec, `remote` bool ..."""
    spelling: str
    """The callee's name or the mnemonic as the source has it."""
    predicate: Expr | None = None
    """`@p` of the instruction, or the `pred` argument of a `_pred` helper: executed only where it is non-zero."""
    chain: tuple[Span, ...] = ()
    """Call sites from the kernel inwards when inside inlined helpers (innermost last; empty when direct)."""
    inner: Span | None = None
    """Where the instruction itself stands (the asm statement), when not at `span`."""
    by_name: bool = False
    """True when recognised only by a name table (no definition was seen)."""


# ---------------------------------------------------------------------------------------------- statements
class Stmt(Struct, frozen=True, eq=False):
    """Base of statements. Identity matters (`eq=False`): a statement is a place."""

    span: Span


class Seq(Stmt, frozen=True):
    """Statements in order."""

    body: tuple[Stmt, ...]


class Assign(Stmt, frozen=True):
    """`symbol[index] = value` for locals (index None for scalars; aggregates index fields by number)."""

    symbol: Symbol
    index: Deferred | None
    value: Deferred
    declares: bool = False


class Store(Stmt, frozen=True):
    """A write of ordinary code to memory that is not a local: shared, global or unknown."""

    pointer: Deferred
    value: Deferred
    bytes: int | None = None
    """Width of the access in bytes, when known."""
    atomic: bool = False
    volatile: bool = False
    space: str = ""
    """`shared` or `global` when the instruction says so, else empty (the pointer tells)."""
    words: tuple[Deferred, ...] = ()
    """A vector store: the value of each element, lowest address first (`value` is unknown then)."""


class Read(Stmt, frozen=True):
    """A read of shared memory by ordinary code whose value goes somewhere we do not follow (for the machine)."""

    pointer: Deferred
    bytes: int | None = None
    volatile: bool = False


class Do(Stmt, frozen=True):
    """Execution of an operation as a statement. Its result, if any, is read through `OpValue` of the same operation."""

    op: Operation


class If(Stmt, frozen=True):
    """`then` where `test` is non-zero, else `orelse`. `text` is the condition as written."""

    test: Deferred
    then: Seq
    orelse: Seq
    text: str
    test_span: Span


class Loop(Stmt, frozen=True):
    """`while (test) { body; step }`, or `do { body; step } while (test)` when `after`. `continue` runs `step`.

    A C++ `for` puts its init before the loop. `test` is None for an endless loop. Statements that must run to evaluate
    the test (operations such as try_wait) stand in `prelude`, executed before each test.
    """

    prelude: Seq
    test: Deferred | None
    step: Seq
    body: Seq
    text: str
    test_span: Span
    after: bool = False


class Break(Stmt, frozen=True):
    """Leaves the innermost loop (a switch is lowered to ifs, see `Inline`)."""


class Continue(Stmt, frozen=True):
    """Goes to the step of the innermost loop."""


class Exit(Stmt, frozen=True):
    """The thread leaves the kernel (`return` of the kernel, `exit`, a trap)."""

    trap: bool = False


class Leave(Stmt, frozen=True):
    """Leaves the enclosing `Inline` whose label this is (a helper's `return`, a switch's `break`)."""

    label: int


class Inline(Stmt, frozen=True):
    """The body of a helper at its call site, or a switch; `Leave(label)` jumps to its end."""

    label: int
    name: str
    body: Seq


class Opaque(Stmt, frozen=True):
    """Something that could not be understood and may matter: the kernel's verdict becomes incomplete.

    `reason` stands alone ("`foo` takes a barrier and is not defined in this file"). `writes` are symbols it may change.
    """

    reason: str
    writes: tuple[Symbol, ...] = ()
    what: str = ""
    """The unknown callee or mnemonic itself; empty when it is neither."""
    is_asm: bool = False


# ------------------------------------------------------------------------------------------------- kernels
class Fact(Struct, frozen=True):
    """A launch fact with its origin ("from __launch_bounds__", "from --block", "from the launch at line 40")."""

    value: tuple[int, ...]
    origin: str


class LaunchInfo(Struct, frozen=True):
    """What is known about how the kernel is launched. None = unknown."""

    block: Fact | None = None
    """Threads per block (x, y, z). `__launch_bounds__` alone gives (n, 1, 1) unless the code reads tid.y or tid.z."""
    cluster: Fact | None = None
    arch: str = ""
    """`sm_90a`, `gfx942`; empty when unknown."""
    smem: Fact | None = None
    """Dynamic shared memory in bytes, one element."""
    min_blocks: int | None = None
    max_registers: int | None = None
    max_threads: int | None = None
    """The first argument of `__launch_bounds__`, as the device's compiler reads it."""
    cooperative: bool | None = None
    """From host launches in the same file: True cooperative, False plain, None no launch seen."""
    wave: int = 0
    """Lanes of a wave where the source of an AMD kernel tells: 64 with MFMA or `ballot_w64`, 32 with `_w32`; else 0."""
    expect: tuple[str, ...] = ()
    """Fast paths that the user says the kernel must use: `tma`, `tcgen05`, `wgmma`, `mfma` (--expect or the config)."""

    @property
    def warp_size(self) -> int:
        """32, or 64 for AMD up to gfx9 (CDNA); what the source tells comes before what the target usually has."""
        return self.known_wave or 32

    @property
    def known_wave(self) -> int:
        """Lanes of a wave of an AMD target, 0 where neither the source nor the target tells."""
        generation = self.arch[3:-2] if self.arch.startswith("gfx") else ""
        return self.wave or (0 if not generation.isdecimal() else 64 if int(generation) < 10 else 32)

    @property
    def threads(self) -> int | None:
        """Threads per block, None when unknown."""
        if self.block is None:
            return None
        total = 1
        for extent in self.block.value:
            total *= extent
        return total


class Differing(Struct, frozen=True):
    """A constant with one value in host code and another in device code (`#if defined(__HIP_DEVICE_COMPILE__)`)."""

    name: str
    host: int
    device: int
    in_kernel: bool
    """The kernel names it, or a helper that it calls."""


class HostLaunch(Struct, frozen=True, eq=False):
    """A launch of this kernel seen in the file, with what could be evaluated."""

    api: str
    cooperative: bool
    grid: tuple[int, ...] | None
    block: tuple[int, ...] | None
    smem: int | None
    span: Span
    device_block: tuple[int, ...] | None = None
    """The block that the same text means with the values that names have in device code; None: not known."""
    device_smem: int | None = None
    """The shared memory, likewise."""
    differing: tuple[Differing, ...] = ()
    """Constants that the launch or its function names and that are others in device code."""


class Incomplete(Struct, frozen=True):
    """Something that could not be established."""

    reason: str
    span: Span | None = None


class Kernel(Struct, frozen=True, eq=False):
    """One `__global__` function, ready to be judged."""

    name: str
    span: Span
    """Of its name."""
    params: tuple[Symbol, ...]
    body: Seq
    launch: LaunchInfo
    shared: tuple[Symbol, ...]
    """Static and dynamic shared variables, in order of declaration (helpers' included)."""
    launches: tuple[HostLaunch, ...] = ()
    incomplete: tuple[Incomplete, ...] = ()
    is_amd: bool = False
    fragment: bool = False
    """A pasted excerpt without its prelude: names fall back to the tables."""
    source: SourceFile = SourceFile("", b"")
    """The file it stands in, for lines and texts."""
    damaged: bool = False
    """Some of its text could not be parsed."""


def parts(expr: Expr) -> tuple[Expr, ...]:
    """The operand expressions of an expression."""
    match expr:
        case Load(pointer=arg) | Unary(arg=arg) | Cast(arg=arg) | Element(index=arg) | Address(offset=arg):
            return (arg,)
        case Binary(left=left, right=right):
            return (left, right)
        case Select(test=test, yes=yes, no=no):
            return (test, yes, no)
        case Pure(args=args):
            return args
    return ()


def children(stmt: Stmt) -> Iterator[Seq]:
    """The sequences directly inside a statement, in source order."""
    match stmt:
        case If(then=then, orelse=orelse):
            yield then
            yield orelse
        case Loop(prelude=prelude, step=step, body=body):
            yield prelude
            yield body
            yield step
        case Inline(body=body):
            yield body
        case Seq():
            yield stmt


def walk(stmt: Stmt) -> Iterator[Stmt]:
    """Every statement below and including `stmt`, in source order."""
    # Rules walk whole kernels again and again: no generator and no pattern match per statement.
    stack: list[Stmt] = [stmt]
    pop, push = stack.pop, stack.append
    while stack:
        top = pop()
        yield top
        if isinstance(top, Seq):
            stack += top.body[::-1]
        elif isinstance(top, If):
            push(top.orelse)
            push(top.then)
        elif isinstance(top, Loop):
            push(top.step)
            push(top.body)
            push(top.prelude)
        elif isinstance(top, Inline):
            push(top.body)
