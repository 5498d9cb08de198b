"""Our own small syntax tree: what the rest of the analyzer sees of a C++ file.

It is built by `syntax.build` from tree-sitter nodes, and only where somebody looks: a statement's expressions are
built on first use, because most statements of a generated kernel are data arithmetic that no rule reads. Everything is
immutable once built. `span` is a byte range of the original file.

Expressions keep what the source says (casts, parentheses dropped); names are unresolved text. Types are reduced to
what the analysis needs (`TypeName`).
"""

from __future__ import annotations

from collections.abc import Callable, Set

from msgspec import Struct

from warplint.source import Span


# --------------------------------------------------------------------------------------------- expressions
class Expr(Struct, frozen=True):
    """Base of all expressions."""

    span: Span


class TypeName(Struct, frozen=True):
    """A type as far as it matters: base name without qualifiers, pointer depth, and qualifiers seen."""

    name: str
    """`int`, `unsigned int`, `uint64_t`, `CUtensorMap`, `cuda::barrier<...>` ... template arguments as written."""
    pointer: int = 0
    reference: bool = False
    qualifiers: frozenset[str] = frozenset()
    """Of: const volatile constexpr static extern __shared__ __constant__ __device__ __grid_constant__ auto."""
    targs: tuple[Expr, ...] = ()
    """Template arguments of the type, in order (types among them are `Name` with their text)."""


class Num(Expr, frozen=True):
    """A literal: integer, character, `true`/`false`/`nullptr` as int; a float has `value=None`."""

    value: int | None
    unsigned: bool = False
    bits: int = 32


class Str(Expr, frozen=True):
    """A string literal, escapes decoded, adjacent literals joined."""

    value: str


class Name(Expr, frozen=True):
    """An identifier, possibly qualified (`cutlass::arch::fence_view_async_shared`), template arguments apart."""

    id: str
    targs: tuple[Expr, ...] = ()


class Unary(Expr, frozen=True):
    """`op` of: - + ! ~ * & (dereference and address-of included), sizeof."""

    op: str
    arg: Expr


class Update(Expr, frozen=True):
    """`++x`, `x--` and so on; `op` is `+` or `-`."""

    op: str
    arg: Expr
    prefix: bool


class Binary(Expr, frozen=True):
    """Any binary operator, `&&`, `||` (also spelled `and`, `or`) and `,` included."""

    op: str
    left: Expr
    right: Expr


class Assign(Expr, frozen=True):
    """`target op= value`; `op` is empty for plain `=`."""

    op: str
    target: Expr
    value: Expr


class Cond(Expr, frozen=True):
    """`test ? yes : no`."""

    test: Expr
    yes: Expr
    no: Expr


class Cast(Expr, frozen=True):
    """Any cast spelling, functional casts of built-in types and `(uint)(x)` included."""

    type: TypeName
    arg: Expr


class Index(Expr, frozen=True):
    """`base[index]`."""

    base: Expr
    index: Expr


class Member(Expr, frozen=True):
    """`base.name` or `base->name`."""

    base: Expr
    name: str
    arrow: bool = False


class Call(Expr, frozen=True):
    """A call; `fn` is a `Name` (targs there) or a `Member` for methods (method targs in `targs`)."""

    fn: Expr
    args: tuple[Expr, ...]
    targs: tuple[Expr, ...] = ()


class InitList(Expr, frozen=True):
    """`{a, b, c}` or `T{a, b}` (type then set)."""

    items: tuple[Expr, ...]
    type: TypeName | None = None


class Lambda(Expr, frozen=True):
    """A lambda; its body is a statement, parameters as in a function."""

    params: tuple[Param, ...]
    body: Block


class AsmOperand(Struct, frozen=True):
    """One operand of inline assembly: `[name] "constraint"(expr)`."""

    constraint: str
    value: Expr
    name: str = ""


