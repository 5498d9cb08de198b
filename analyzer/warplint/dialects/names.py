"""Calls by name: what a helper does when its definition is not in the file, and what the built-ins do.

Tables (`tables/*.toml`) hold one line per spelling; adding a library adds lines (`name_rows` says how they read).
A key may list several spellings, hold placeholders (`{n}` digits, `{word}` letters and digits), and end with `/3` to
hold only for calls with three arguments. A method is `Type::method`, its object's address is argument 0. Systematic
names of TIRx 0.27 are read by rule (`tirx_names`).
Tables are loaded when a name with one of their prefixes is first asked for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache, lru_cache

from msgspec import Struct
from msgspec.structs import replace

from warplint.dialects.asm import AsmOp
from warplint.dialects.leaf import Computed, OpOutput, SpecialReg
from warplint.dialects.name_rows import NameOp, NameRow, Where, read, source_of
from warplint.dialects.packs import Pack
from warplint.source import Span
from warplint.syntax import ast

NVIDIA = (
    "cuda", "cuda_ptx", "cooperative_groups", "wmma", "tirx", "cutlass", "tilelang", "deep_gemm", "thunderkittens",
    "flash_attention", "flash_mla", "mirage",
)  # fmt: skip
AMD = ("hip", "cooperative_groups", "wmma", "composable_kernel", "tilelang_hip")

_PREFIXES: Mapping[str, tuple[str, ...]] = {
    "cuda": (),
    "hip": (),
    "cuda_ptx": ("cuda::", "ptx::", "cde::"),
    "tirx": ("tvm_builtin_", "ptx_", "get_tmem_addr"),
    "cooperative_groups": ("cooperative_groups::", "cg::"),
    "wmma": ("nvcuda::", "wmma::", "rocwmma::"),
    "composable_kernel": ("ck::", "ck_tile::"),
    "cutlass": ("cute::", "cutlass::", "Cluster", "NamedBarrier::"),
    "deep_gemm": ("deep_gemm::",),
    "thunderkittens": ("kittens::",),
    "flash_attention": ("flash::",),
    "flash_mla": ("kerutils::", "ku::"),
    "mirage": ("kernel::",),
    "tilelang": ("tl::", "Barrier::", "Atomic"),
    "tilelang_hip": ("tl::",),
}
"""Which names a table is asked for; an empty tuple means every name without a namespace."""


class CallResult(Struct, frozen=True):
    """A named call with its actual arguments; `ops`, `outputs` as in `asm.AsmResult` (outputs by argument position)."""

    ops: tuple[AsmOp, ...]
    outputs: Mapping[int, ast.Expr]
    result: ast.Expr | None = None
    writes: tuple[int, ...] = ()
    """Arguments written with values that are not followed."""


# ------------------------------------------------------------------------------------------------- look-up
@lru_cache(maxsize=8192)
def lookup(name: str, tables: tuple[str, ...] = NVIDIA, arity: int | None = None) -> NameRow | None:
    """The row for a called name (namespaces as written), None when no table knows it.

    `arity` is the number of arguments at the call, for names that mean different things.
    """
    name = name.removeprefix("::")
    for table in tables:
        prefixes = _PREFIXES.get(table)
        if prefixes is None:
            if table not in _packs:
                continue
        elif not name.startswith(prefixes) if prefixes else "::" in name:
            continue
        row = _load(table).find(name, arity)
        if row is not None:
            return row
        if table == "tirx" and name.startswith("tvm_builtin_ptx_"):
            from warplint.dialects import tirx_names

            row = tirx_names.systematic(name, arity)
            if row is not None:
                return row
        if table == "tilelang" and name.startswith("tl::AllReduce<") and _for_nvidia(tables):
            from warplint.dialects import tilelang_reduce

            row = tilelang_reduce.systematic(name)
            if row is not None:
                return row
    return None


def _for_nvidia(tables: tuple[str, ...]) -> bool:
    """The order of tables is that of a file for NVIDIA's compiler."""
    return AMD[0] not in tables or tables.index(NVIDIA[0]) < tables.index(AMD[0])


