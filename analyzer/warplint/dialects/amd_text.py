"""Reads AMDGCN assembly text: one instruction a line, `;` and `//` start a comment."""

from __future__ import annotations

import re

from warplint.dialects.asm_text import MAX_TOKENS, Arg, Imm, Ref, Reg, Statement, Text, Word
from warplint.patterns import late

_LINE = late(r"\s*(?:(?P<label>[\w$.]+):(?!:))?\s*(?P<mnemonic>[\w.$]+)?(?P<rest>.*)", re.S)
_ARG = late(
    r"""%\[(?P<named>\w+)\] | %(?P<number>\d+) | (?P<counter>\w+)\((?P<value>[^()]*)\)
      | (?P<option>\w+:\[[^\[\]]*\]|\w+:[^\s,]+) | (?P<range>\w*\[[^\[\]]*\])
      | (?P<imm>-?(?:0[xX][0-9a-fA-F]+|\d+))(?![\w.])
      | (?P<word>[\w.$]+)""",
    re.X,
)


def parse(template: str) -> Text:
    """The statements of an AMDGCN text. Counters (`vmcnt(2)`) become a `Word` with the name and then their value."""
    statements: list[Statement] = []
    tokens = 0
    for line in template.split("\n"):
        line = line.split(";", 1)[0].split("//", 1)[0]
        match = _LINE.match(line)
        if match is None or not line.strip():
            continue
        if match.group("label"):
            statements.append(Statement("", label=match.group("label")))
        mnemonic = match.group("mnemonic")
        if not mnemonic or mnemonic[0] == ".":
            continue
        args: list[Arg] = []
        for token in _ARG.finditer(match.group("rest")):
            tokens += 1
            if tokens > MAX_TOKENS:
                return Text(tuple(statements), amd=True, trouble="the assembly text is too long")
            args.extend(_arguments(token))
        statements.append(Statement(mnemonic, tuple(args)))
    return Text(tuple(statements), amd=True)


def _arguments(token: re.Match[str]) -> list[Arg]:
    kind = token.lastgroup
    if kind == "value":
        return [Word(token.group("counter") + "()"), *(_atom(token.group("value").strip()),)]
    if kind == "number":
        return [Ref(int(token.group(kind)))] if len(token.group(kind)) < 9 else [Word(token.group(kind))]
    if kind == "named":
        return [Ref(token.group(kind))]
    if kind == "imm":
        return [Imm(int(token.group(kind), 0 if "x" in token.group(kind).lower() else 10))]
    if kind == "option":
        return [Word(token.group(kind))]
    return [Reg(token.group(0))]


def _atom(text: str) -> Arg:
    match = _ARG.fullmatch(text)
    if match is None or match.lastgroup == "value":
        return Word(text)
    return _arguments(match)[0]
