"""What is wrong with a row of a name table, in words: for packs that others write, and for our own tables' test."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from warplint.dialects.name_rows import NameRow, read, source_of
from warplint.ops import SPECS, OpSpec
from warplint.source import Span

_FLAGS = (
    "aligned assembly block_scale blocking cache columns cta_group dim direction elects every kind mode multicast "
    "noinc num read reduce registers_from remote scope sem shape space sparse store tensor trap ws"
)
MODIFIERS = frozenset(_FLAGS.split())
"""Modifiers that something above this room asks for."""
_OPEN = "tcgen05.cp tcgen05.ld tcgen05.st redux.sync atom amd.dpp shfl.sync stmatrix ldmatrix"
OPEN = frozenset(_OPEN.split())
"""Operations whose helper may hide an operand behind its own address arithmetic."""
PLACEHOLDERS = {"sem": "relaxed", "scope": "gpu", "dtype": "int32"}
"""What stands for a placeholder while a row is checked; `1` for the others."""

_SPELLING = re.compile(r"~?[A-Za-z_{][\w:{}<>,~]*(?:/\d+)?")
_REGISTER = re.compile(
    r"(?:n?tid|n?ctaid|n?clusterid|cluster_n?ctaid)\.[xyz]|laneid|warpid|smid|clock|linear_tid|cluster_n?ctarank|\$\w+"
)
_WHERE = re.compile(
    r"\$\w+|#(?:0[xX][0-9a-fA-F]+|-?\d+)|\^\w+|[&*@]?(?:-?\d+(?:\+#?\d+)?|t\d+)(?:\|(?:0[xX][0-9a-fA-F]+|\d+))?(?:\?t\d+)?"
)
_SOURCES = (
    "write an argument's number (0, -1), t0 for a template argument, #64 for a constant, $n for {n} in the spelling"
)
_HERE = Span(0, 0)


def problem(key: str, line: str) -> str:
    """The first thing that is wrong with a row, as the end of a message; empty when it is right."""
    for spelling in key.split():
        if not _SPELLING.fullmatch(spelling):
            return f"`{spelling}` is no spelling; write a name such as ns::wait, Type::wait or wait/2 (two arguments)"
    if not key.split():
        return "the spelling is empty"
    named = set(re.findall(r"\{(\w+)\}", key))
    for spelling in key.split():
        missing = named - set(re.findall(r"\{(\w+)\}", spelling))
        if missing and any(f"${name}" in line for name in missing):
            return f"`{spelling}` has no {{{sorted(missing)[0]}}}, which the row uses"
    unknown = set(re.findall(r"\$(\w+)", line)) - named if not line.startswith("(") else set()
    if unknown:
        return f"`${sorted(unknown)[0]}` stands for nothing: the spelling has no {{{sorted(unknown)[0]}}}"
    if not line:
        return "the row is empty; `~` is a call that synchronises nothing"
    captured = {name: PLACEHOLDERS.get(name.rstrip("0123456789"), "1") for name in named}
    if line.startswith("("):
        return _of_code(line, captured)
    for part in line.split("||"):
        tags, text = "", part.strip()
        if text.startswith("["):
            tags, closed, text = text[1:].partition("]")
            if not closed or not tags.split():
                return f"`{part.strip()}`: a condition on tags reads [0=space_cluster 2=cta_group_2]"
        for tag in tags.split():
            if not re.fullmatch(r"\d+=[A-Za-z_]\w*", tag):
                return f"`{tag}`: write an argument's number and the tag, 0=space_cluster"
        wrong = _of_line(text.strip(), captured)
        if wrong:
            return wrong
    try:
        made: NameRow | None = read(line, captured)
    except (ValueError, KeyError, IndexError) as error:
        return f"cannot be read: {error}"
    while made is not None:
        wrong = _of_result(made, bool(named))
        if wrong:
            return wrong
        made = made.otherwise
    return ""


def _of_code(line: str, captured: dict[str, str]) -> str:
    from warplint.syntax import ast, parse_expression, parse_statements

    try:
        code = read(line, captured).code
    except ValueError as error:
        return str(error)
    if code is None:
        return "is no C++"
    for name in code.params:
        if not re.fullmatch(r"[A-Za-z_]\w*(?:\.\.\.)?", name):
            return f"`{name}` is no parameter; write names only, as in a macro: (bar, parity)"
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", code.body)
    unpaired = any(bare.count(left) != bare.count(right) for left, right in ("()", "[]", "{}"))
    if unpaired or any(isinstance(stmt, ast.Gap) for stmt in parse_statements(code.body + ";", _HERE)):
        return "the C++ in front of `=>` cannot be parsed"
    if code.value and isinstance(parse_expression(code.value, _HERE), ast.Unparsed):
        return f"`{code.value}` is no C++ expression"
    return ""


def _of_line(line: str, captured: dict[str, str]) -> str:
    """Operations with their operands, word by word."""
    body = line.partition("->")[0]
    for segment in body.split(";"):
        words = segment.split()
        if not words or words[0] == "~":
            continue
        name = words[0]
        for key, value in captured.items():
            name = name.replace("$" + key, value)
        spec = SPECS.get(name)
        if spec is None and "$" not in words[0]:
            return f"there is no operation `{words[0]}`{_suggested(words[0], SPECS)}"
        given: set[str] = set()
        for word in words[1:]:
            wrong = _of_word(word, spec, given)
            if wrong:
                return wrong
        for role in spec.operands if spec is not None else ():
            if role in given or spec is None or role in spec.optional or role in ("coords", "bytes", "id"):
                continue
            if name not in OPEN:
                return f"{name} needs `{role}:` (its operands: {_operands(spec)})"
    return ""


def _of_word(word: str, spec: OpSpec | None, given: set[str]) -> str:
    """One word behind the operation; a role that it names is added to `given`."""
    if word[0] == "+":
        return _modifier(word[1:])
    if word[0] == "?":
        return "" if _WHERE.fullmatch(word[1:]) else f"`{word}` is no predicate; {_SOURCES}"
    if word[0] == "&" and "=" in word:
        position, _, output = word[1:].partition("=")
        if not re.fullmatch(r"-?\d+", position):
            return f"`{word}`: &N=output names an argument by its number"
        if output != "?" and spec is not None and output not in spec.outputs:
            return _no_output(output, spec)
        return ""
    if "=" in word:
        return _modifier(word.partition("=")[0])
    role, colon, source = word.partition(":")
    if not colon:
        return f"`{word}` is no operand; write role:argument, modifier=value or +flag"
    plain = role.partition(".")[0]
    if spec is not None and plain not in spec.operands:
        near = _suggested(plain, spec.operands) if spec.operands else ""
        return f"{spec.name} has no operand `{role}`{near or f' (its operands: {_operands(spec)})'}"
    if not _WHERE.fullmatch(source):
        return f"`{word}`: {_SOURCES}"
    given.add(plain)
    return ""


def _of_result(row: NameRow, patterned: bool) -> str:
    result = row.result
    if not result or result[0] in "#?" or result.startswith("arg:"):
        if result[:1] == "#" and not re.fullmatch(r"#(?:0[xX][0-9a-fA-F]+|-?\d+)", result):
            return f"`-> {result}`: write a number behind #"
        if result.startswith("arg:"):
            try:
                source_of(result[4:], {})
            except (ValueError, IndexError):
                return f"`-> {result}`: write arg:0 or arg:&0"
        return ""
    if result[0] == "%":
        if not (_REGISTER.fullmatch(re.split("[/%]", result[1:])[0]) or patterned):
            return f"`{result}` is no register that is known; %laneid, %tid.x, %linear_tid, %cluster_ctarank ..."
        return ""
    back = 2 if result[0] == "^" else 1
    if len(row.ops) < back:
        return f"`-> {result}` is the output of an operation, and the row has none; `-> ?` is a value of the arguments"
    spec = SPECS[row.ops[-back].name]
    output = result.removeprefix("^")
    return "" if output in spec.outputs else _no_output(output, spec)


def _no_output(output: str, spec: OpSpec) -> str:
    known = ", ".join(spec.outputs) or "none"
    return f"{spec.name} has no output `{output}` (its outputs: {known})"


def _modifier(name: str) -> str:
    return "" if name in MODIFIERS else f"there is no modifier `{name}`{_suggested(name, MODIFIERS)}"


def _operands(spec: OpSpec) -> str:
    def shown() -> Iterator[str]:
        for role in spec.operands:
            yield f"{role}?" if role in spec.optional else role

    return ", ".join(shown()) or "none"


def _suggested(word: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, sorted(known), n=2)
    return f"; did you mean {' or '.join(f'`{one}`' for one in near)}?" if near else ""
