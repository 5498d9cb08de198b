"""One line of a name table: what a call of that spelling does.

A line is

    op role:where ... modifier=value +flag ?where &position=output -> result

with several operations separated by `;`. `where` says where an operand comes from:

    0  -1     an argument, from the end when negative      t0  t0|4  a template argument, with a default
    &0  *0    the address of an argument, what it is at    #64       a constant
    @0        a tensor-memory address in three arguments   $n        what `{n}` in the key matched
    ^state    that output of the operation before          0+1       the sum of two arguments
    1+#8      an argument and a constant

Modifiers may also be `t0`, `t0+1` or `a0` (an argument as written; of a tag of libcu++ such as
`cuda::ptx::sem_release`, `cta_group_2` what it stands for: `release`, 2). `+elects` says that the helper chooses one
lane of each warp itself, `elects=128` one thread of every 128. `?where` is the predicate, `&0=value` an output
written through reference argument 0 (`&0=?`: nobody follows what). The result is the name of an output of the last
operation (`^value`: of the one before it), `%laneid` a special register (`%tid.x/32` a part of it), `arg:0` an
argument, `arg:&0` its address, `#1` a constant, `?` a value that the arguments alone decide. A line without an
operation (`~`) is a call that synchronises nothing. `A || B` is A when the first argument is an address (`&x[0]`),
else B. `[0=space_cluster 2=cta_group_2] A || B` is A when these arguments are written so, as tags that choose an
overload are. An argument `n32_t<4>{}` counts as 4. `where?t0` is an operand only where template argument 0 is true.

A line that begins with `(` is C++ instead, expanded like a macro at the call: parameter names, statements, and after
`=>` the value (`(bar) asm volatile("bar.sync 1, 64;"); => 0`). Template arguments are `t0`, `t1`, types of arguments
`T0`, `T1`.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from warplint.patterns import late


class Where(Struct, frozen=True):
    """Where a value comes from at the call: an argument, a template argument (with default), or a constant."""

    kind: str
    """`arg`, `targ`, `const`, or `out`: the output `through` of the operation before."""
    value: int
    default: int | None = None
    offset: int = 0
    """Added to the value: bytes of an address, or to a constant modifier."""
    plus: int | None = None
    """A second argument that is added (pointer arithmetic of C++ when the first is a pointer)."""
    plain: bool = False
    """`offset` is added to a number, not to an address."""
    through: str = ""
    """`&`, `*` or `@`: the address of the argument, what it points to, or a tensor-memory address in three parts."""
    given: int | None = None
    """A template argument that has to be true, else there is no such operand."""


class NameOp(Struct, frozen=True):
    """One operation of a named helper."""

    name: str
    operands: tuple[tuple[str, Where], ...] = ()
    mods: Mapping[str, str | int | bool | Where] = field(default_factory=dict)
    predicate: Where | None = None
    outputs: tuple[tuple[int, str], ...] = ()
    """(argument position, output name): results written through reference arguments."""


class Code(Struct, frozen=True):
    """What a helper does as C++, expanded at its call like a macro."""

    params: tuple[str, ...]
    body: str
    """Statements."""
    value: str = ""
    """The result, an expression that is evaluated after the statements; empty for none."""


class NameRow(Struct, frozen=True):
    """What a call of this name does. `result` is an output of the last operation, `%register`, `arg:N` or `#N`."""

    ops: tuple[NameOp, ...]
    result: str = ""
    writes: tuple[int, ...] = ()
    """Reference arguments that receive values nobody follows."""
    otherwise: NameRow | None = None
    """The row to use when `when` does not hold; without a condition, when the first argument is not an address."""
    when: tuple[tuple[int, str], ...] = ()
    """Arguments that have to be written as these tags."""
    code: Code | None = None
    """Set for a helper that is described as C++; it has no `ops` then."""

    @property
    def plain(self) -> bool:
        """The call does nothing but give a value."""
        return not self.ops and not self.writes and self.code is None


def read(line: str, captured: Mapping[str, str]) -> NameRow:
    """A row from its line. Raises ValueError when the line is malformed (a test reads every line)."""
    if line.startswith("("):
        return NameRow((), code=_code(line, captured))
    first, bars, second = line.partition("||")
    if bars:
        return replace(read(first.strip(), captured), otherwise=read(second.strip(), captured))
    if line.startswith("["):
        tags, _, rest = line[1:].partition("]")
        pairs = (tag.partition("=") for tag in tags.split())
        return replace(read(rest.strip(), captured), when=tuple((int(place), word) for place, _, word in pairs))
    body, arrow, result = line.partition("->")
    segments = [segment.split() for segment in body.split(";")]
    writes = tuple(int(word[1:-2]) for words in segments for word in words if word[0] == "&" and word.endswith("=?"))
    ops = tuple(_op(words, captured) for words in segments if words and words[0] != "~")
    return NameRow(ops, _substituted(result.strip(), captured) if arrow else "", writes)


def _code(line: str, captured: Mapping[str, str]) -> Code:
    params, closed, rest = line[1:].partition(")")
    if not closed:
        raise ValueError(f"`{line}` does not close its parameters")
    body, arrow, value = rest.rpartition("=>")
    body, value = (body, value) if arrow else (rest, "")
    names = tuple(name.strip() for name in params.split(",") if name.strip())
    return Code(names, _substituted(body.strip(), captured), _substituted(value.strip(), captured))


def _op(words: list[str], captured: Mapping[str, str]) -> NameOp:
    operands: list[tuple[str, Where]] = []
    mods: dict[str, str | int | bool | Where] = {}
    outputs: list[tuple[int, str]] = []
    predicate = None
    for word in words[1:]:
        if word[0] == "+":
            mods[word[1:]] = True
        elif word[0] == "?":
            predicate = source_of(word[1:], captured)
        elif word[0] == "&":
            position, _, output = word[1:].partition("=")
            if output != "?":
                outputs.append((int(position), output))
        elif "=" in word:
            key, _, value = word.partition("=")
            mods[key] = _mod(value, captured)
        else:
            role, colon, source = word.partition(":")
            if not colon:
                raise ValueError(f"`{word}` is no operand")
            operands.append((role, source_of(source, captured)))
    return NameOp(_substituted(words[0], captured), tuple(operands), mods, predicate, tuple(outputs))


def _substituted(text: str, captured: Mapping[str, str]) -> str:
    for key, value in sorted(captured.items(), key=lambda item: -len(item[0])):
        text = text.replace("$" + key, value)
    return text


_MOD = late(r"([ta])(\d+)(?:\+(\d+))?(?:\|(\w+))?")


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


def source_of(text: str, captured: Mapping[str, str]) -> Where:
    """Where a value comes from, by its spelling in a line."""
    if text[0] == "$":
        return Where("const", int(captured[text[1:]]))
    if text[0] == "#":
        return Where("const", int(text[1:], 0))
    if text[0] == "^":
        return Where("out", 0, through=text[1:])
    through = text[0] if text[0] in "&*@" else ""
    text, asked, given = text.partition("?t")
    if asked:
        return replace(source_of(text, captured), given=int(given))
    body, bar, default = text[len(through) :].partition("|")
    fallback = int(default, 0) if bar else None
    if body[0] == "t":
        return Where("targ", int(body[1:]), fallback, through=through)
    first, _, second = body.partition("+")
    if second[:1] == "#":
        return Where("arg", int(first), fallback, int(second[1:], 0), plain=True, through=through)
    return Where("arg", int(first), fallback, plus=int(second) if second else None, through=through)
