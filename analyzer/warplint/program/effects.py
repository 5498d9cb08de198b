"""Which callees matter: found once per name, so that statements which call nothing that matters are never built.

Three classes: `NONE` (a value from arguments, at most), `WRITES` (also writes through a pointer, reference or `this`)
and `MATTERS` (an operation, a shared variable, an exit, or nobody knows). The text of a function is searched once for
callee names; the sorted offsets of those with an effect tell for any statement, in one bisection, if it has one.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

from msgspec import Struct

from warplint.dialects import asm as asm_dialect
from warplint.patterns import late
from warplint.program import builtins, named
from warplint.program.ctypes import scalar_name, strip_namespace, vector
from warplint.program.unit import Unit
from warplint.syntax import ast

NONE, WRITES, MATTERS = 0, 1, 2

_CALLEE = late(rb"[A-Za-z_]\w*+(?=\s*+\()")
_TEMPLATE_CALLEE = late(rb"[A-Za-z_]\w*+(?=\s*+<[^;{}()]{1,200}>\s*+\()")
_WORD_BYTES = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
_AFTER_ANGLE = late(rb"<[^;{}()]{1,200}>\s*\(")
_OPENING = late(rb"\s*[(<]")
_WRITE = late(rb"\+\+|--|(?<![=!<>])=(?!=)|<<=|>>=")
_WORD = late(r"[A-Za-z_]\w*")
_ASM = frozenset({"asm", "__asm__", "__asm", "volatile", "__volatile__", "__volatile"})


MAX_CALLS = 60
"""Depth of helpers calling helpers (and macros naming macros) that is looked into; deeper ones matter."""


class Summary(Struct, eq=False):
    """What is known about one function of the file."""

    effect: int
    straight: bool
    """Its body is declarations, expressions and at most a final `return`."""
    deterministic: bool
    """Without assembly, special registers and unknown calls: its value depends on arguments and memory alone."""


def index(unit: Unit, kernel: ast.Function) -> None:
    """Looks through a kernel; helpers are looked through when something calls them."""
    if not unit.scanned:
        bare = [name for name, macro in unit.macros.items() if macro.params is None and _text_effect(unit, macro.body)]
        if bare:
            unit.statements = re.compile(r"\b(?:{})\b".format("|".join(map(re.escape, bare))).encode())
    scan(unit, kernel)


def scan(unit: Unit, fn: ast.Function) -> None:
    """Adds what matters in one function's text to `unit.hot` and `unit.writes`, once."""
    if id(fn) in unit.scanned:
        return
    unit.scanned.add(id(fn))
    unit.callees[id(fn)] = ()  # while it is looked through
    data, start, end = unit.source.data, fn.span.start, fn.span.end
    seen: dict[bytes, int] = {}
    called: dict[str, None] = {}
    hot: set[int] = set()
    for match in _CALLEE.finditer(data, start, end):
        name = match[0]
        effect = seen.get(name)
        if effect is None:
            word = name.decode("ascii")
            called[word] = None
            seen[name] = effect = of_name(unit, word)
        if effect:
            hot.add(match.start())
    at = data.find(b"<", start, end)
    while at != -1:
        text = data[max(start, at - 100) : at].rstrip()
        word = text[len(text.rstrip(_WORD_BYTES)) :].lstrip(b"0123456789")
        if word:
            name = word.decode("ascii")
            if name in unit.functions or _AFTER_ANGLE.match(data, at, end):
                called[name] = None
                if name not in builtins.KEYWORDS and of_name(unit, name):
                    hot.add(max(start, at - 100) + len(text) - len(word))
        at = data.find(b"<", at + 1, end)
    hot.update(_after_comments(data, start, end))
    if unit.statements is not None:
        hot.update(match.start() for match in unit.statements.finditer(data, start, end))
    unit.callees[id(fn)] = tuple(sorted(called))
    _insert(unit.hot, sorted(hot), start, end)
    _insert(unit.writes, _writes(data, start, end), start, end)


