"""The form of an instruction: which operation it is, its modifiers, and which argument plays which role.

The layout of a form is one word per argument in PTX order:

    barrier      an input under that role            =value       a result under that name ("value" is the main one)
    count?       may be absent                       *            an argument without a role; `*?` may be absent
    {x}          only if the argument is a vector    [x]          only if the argument is an address `[...]`
    {a}/desc_a   the first that fits                 =value|pred  a pair of results
    map+         `[map, {coordinates}]`: roles `map`, `coords.0`, `coords.1`, ...

A slot that does not fit its argument is passed over when it is optional.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

Mods = dict[str, str | int | bool]


class Form(Struct, frozen=True):
    """What a mnemonic means. `op` is empty for instructions that neither synchronise nor touch memory."""

    op: str
    layout: tuple[str, ...] = ()
    mods: Mapping[str, str | int | bool] = field(default_factory=dict)
    constants: Mapping[str, int] = field(default_factory=dict)
    """Operands that the mnemonic itself states (bytes of an access, `count` 1 when the operand is absent)."""
    arith: str = ""
    """Name of the arithmetic when results can be followed (`mov`, `setp`, `and`); only when `op` is empty."""
    fold: str = ""
    """`cvta`, `mapa`: address identities followed inside the assembly."""


HARMLESS = Form("")
_SCOPES = frozenset({"cta", "cluster", "gpu", "sys"})
_SEMS = frozenset({"acquire", "release", "acq_rel", "relaxed", "sc", "weak", "volatile", "mmio"})
SPACES = frozenset({"global", "shared", "shared::cta", "shared::cluster", "local", "const", "param", "tensor"})
_WIDTHS = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}
_PACKED = {"f16": 2, "bf16": 2, "f16x2": 4, "bf16x2": 4, "b16x2": 4, "u16x2": 4, "s16x2": 4, "f32x2": 8}


def make(op: str, layout: str = "", mods: Mods | None = None, **constants: int) -> Form:
    """A form from its layout as text."""
    return Form(op, tuple(layout.split()), mods or {}, constants)


def word(parts: list[str], index: int) -> str:
    """Part `index` of a mnemonic, empty when there is none."""
    return parts[index] if index < len(parts) else ""


def common(parts: list[str]) -> Mods:
    """Semantics, scope and state space out of the modifiers."""
    mods: Mods = {}
    for part in parts[1:]:
        if part in _SEMS:
            mods["sem"] = part
        elif part in _SCOPES:
            mods["scope"] = part
        elif part in SPACES:
            mods.setdefault("space", part)
    return mods


def space(parts: list[str]) -> Mods:
    """The first state space among the modifiers."""
    for part in parts:
        if part in SPACES:
            return {"space": part}
    return {}


def width(parts: list[str]) -> int | None:
    """Bytes moved by an access: vector length times the size of the first type named."""
    count, size = 1, None
    for part in parts[1:]:
        if part[:1] == "v" and part[1:].isdigit():
            count = int(part[1:])
        elif size is None:
            size = _WIDTHS.get(part[1:]) if part[:1] in "busf" and part[1:] in _WIDTHS else _PACKED.get(part)
    return None if size is None else size * count


def group(part: str) -> str | int:
    """The number behind `cta_group::`, or the operand text that stands there (`%2`)."""
    value = part.partition("::")[2]
    return int(value) if value.isdigit() else value