class _Table:
    """The rows of one table; a row is read when it is first used."""

    def __init__(self, rows: Mapping[str, str]) -> None:
        self.exact: dict[str, str] = {}
        self.patterns: list[tuple[str, str]] = []
        for key, row in rows.items():
            for spelling in key.split():
                if "{" in spelling:
                    self.patterns.append((spelling, row))
                else:
                    self.exact[spelling] = row
        self.compiled: list[tuple[re.Pattern[str], str]] | None = None

    def find(self, name: str, arity: int | None) -> NameRow | None:
        row = self.exact.get(f"{name}/{arity}") if arity is not None else None
        if row is None:
            row = self.exact.get(name)
        if row is not None:
            return read(row, {})
        if self.compiled is None:
            self.compiled = [(_pattern(key), text) for key, text in self.patterns]
        for pattern, text in self.compiled:
            match = pattern.fullmatch(name)
            if match is not None:
                return read(text, match.groupdict())
        return None


_PLACEHOLDERS: Mapping[str, str] = {
    "n": r"\d+",
    "any": r"\w*",
    "dtype": r"(?:u?int|float|bfloat)\d+|bool",
    "sem": "relaxed|acquire|release|acq_rel|sc",
    "scope": "cta|cluster|gpu|sys",
}
"""What `{n}`, `{any}` ... match; any other word matches letters and digits. A number may follow (`{n2}`)."""


def _pattern(key: str) -> re.Pattern[str]:
    """A key as a regular expression; see `_PLACEHOLDERS`."""
    parts = re.split(r"\{(\w+)\}", key)
    text = re.escape(parts[0])
    for index in range(1, len(parts), 2):
        word = parts[index]
        body = _PLACEHOLDERS.get(word.rstrip("0123456789"), "[A-Za-z0-9]+")
        text += f"(?P<{word}>{body})" + re.escape(parts[index + 1])
    return re.compile(text)


_packs: dict[str, Pack] = {}
"""Packs from outside by the name that `use` gave them."""


def use(pack: Pack) -> str:
    """Makes a pack's rows known; returns the table's name for `lookup`. Equal packs have one name."""
    for name, known in _packs.items():
        if known == pack:
            return name
    name = f"{pack.name} #{len(_packs)}"  # a blank and a sign: no table of ours is called so
    _packs[name] = pack
    return name


@cache
def _load(table: str) -> _Table:
    return _Table(dict(_packs[table].rows) if table in _packs else rows(table))


def rows(table: str) -> Mapping[str, str]:
    """A table as written: spellings to line, over all files of that name."""
    import tomllib

    found: dict[str, str] = {}
    for path in _files(table):
        with open(path, "rb") as file:
            found.update(tomllib.load(file))
    return found


def about(table: str) -> str:
    """What a table of ours covers: the first sentence of its first file."""
    with open(_files(table)[0], encoding="utf-8") as file:
        return file.readline().lstrip("# ").strip().partition(". ")[0].rstrip(".")


def _files(table: str) -> list[str]:
    folder = os.path.join(os.path.dirname(__file__), "tables")
    parts = re.compile(re.escape(table) + r"(?:_[a-z])?\.toml")
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if parts.fullmatch(name)]