def _after_comments(data: bytes, start: int, end: int) -> list[int]:
    """Parentheses behind a comment: what stands before it may be a callee, so they count as calls that matter."""
    found: list[int] = []
    for mark in (b"*/", b"//"):
        at = data.find(mark, start, end)
        while at != -1:
            past = at + 2 if mark == b"*/" else data.find(b"\n", at, end)
            match = _OPENING.match(data, past, end) if past != -1 else None
            if match is not None:
                found.append(match.end() - 1)
            at = data.find(mark, at + 2, end)
    return found


def _insert(offsets: list[int], found: list[int], start: int, end: int) -> None:
    """Puts the offsets of one text into the sorted list (those of a function inside it are among them already)."""
    offsets[bisect_left(offsets, start) : bisect_left(offsets, end)] = found


def _writes(data: bytes, start: int, end: int) -> list[int]:
    """Offsets of assignments and updates, sorted."""
    found: list[int] = []
    at = data.find(b"=", start, end)
    while at != -1:
        if data[at + 1 : at + 2] == b"=":
            at = data.find(b"=", at + 2, end)
            continue
        before = data[at - 1 : at]
        if before not in (b"!", b"<", b">", b"=") or data[at - 2 : at] in (b"<<", b">>"):
            found.append(at)
        at = data.find(b"=", at + 1, end)
    for sign in (b"++", b"--"):
        at = data.find(sign, start, end)
        while at != -1:
            found.append(at)
            at = data.find(sign, at + 2, end)
    found.sort()
    return found


def of_name(unit: Unit, name: str) -> int:
    """The class of a callee by its name (every function of that name counts)."""
    known = unit.effects.get(name)
    if known is not None:
        return known
    unit.effects[name] = MATTERS  # while it is being found out: recursion is not looked into
    if unit.depth >= MAX_CALLS:
        return MATTERS
    unit.depth += 1
    try:
        unit.effects[name] = effect = _of_name(unit, name)
    finally:
        unit.depth -= 1
    return effect


def _of_name(unit: Unit, name: str) -> int:
    if name in builtins.KEYWORDS:
        return NONE
    if name in _ASM:
        return MATTERS
    macro = unit.macros.get(name)
    if macro is not None:
        return _text_effect(unit, macro.body)
    functions = unit.functions.get(name)
    if functions:
        return max(summary(unit, fn).effect for fn in functions)
    last = strip_namespace(name)
    if scalar_name(name) is not None or vector(name) is not None:
        return NONE
    if last in unit.records:
        return max((summary(unit, fn).effect for fn in unit.functions.get(f"{last}::{last}", ())), default=NONE)
    alias = unit.aliases.get(name)
    if alias is not None:
        return NONE if scalar_name(alias.name) or alias.pointer else MATTERS
    if name in builtins.NOTHING or name in builtins.IDENTITY or name in builtins.LOADS or builtins.harmless(name):
        return NONE
    if name in builtins.CLOCKS or name in named.GROUPS:
        return NONE
    row = named.find(unit, name)
    if row is not None and row.plain:
        return NONE
    return MATTERS


def _text_effect(unit: Unit, text: str) -> int:
    """The class of a macro's body: it matters when it calls something that does, or holds statements."""
    data = text.encode()
    for pattern in (_CALLEE, _TEMPLATE_CALLEE):
        for match in pattern.finditer(data):
            if of_name(unit, match[0].decode("ascii")):
                return MATTERS
    for word in _WORD.findall(text):
        if word in unit.functions and of_name(unit, word):
            return MATTERS
        inner = unit.macros.get(word)
        if inner is not None and inner.body != text and inner.params is None and of_name(unit, word):
            return MATTERS
        if word in _ASM or word in ("return", "__syncthreads"):
            return MATTERS
        row = named.find(unit, word)
        if row is not None and not row.plain:
            return MATTERS
    return MATTERS if _WRITE.search(data) else NONE


def summary(unit: Unit, fn: ast.Function) -> Summary:
    """What a function of the file does, found once."""
    found = unit.summaries.get(id(fn))
    if isinstance(found, Summary):
        return found
    scan(unit, fn)
    unit.summaries[id(fn)] = Summary(MATTERS, False, False)
    result = _summarize(unit, fn)
    unit.summaries[id(fn)] = result
    return result


