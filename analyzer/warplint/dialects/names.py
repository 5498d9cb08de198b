"""Calls by name: what a helper does when its definition is not in the file, and what the built-ins do.

Tables (`tables/*.toml`) hold one line per spelling; adding a library adds lines. A line is

    op role:where ... modifier=value +flag ?where &position=output -> result

with several operations separated by `;`. `where` says where an operand comes from: `0` or `-1` an argument (from the
end when negative), `&0` the address of an argument passed by reference, `*0` what it points to, `t0` a template
argument, `t0|4` the same with a default, `#64` a constant, `$n` what the key's `{n}` matched. Modifiers may be `t0`,
`t0+1` or `a0` (the argument as written) too. `?where` is the predicate, `&0=value` an output written through reference
argument 0. The result is the name of an output of the last operation, `%laneid` a special register, `arg:0` an
argument, `arg:&0` its address, `#1` a constant. A line without an operation (`~`) is a call that synchronises nothing.
`A || B` is A when the first argument is an address (`&x[0]`), else B.

A key may list several spellings, hold placeholders (`{n}` digits, `{word}` letters and digits), and end with `/3` to
hold only for calls with three arguments. Systematic names of TIRx 0.27 are read by rule (`tirx_names`).
Tables are loaded when a name with one of their prefixes is first asked for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path

from warplint.dialects.asm import AsmOp
from warplint.dialects.leaf import OpOutput, SpecialReg
from warplint.source import Span
from warplint.syntax import ast

NVIDIA = ("cuda", "cuda_ptx", "tirx", "cutlass", "tilelang")
AMD = ("hip", "tilelang_hip")

_PREFIXES: Mapping[str, tuple[str, ...]] = {
    "cuda": (),
    "hip": (),
    "cuda_ptx": ("cuda::", "ptx::", "cde::"),
    "tirx": ("tvm_builtin_", "ptx_"),
    "cutlass": ("cute::", "cutlass::"),
    "tilelang": ("tl::",),
    "tilelang_hip": ("tl::",),
}
"""Which names a table is asked for; an empty tuple means every name without a namespace."""


@dataclass(frozen=True, slots=True)
class Where:
    """Where a value comes from at the call: an argument, a template argument (with default), or a constant."""

    kind: str
    """`arg`, `targ` or `const`."""
    value: int
    default: int | None = None
    offset: int = 0
    """Added to the value: bytes of an address, or to a constant modifier."""
    through: str = ""
    """`&` or `*`: the address of the argument, or what it points to."""


@dataclass(frozen=True, slots=True)
class NameOp:
    """One operation of a named helper."""

    name: str
    operands: tuple[tuple[str, Where], ...] = ()
    mods: Mapping[str, str | int | bool | Where] = field(default_factory=dict)
    predicate: Where | None = None
    outputs: tuple[tuple[int, str], ...] = ()
    """(argument position, output name): results written through reference arguments."""


@dataclass(frozen=True, slots=True)
class NameRow:
    """What a call of this name does. `result` is an output of the last operation, `%register`, `arg:N` or `#N`."""

    ops: tuple[NameOp, ...]
    result: str = ""
    writes: tuple[int, ...] = ()
    """Reference arguments that receive values nobody follows."""
    otherwise: NameRow | None = None
    """The row to use when the first argument is not an address."""


@dataclass(frozen=True, slots=True)
class CallResult:
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
        if prefixes is None or (not name.startswith(prefixes) if prefixes else "::" in name):
            continue
        row = _load(table).find(name, arity)
        if row is not None:
            return row
        if table == "tirx" and name.startswith("tvm_builtin_ptx_"):
            from warplint.dialects import tirx_names

            row = tirx_names.systematic(name)
            if row is not None:
                return row
    return None


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


@cache
def _load(table: str) -> _Table:
    return _Table(rows(table))


def rows(table: str) -> Mapping[str, str]:
    """A table as written: spellings to line, over all files of that name."""
    import tomllib

    found: dict[str, str] = {}
    folder = Path(__file__).with_name("tables")
    for path in sorted(folder.glob(f"{table}.toml")) + sorted(folder.glob(f"{table}_[a-z].toml")):
        found.update(tomllib.loads(path.read_text("utf-8")))
    return found


# ----------------------------------------------------------------------------------------------- one line
def read(line: str, captured: Mapping[str, str]) -> NameRow:
    """A row from its line. Raises ValueError when the line is malformed (a test reads every line)."""
    first, bars, second = line.partition("||")
    if bars:
        return replace(read(first, captured), otherwise=read(second, captured))
    body, arrow, result = line.partition("->")
    ops = tuple(_op(segment.split(), captured) for segment in body.split(";") if segment.strip(" ~"))
    return NameRow(ops, _substituted(result.strip(), captured) if arrow else "")


def _op(words: list[str], captured: Mapping[str, str]) -> NameOp:
    operands: list[tuple[str, Where]] = []
    mods: dict[str, str | int | bool | Where] = {}
    outputs: list[tuple[int, str]] = []
    predicate = None
    for word in words[1:]:
        if word[0] == "+":
            mods[word[1:]] = True
        elif word[0] == "?":
            predicate = _where(word[1:], captured)
        elif word[0] == "&":
            position, _, output = word[1:].partition("=")
            outputs.append((int(position), output))
        elif "=" in word:
            key, _, value = word.partition("=")
            mods[key] = _mod(value, captured)
        else:
            role, colon, where = word.partition(":")
            if not colon:
                raise ValueError(f"`{word}` is no operand")
            operands.append((role, _where(where, captured)))
    return NameOp(_substituted(words[0], captured), tuple(operands), mods, predicate, tuple(outputs))


def _substituted(text: str, captured: Mapping[str, str]) -> str:
    for key, value in sorted(captured.items(), key=lambda item: -len(item[0])):
        text = text.replace("$" + key, value)
    return text


_MOD = re.compile(r"([ta])(\d+)(?:\+(\d+))?(?:\|(\w+))?")


def _mod(text: str, captured: Mapping[str, str]) -> str | int | bool | Where:
    match = _MOD.fullmatch(text)
    if match is not None:
        kind, index, added, default = match.groups()
        fallback = {"true": 1, "false": 0}.get(default) if default and not default.isdigit() else default
        return Where(
            "targ" if kind == "t" else "arg", int(index), None if fallback is None else int(fallback), int(added or 0)
        )
    text = _substituted(text, captured)
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.isdigit() else text


def _where(text: str, captured: Mapping[str, str]) -> Where:
    if text[0] == "$":
        return Where("const", int(captured[text[1:]]))
    if text[0] == "#":
        return Where("const", int(text[1:], 0))
    through = text[0] if text[0] in "&*" else ""
    body, bar, default = text[len(through) :].partition("|")
    fallback = int(default, 0) if bar else None
    if body[0] == "t":
        return Where("targ", int(body[1:]), fallback, through=through)
    return Where("arg", int(body), fallback, through=through)


# --------------------------------------------------------------------------------------------------- calls
def bind(row: NameRow, args: tuple[ast.Expr, ...], targs: tuple[ast.Expr, ...], span: Span) -> CallResult:
    """The operations of one call with its arguments in place. Operands whose argument is absent are left out."""
    if row.otherwise is not None and not (args and _is_address(args[0])):
        row = row.otherwise
    ops: list[AsmOp] = []
    outputs: dict[int, ast.Expr] = {}
    for number, op in enumerate(row.ops):
        operands: dict[str, ast.Expr] = {}
        for role, where in op.operands:
            value = _value(where, args, targs, span)
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
        name = op.name
        if name == "bar.sync.named" and "threads" not in operands and _literal(operands.get("id")) == 0:
            name, operands = "bar.sync.cta", {}
        names = [output for _, output in op.outputs]
        if number == len(row.ops) - 1 and row.result and row.result[0] not in "%#" and ":" not in row.result:
            names.append(row.result)
        for position, output in op.outputs:
            index = position if position >= 0 else len(args) + position
            outputs[index] = OpOutput(span, number, output, _is_truth(op, output))
        ops.append(AsmOp(name, operands, mods, predicate, "", tuple(names)))
    return CallResult(tuple(ops), outputs, _result(row, args, span), row.writes)


def _is_address(value: ast.Expr) -> bool:
    while isinstance(value, ast.Cast) or (isinstance(value, ast.Binary) and value.op in "+-"):
        value = value.arg if isinstance(value, ast.Cast) else value.left
    return isinstance(value, ast.Unary) and value.op == "&"


_TRUTHS = frozenset({"elect.sync", "mbarrier.try_wait", "mbarrier.test_wait"})


def _is_truth(op: NameOp, output: str) -> bool:
    return output == "value" and (op.name in _TRUTHS or op.mods.get("mode") in ("any", "all", "uni"))


def _result(row: NameRow, args: tuple[ast.Expr, ...], span: Span) -> ast.Expr | None:
    text = row.result
    if not text:
        return None
    if text[0] == "%":
        return SpecialReg(span, text[1:])
    if text[0] == "#":
        return ast.Num(span, int(text[1:], 0))
    if text.startswith("arg:"):
        return _value(_where(text[4:], {}), args, (), span)
    last = len(row.ops) - 1
    if row.ops[last].mods.get("blocking") and text == "value":
        return ast.Num(span, 1)
    return OpOutput(span, last, text, _is_truth(row.ops[last], text))


def _value(where: Where, args: tuple[ast.Expr, ...], targs: tuple[ast.Expr, ...], span: Span) -> ast.Expr | None:
    if where.kind == "const":
        return ast.Num(span, where.value)
    source = args if where.kind == "arg" else targs
    if -len(source) <= where.value < len(source):
        value = source[where.value]
        if where.through:
            return _through(where.through, value, span)
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
        return value.id if isinstance(value, ast.Name) else None
    return literal + mod.offset


__all__ = ["AMD", "NVIDIA", "CallResult", "NameOp", "NameRow", "Where", "bind", "lookup", "read", "rows"]