class Asm(Expr, frozen=True):
    """Inline assembly with its string literals joined and decoded (`%%` kept as written).

    `template` is None when a macro stands among the literals and could not be resolved. Operand `%N` counts outputs
    first, then inputs; `%[name]` by name.
    """

    template: str | None
    outputs: tuple[AsmOperand, ...]
    inputs: tuple[AsmOperand, ...]
    volatile: bool


class Unparsed(Expr, frozen=True):
    """Source that could not be turned into an expression; `text` is kept for messages."""

    text: str


# ---------------------------------------------------------------------------------------------- statements
class Lazy(Struct):
    """An expression that is built when first asked for. `head` and `target` are cheap looks that build nothing.

    `head` is the callee's text when the expression is a plain call (`f(...)`, `ns::f<...>(...)`, `x.f(...)`), else "".
    `target` is the base identifier written to when it is an assignment or update (`x`, `x[0]`, `x.y`, `*x`), else "".
    """

    span: Span
    make: Callable[[], Expr]
    head: str = ""
    target: str = ""
    built: Expr | None = None

    @property
    def expr(self) -> Expr:
        """The expression itself, built once."""
        if self.built is None:
            self.built = self.make()
        return self.built


class Stmt(Struct, frozen=True):
    """Base of all statements."""

    span: Span


class Block(Stmt, frozen=True):
    """A sequence in braces (or a single statement standing where a block may)."""

    body: tuple[Stmt, ...]


class Declarator(Struct, frozen=True):
    """One declared name: `T name[dims] = init`, `T name(args)` or `T name{args}` (then `init` is an `InitList`)."""

    name: str
    type: TypeName
    dims: tuple[Expr | None, ...] = ()
    """Array dimensions, outermost first; None for `[]`."""
    init: Lazy | None = None
    span: Span = Span(0, 0)
    alignment: int = 0
    """Bytes from `alignas`/`__align__` when a literal, else 0."""
    bits: int = 0
    """Width of a bit-field when a literal, else 0. A nameless bit-field is a member named ""."""


class Decl(Stmt, frozen=True):
    """A declaration of one or more variables."""

    items: tuple[Declarator, ...]


class ExprStmt(Stmt, frozen=True):
    """An expression used as a statement (calls, assignments, asm)."""

    value: Lazy


class If(Stmt, frozen=True):
    """`constexpr` tells `if constexpr`. `init` is the C++17 init statement."""

    test: Lazy
    then: Block
    orelse: Block | None
    constexpr: bool = False
    init: Stmt | None = None


class For(Stmt, frozen=True):
    """`unroll` is the factor of a `#pragma unroll` just before (0 none given a number, -1 without number, 1 = not)."""

    init: Stmt | None
    test: Lazy | None
    step: Lazy | None
    body: Block
    unroll: int = 0


class While(Stmt, frozen=True):
    """`while` (`after=False`) or `do while` (`after=True`)."""

    test: Lazy
    body: Block
    after: bool = False


class Case(Struct, frozen=True):
    """One `case value:` (None for `default:`) with the statements up to the next label."""

    value: Expr | None
    body: tuple[Stmt, ...]
    span: Span


class Switch(Stmt, frozen=True):
    """Cases in source order; falling through is real."""

    test: Lazy
    cases: tuple[Case, ...]


class Break(Stmt, frozen=True):
    """`break`."""


class Continue(Stmt, frozen=True):
    """`continue`."""


class Return(Stmt, frozen=True):
    """`return value;`."""

    value: Lazy | None


class Goto(Stmt, frozen=True):
    """`goto` and labels: not followed; the kernel is incomplete."""

    label: str


class Gap(Stmt, frozen=True):
    """A region that could not be parsed."""

    reason: str


# ------------------------------------------------------------------------------------------------- top level
class Param(Struct, frozen=True):
    """A parameter; `name` is empty when unnamed."""

    name: str
    type: TypeName
    default: Lazy | None = None
    span: Span = Span(0, 0)