# --------------------------------------------------------------------------------------------------- calls
def bind(row: NameRow, args: tuple[ast.Expr, ...], targs: tuple[ast.Expr, ...], span: Span) -> CallResult:
    """The operations of one call with its arguments in place. Operands whose argument is absent are left out."""
    while row.otherwise is not None and not _holds(row, args):
        row = row.otherwise
    ops: list[AsmOp] = []
    outputs: dict[int, ast.Expr] = {}
    for number, op in enumerate(row.ops):
        operands: dict[str, ast.Expr] = {}
        for role, where in op.operands:
            value = _value(where, args, targs, span)
            if where.kind == "out":
                value = OpOutput(span, len(ops) - 1, where.through)
            if value is not None:
                operands[role] = value
        mods: dict[str, str | int | bool] = {}
        for key, mod in op.mods.items():
            resolved = _fixed(mod, args, targs, span)
            if resolved is not None:
                mods[key] = resolved
        predicate = None if op.predicate is None else _value(op.predicate, args, targs, span)
        if predicate is not None:
            predicate = ast.Binary(span, "!=", predicate, ast.Num(span, 0))
        if mods.get("elects"):  # the helper elects the issuing lane itself: elect.sync, then the operation under it
            mask: dict[str, ast.Expr] = {"mask": ast.Num(span, 0xFFFFFFFF)}
            predicate = OpOutput(span, len(ops), "value", True)
            if mods["elects"] is not True:  # one thread of so many
                predicate = _one_of(int(mods["elects"]), predicate, span)
            ops.append(AsmOp("elect.sync", mask, {}, None, "", ("value",)))
        name = op.name
        if name == "bar.sync.named" and "threads" not in operands and _literal(operands.get("id")) == 0:
            name, operands = "bar.sync.cta", {}
        names = [output for _, output in op.outputs]
        last = number == len(row.ops) - 1 - row.result.startswith("^")
        if last and row.result and row.result[0] not in "%#?" and ":" not in row.result:
            names.append(row.result.removeprefix("^"))
        for position, output in op.outputs:
            index = position if position >= 0 else len(args) + position
            outputs[index] = OpOutput(span, len(ops), output, _is_truth(op, output))
        ops.append(AsmOp(name, operands, mods, predicate, "", tuple(names)))
    result = _result(row, args, span, len(ops) - 1)
    if result is not None and ops and "every" in ops[-1].mods:
        result = _one_of(int(ops[-1].mods["every"]), result, span)
    return CallResult(tuple(ops), outputs, result, row.writes)


def _holds(row: NameRow, args: tuple[ast.Expr, ...]) -> bool:
    """The condition of a row that has another one to fall back on."""
    if row.when:
        return all(place < len(args) and _tag(args[place]) == word for place, word in row.when)
    return bool(args) and _is_address(args[0])


def _tag(value: ast.Expr) -> str:
    """The name of a tag argument (`cuda::ptx::space_cluster`, `space_cluster_t{}`) without namespaces and `_t`."""
    name = ""
    match value:
        case ast.Name(id=name) | ast.Call(fn=ast.Name(id=name)):
            pass
        case ast.InitList(type=ast.TypeName(name=name)) | ast.Cast(type=ast.TypeName(name=name)):
            pass
    return name.partition("<")[0].rpartition("::")[2].removesuffix("_t")


def _counted(value: ast.Expr) -> ast.Expr:
    """`n32_t<4>{}` and `std::integral_constant<int, 4>{}` as their number."""
    targs: tuple[ast.Expr, ...] = ()
    match value:
        case ast.InitList(type=ast.TypeName(targs=targs)) if targs:
            pass
        case ast.Call(fn=ast.Name(targs=targs), args=()) if targs:
            pass
        case ast.Call(fn=ast.Name(), targs=targs, args=()) if targs:
            pass
    return targs[-1] if targs and _tag(value) in ("n32", "integral_constant", "Int", "constant") else value


def _one_of(threads: int, elected: ast.Expr, span: Span) -> ast.Expr:
    """An election of one lane in every `threads` threads, whole warps each; 0: one lane in the CTA, of warp 0."""
    warps = (threads + 31) // 32
    if warps == 1:
        return elected
    warp: ast.Expr = ast.Binary(span, ">>", SpecialReg(span, "linear_tid"), ast.Num(span, 5))
    if warps:
        warp = ast.Binary(span, "%", warp, ast.Num(span, warps))
    return ast.Binary(span, "&&", elected, ast.Binary(span, "==", warp, ast.Num(span, 0)))


def _is_address(value: ast.Expr) -> bool:
    while isinstance(value, ast.Cast) or (isinstance(value, ast.Binary) and value.op in "+-"):
        value = value.arg if isinstance(value, ast.Cast) else value.left
    return isinstance(value, ast.Unary) and value.op == "&"


_TRUTHS = frozenset({"elect.sync", "mbarrier.try_wait", "mbarrier.test_wait"})


def _is_truth(op: NameOp, output: str) -> bool:
    return output == "value" and (op.name in _TRUTHS or op.mods.get("mode") in ("any", "all", "uni"))