def _summarize(unit: Unit, fn: ast.Function) -> Summary:
    effect = NONE
    deterministic = True
    data = unit.source.data[fn.span.start : fn.span.end]
    if b"__shared__" in data:
        effect = MATTERS
    has_asm = False
    for name in unit.callees[id(fn)]:
        if name in _ASM:
            has_asm = True
            continue
        if name == strip_namespace(fn.name) and name not in unit.macros and _only(unit, name, fn):
            if b"{" in data and re.search(rb"\b" + name.encode() + rb"\s*[(<]", data[data.find(b"{") :]):
                effect = MATTERS  # calls itself
            continue
        effect = max(effect, of_name(unit, name))
        if effect == MATTERS:
            break
        deterministic = deterministic and _settled(unit, name)
    if has_asm or re.search(rb"threadIdx|blockIdx|laneid|clock", data):
        deterministic = False
    statements: tuple[ast.Stmt, ...] | None = None
    if has_asm and effect != MATTERS:
        statements = fn.body().body
        effect = max(effect, _assembly_effect(statements))
    if effect == NONE and _may_write(unit, fn, data):
        effect = WRITES
    if statements is None and (len(data) < 20_000):
        statements = fn.body().body
    return Summary(effect, statements is not None and straight(statements), deterministic)


def _only(unit: Unit, name: str, fn: ast.Function) -> bool:
    return unit.functions.get(name, [fn]) == [fn]


def _settled(unit: Unit, name: str) -> bool:
    functions = unit.functions.get(name)
    if functions:
        return all(summary(unit, fn).deterministic for fn in functions)
    return name not in builtins.CLOCKS and name not in named.GROUPS


def _assembly_effect(statements: tuple[ast.Stmt, ...]) -> int:
    effect = NONE
    for node in assemblies(statements):
        result = asm_dialect.classify(node)
        if (
            result.unknown
            or result.exits
            or result.traps
            or any(op.name != "ld" or "cta" in op.operands for op in result.ops)
        ):
            return MATTERS
        if node.outputs:
            effect = NONE
    return effect


def _may_write(unit: Unit, fn: ast.Function, data: bytes) -> bool:
    """It has something to write through, and writes something."""
    through = any(
        (param.type.pointer or param.type.reference) and "const" not in param.type.qualifiers for param in fn.params
    ) or (bool(fn.record) and "static" not in fn.specifiers)
    if not through:
        return False
    brace = data.find(b"{")
    return unit_writes(data[brace:]) or b"asm" in data


def unit_writes(body: bytes) -> bool:
    """An assignment or update stands in the text (declarations with `=` count too: this is only a first look)."""
    return _WRITE.search(body) is not None


def straight(statements: tuple[ast.Stmt, ...]) -> bool:
    """Declarations and expressions only, with at most one `return`, at the end."""
    last = len(statements) - 1
    for i, item in enumerate(statements):
        if isinstance(item, ast.Block) and len(statements) == 1:
            return straight(item.body)
        if isinstance(item, ast.Return) and i == last:
            continue
        if isinstance(item, ast.Decl):
            if any(declared.dims or "static" in declared.type.qualifiers for declared in item.items):
                return False
            continue
        if not isinstance(item, ast.ExprStmt):
            return False
    return True


def assemblies(statements: tuple[ast.Stmt, ...]) -> Iterator[ast.Asm]:
    """Every inline assembly below some statements."""
    stack: list[object] = list(reversed(statements))
    steps = 0
    while stack and steps < 200_000:
        steps += 1
        top = stack.pop()
        if isinstance(top, ast.Asm):
            yield top
        elif isinstance(top, ast.Lazy):
            stack.append(top.expr)
        elif isinstance(top, tuple):
            stack.extend(reversed(top))
        elif isinstance(top, (ast.Stmt, ast.Expr, ast.Declarator, ast.Case, ast.AsmOperand)):
            if isinstance(top, (ast.Num, ast.Name, ast.Str)):
                continue
            inner = [getattr(top, name) for name in top.__struct_fields__]
            stack.extend(part for part in reversed(inner) if isinstance(part, (tuple, ast.Lazy, ast.Stmt, ast.Expr)))