class Attributes(Struct, frozen=True):
    """What stood on a function before it was masked: each the written arguments as expressions."""

    launch_bounds: tuple[Expr, ...] = ()
    cluster_dims: tuple[Expr, ...] = ()
    block_size: tuple[tuple[Expr, ...], ...] = ()
    """`__block_size__((x,y,z),(cx,cy,cz))`: block dims, then cluster dims."""
    maxnreg: tuple[Expr, ...] = ()
    waves: tuple[str, ...] = ()
    """Other attributes as text (`amdgpu_flat_work_group_size(1, 256)`, `reqd_work_group_size(...)`)."""


class Function(Struct, frozen=True):
    """A function definition. `body` is built on first use (call it)."""

    name: str
    """Qualified by classes and namespaces it stands in, joined with `::`."""
    params: tuple[Param, ...]
    result: TypeName
    specifiers: frozenset[str]
    """Of: __global__ __device__ __host__ static inline __forceinline__ extern constexpr."""
    template: tuple[str, ...]
    """Names of its template parameters (own and of the class it stands in)."""
    attributes: Attributes
    span: Span
    name_span: Span
    body: Callable[[], Block]
    asm_only: bool = False
    """Cheap hint: the body holds an `asm` and nothing that branches."""
    text_mentions: Set[str] = frozenset()
    """Identifiers of the body followed by `(`: whom it may call (by token, when first asked), plus `asm` if it holds
    one. Iterates in sorted order."""
    record: str = ""
    """The class or struct whose method it is, if any."""
    defaults: tuple[tuple[str, Lazy], ...] = ()
    """Defaults of its own template parameters (`template <int Lanes = 64>`), by name; a type as its name."""


class Record(Struct, frozen=True):
    """A class, struct or union: its data members in order (base classes are named, not followed).

    A nameless inner record is a member named "" whose type names that record, as `<struct@N>` or `<union@N>` with N
    the byte where it begins; a nameless bit-field is a member named "" with its width.
    """

    name: str
    members: tuple[Declarator, ...]
    bases: tuple[str, ...]
    span: Span
    template: tuple[str, ...] = ()
    alignment: int = 0


class Launch(Struct, frozen=True):
    """A host launch `kernel<<<grid, block, smem, stream>>>(args)` or a launch API call that names a kernel.

    `api` is `<<<>>>`, `cudaLaunchCooperativeKernel`, `cudaLaunchKernelEx`, `hipLaunchKernelGGL` and so on.
    """

    kernel: str
    grid: Expr | None
    block: Expr | None
    smem: Expr | None
    api: str
    span: Span
    function: str = ""
    """The host function it stands in (its locals and constants resolve names in `grid` and `block`)."""
    cluster: Expr | None = None
    """Cluster dimensions from a launch attribute (`attribute[0].val.clusterDim.x = 2`), as an `InitList` of three."""


class Macro(Struct, frozen=True):
    """An object-like or function-like `#define` (params is None when object-like); `body` as text."""

    name: str
    params: tuple[str, ...] | None
    body: str
    span: Span
    until: int = -1
    """Byte offset of the `#undef` or the next `#define` of this name that ends it; -1 when it holds to the end."""


class ParseGap(Struct, frozen=True):
    """Lines that the parser could not read: reported, and the verdict of the kernel that holds them is incomplete."""

    span: Span
    reason: str


class File(Struct, frozen=True):
    """A parsed file."""

    functions: tuple[Function, ...]
    records: tuple[Record, ...]
    globals: tuple[Decl, ...]
    """Namespace-scope variables, `constexpr` constants, enumerators (as constexpr declarations)."""
    macros: tuple[Macro, ...]
    includes: tuple[str, ...]
    launches: tuple[Launch, ...]
    aliases: tuple[tuple[str, TypeName], ...]
    """`using X = T;` and `typedef T X;`."""
    gaps: tuple[ParseGap, ...]
    passes: bool = False
    """A condition asked for a macro that only device code has: the host's compiler may read another file."""
