"""Reads the text of an inline assembly statement as a small program: statements with guard, mnemonic and arguments.

PTX ends a statement with `;`; AMDGCN ends it with the line and starts a comment with `;`. Which of the two a text is
shows in its first mnemonic. Nothing here knows what an instruction means. A text may be hostile: the work is linear in
its length, and texts beyond `MAX_TOKENS` are refused.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from warplint.patterns import late

MAX_TOKENS = 40_000
MAX_LENGTH = 1_000_000
SMALL = 20_000
"""Texts up to this length are remembered once read: generated files repeat their helpers."""


# ------------------------------------------------------------------------------------------------ arguments
class Ref(Struct, frozen=True):
    """`%3` or `%[name]`: an operand of the asm statement."""

    key: int | str


class Reg(Struct, frozen=True):
    """A register of the assembly itself, or a special register (`%%laneid`, `%tid.x`; the percent signs dropped)."""

    name: str


class Imm(Struct, frozen=True):
    """An immediate; None for floating point."""

    value: int | None


class Sink(Struct, frozen=True):
    """`_`: a result nobody wants."""


class Not(Struct, frozen=True):
    """`!p`."""

    arg: Arg


class Mem(Struct, frozen=True):
    """`[base]`, `[base+8]`, `[map, {c0, c1}]`."""

    base: Arg
    offsets: tuple[tuple[int, Arg], ...] = ()
    """Signed addends: (+1 or -1, argument)."""
    coords: tuple[Arg, ...] = ()


class Vec(Struct, frozen=True):
    """`{a, b}`."""

    items: tuple[Arg, ...]


class Pair(Struct, frozen=True):
    """`a|p`: two results of one instruction."""

    left: Arg
    right: Arg


class Word(Struct, frozen=True):
    """Anything else: a label, a modifier word of an AMDGCN instruction (`vmcnt(0)`, `lds`, `offen`)."""

    text: str


Arg = Ref | Reg | Imm | Sink | Not | Mem | Vec | Pair | Word
SINK = Sink()


class Statement(Struct, frozen=True):
    """One instruction. `guard` is its `@p` with True for `@!p`; a label alone is a statement without mnemonic."""

    mnemonic: str
    args: tuple[Arg, ...] = ()
    guard: tuple[Arg, bool] | None = None
    label: str = ""


class Text(Struct, frozen=True):
    """A parsed assembly text. `trouble` says why it could not be read (then `statements` is what came before)."""

    statements: tuple[Statement, ...]
    amd: bool = False
    trouble: str = ""


# ----------------------------------------------------------------------------------------------------- PTX
_TOKEN = late(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?(?:\*/|\Z))
      | %\[(?P<named>\w+)\]
      | %(?P<number>\d+)
      | (?P<imm>0[fFdD][0-9a-fA-F]+|0[xX][0-9a-fA-F]+U?|\d+\.\d*(?:[eE][+-]?\d+)?|\d+U?)(?![\w.:])
      | (?P<reg>%%?[A-Za-z_$][\w$]*(?:\.[xyzw](?![\w$]))?)
      | (?P<word>\.?[\w$]+(?:(?:\.|::)(?:[\w$]+|%\d+|%\[\w+\]))*)
      | (?P<text>"[^"]*"?)
      | (?P<punct>.)""",
    re.X | re.S,
)
_AMD_HEAD = late(r"(?:s|v|ds|buffer|global|flat|scratch|image|tensor|cluster|tbuffer|exp)_[a-z]\w*\Z|exp\Z")
# Possessive: a text without any word must not be tried in all ways.
_FIRST_WORD = late(r"(?:\s++|[{};]|//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/|[\w$.]++:(?!:))*+([\w$]+)")


def parse(template: str) -> Text:
    """The statements of an assembly template (escapes decoded, `%%` as written)."""
    return _remembered(template) if len(template) <= SMALL else _parse(template)


def _parse(template: str) -> Text:
    if len(template) > MAX_LENGTH:
        return Text((), trouble="the assembly text is too long")
    if "%=" in template:
        template = template.replace("%=", "_uid")
    first = _FIRST_WORD.match(template)
    if first is not None and _AMD_HEAD.match(first.group(1)):
        from warplint.dialects import amd_text

        return amd_text.parse(template)
    return _Parser(template).run()


_remembered = lru_cache(maxsize=1024)(_parse)


def _number(text: str) -> int | None:
    if text[:2] in ("0x", "0X"):
        return int(text[2:].rstrip("Uu"), 16)
    text = text.rstrip("Uu")
    if not text.isdigit() or len(text) > 20:
        return None
    return int(text, 8 if len(text) > 1 and text[0] == "0" and not set(text) & {"8", "9"} else 10)