def _result(row: NameRow, args: tuple[ast.Expr, ...], span: Span, last: int) -> ast.Expr | None:
    text = row.result
    if not text:
        return None
    if text[0] == "%":
        register, operator, number = _parted(text[1:])
        special = SpecialReg(span, register)
        return ast.Binary(span, operator, special, ast.Num(span, int(number))) if operator else special
    if text[0] == "?":
        return Computed(span, "call", args)
    if text[0] == "#":
        return ast.Num(span, int(text[1:], 0))
    if text.startswith("arg:"):
        return _value(source_of(text[4:], {}), args, (), span)
    if text[0] == "^":
        return OpOutput(span, last - 1, text[1:], _is_truth(row.ops[-2], text[1:]))
    if row.ops[-1].mods.get("blocking") and text == "value":
        return ast.Num(span, 1)
    return OpOutput(span, last, text, _is_truth(row.ops[-1], text))


def _parted(text: str) -> tuple[str, str, str]:
    """`tid.x/32` as its register, operator and number."""
    for operator in "/%":
        if operator in text:
            return text.partition(operator)
    return text, "", ""


def _value(where: Where, args: tuple[ast.Expr, ...], targs: tuple[ast.Expr, ...], span: Span) -> ast.Expr | None:
    if where.kind == "out":
        return None
    if where.given is not None and not (where.given < len(targs) and _literal(targs[where.given])):
        return None
    if where.kind == "const":
        return ast.Num(span, where.value)
    source = args if where.kind == "arg" else targs
    if -len(source) <= where.value < len(source):
        value = _counted(source[where.value])
        if where.through == "@":
            at = where.value if where.value >= 0 else len(source) + where.value
            if at + 2 >= len(source):
                return None
            row = ast.Binary(span, "<<", source[at + 1], ast.Num(span, 16))
            return ast.Binary(span, "+", ast.Binary(span, "+", value, row), source[at + 2])
        if where.through:
            return _through(where.through, value, span)
        if where.plus is not None and where.plus < len(source):
            return ast.Binary(span, "+", value, source[where.plus])
        if where.offset and where.through == "" and where.plain:
            return ast.Binary(span, "+", value, ast.Num(span, where.offset))
        if where.offset:
            wide = ast.Cast(span, ast.TypeName("unsigned long long"), value)
            return ast.Binary(span, "+", wide, ast.Num(span, where.offset))
        return value
    return None if where.default is None else ast.Num(span, where.default)


def _through(operator: str, value: ast.Expr, span: Span) -> ast.Expr:
    """`&value` or `*value`; the one undoes the other."""
    inverse = "*" if operator == "&" else "&"
    if isinstance(value, ast.Unary) and value.op == inverse:
        return value.arg
    return ast.Unary(span, operator, value)


def _literal(value: ast.Expr | None) -> int | None:
    while isinstance(value, ast.Cast):
        value = value.arg
    if isinstance(value, ast.Name) and value.id in ("true", "false"):
        return int(value.id == "true")
    return value.value if isinstance(value, ast.Num) else None


def _fixed(
    mod: str | int | bool | Where, args: tuple[ast.Expr, ...], targs: tuple[ast.Expr, ...], span: Span
) -> str | int | bool | None:
    if not isinstance(mod, Where):
        return mod
    value = _value(replace(mod, offset=0), args, targs, span)
    if isinstance(value, ast.Str):
        return value.value
    literal = _literal(value)
    if literal is None:
        return _meaning(value)
    return literal + mod.offset


_TAGS = ("sem_", "scope_", "space_", "cta_group_", "kind_", "op_")


def _meaning(value: ast.Expr | None) -> str | int | None:
    """A modifier that is an argument as written; of a tag what it stands for."""
    tag = _tag(value) if value is not None else ""
    for prefix in _TAGS:
        if tag.startswith(prefix):
            rest = tag[len(prefix) :].removesuffix("_op")
            return int(rest) if rest.isdecimal() else rest
    return value.id if isinstance(value, ast.Name) else None


__all__ = [
    "AMD",
    "NVIDIA",
    "CallResult",
    "NameOp",
    "NameRow",
    "Where",
    "about",
    "bind",
    "lookup",
    "read",
    "rows",
    "use",
]