class _Parser:
    """Recursive only over nesting that PTX has (a vector in an address): fixed depth."""

    def __init__(self, template: str) -> None:
        tokens: list[tuple[str, str]] = []
        for match in _TOKEN.finditer(template):
            kind = match.lastgroup or ""
            if kind != "skip":
                tokens.append((kind, match.group(kind)))
                if len(tokens) > MAX_TOKENS:
                    break
        self.too_long = len(tokens) > MAX_TOKENS
        self.tokens = tokens
        self.at = 0

    def run(self) -> Text:
        if self.too_long:
            return Text((), trouble="the assembly text is too long")
        tokens, size = self.tokens, len(self.tokens)
        statements: list[Statement] = []
        trouble = ""
        while self.at < size:
            kind, text = tokens[self.at]
            if kind == "punct" and text in "{};":
                self.at += 1
                continue
            if kind == "word" and self._peek(1) == ":":
                statements.append(Statement("", label=text))
                self.at += 2
                continue
            if kind == "word" and text[0] == ".":
                self._skip_statement()
                continue
            guard = None
            if kind == "punct" and text == "@":
                self.at += 1
                negated = self._peek(0) == "!"
                self.at += negated
                guard = (self._atom(), negated)
                if self.at >= size:
                    trouble = trouble or "a guard without an instruction"
                    break
                kind, text = tokens[self.at]
            if kind != "word":
                trouble = trouble or f"`{text}` where an instruction should start"
                self._skip_statement()
                continue
            self.at += 1
            args = self._arguments()
            statements.append(Statement(text, args, guard))
        return Text(tuple(statements), trouble=trouble)

    def _peek(self, ahead: int) -> str:
        index = self.at + ahead
        return self.tokens[index][1] if index < len(self.tokens) else ""

    def _skip_statement(self) -> None:
        tokens, size = self.tokens, len(self.tokens)
        while self.at < size and tokens[self.at][1] != ";":
            self.at += 1

    def _arguments(self) -> tuple[Arg, ...]:
        """Arguments up to `;` (or a closing scope brace, as some texts leave the last semicolon out)."""
        args: list[Arg] = []
        tokens, size = self.tokens, len(self.tokens)
        while self.at < size:
            text = tokens[self.at][1]
            if text == ";" or text == "}":
                break
            if text == ",":
                self.at += 1
                continue
            args.append(self._argument())
        return tuple(args)

    def _argument(self) -> Arg:
        text = self._peek(0)
        if text == "[":
            return self._memory()
        if text == "{":
            return self._vector()
        if text == "(":  # call parameter lists: kept as one opaque argument
            while self.at < len(self.tokens) and self._peek(0) not in (")", ";"):
                self.at += 1
            if self._peek(0) == ")":
                self.at += 1
            return Word("(...)")
        arg = self._atom()
        if self._peek(0) == "|":
            self.at += 1
            return Pair(arg, self._atom())
        while self._peek(0) in ("+", "-", "*", "<", ">", "&", "/", "=", "?", ":") and self.at < len(self.tokens):
            self.at += 1  # a constant expression: its value is not followed
            if self._peek(0) not in (",", ";", "}"):
                self._atom()
            arg = Word("(expression)")
        return arg

    def _atom(self) -> Arg:
        if self.at >= len(self.tokens):
            return Word("")
        kind, text = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            return Ref(int(text)) if len(text) < 9 else Word(text)
        if kind == "named":
            return Ref(text)
        if kind == "reg":
            return Reg(text.lstrip("%"))
        if kind == "imm":
            return Imm(_number(text))
        if kind == "word":
            return SINK if text == "_" else Reg(text)
        if text == "!":
            inner = self.tokens[self.at][1] if self.at < len(self.tokens) else ""
            return Word("!") if inner == "!" else Not(self._atom())
        if text == "-" and self.at < len(self.tokens) and self.tokens[self.at][0] == "imm":
            value = _number(self.tokens[self.at][1])
            self.at += 1
            return Imm(None if value is None else -value)
        return Word(text)

    def _memory(self) -> Arg:
        self.at += 1
        base = self._atom()
        offsets: list[tuple[int, Arg]] = []
        coords: tuple[Arg, ...] = ()
        size = len(self.tokens)
        while self.at < size:
            text = self._peek(0)
            self.at += 1
            if text == "]":
                break
            if text == ";":
                self.at -= 1
                break
            if text in "+-" and self._peek(0) not in ("]", ";"):
                offsets.append((1 if text == "+" else -1, self._atom()))
            elif text == "{":
                self.at -= 1
                vector = self._vector()
                coords = vector.items
        return Mem(base, tuple(offsets), coords)

    def _vector(self) -> Vec:
        self.at += 1
        items: list[Arg] = []
        size = len(self.tokens)
        while self.at < size:
            text = self._peek(0)
            if text == "}":
                self.at += 1
                break
            if text == ";":
                break
            if text == ",":
                self.at += 1
                continue
            items.append(self._atom())
        return Vec(tuple(items))
