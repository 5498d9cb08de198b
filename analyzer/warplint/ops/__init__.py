"""The closed vocabulary of operations: what each does, who must execute it, how it completes.

The facts are data (`ops.toml`); everything above this room speaks of operations by these names, never of spellings.
`SPECS` loads the table when something is first looked up in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct

PARTICIPATION: Mapping[str, str] = {
    "any_thread": "any thread; every execution counts on its own",
    "one_thread": "exactly one thread",
    "warp_mask": "every lane named in its mask",
    "warp_all": "all lanes of a warp, together",
    "warpgroup_all": "all four warps of a warpgroup",
    "cta_all": "all threads of the CTA",
    "cta_n_threads": "whole warps that add up to its thread count",
    "cluster_all": "all threads of the cluster",
    "grid_all": "all threads of the grid",
    "wave": "each wave by itself",
    "wave_all": "all lanes of a wave, together",
    "wave_mask": "exactly the lanes that its masks name",
    "wave_one": "exactly one wave",
    "wave_subset": "the waves that joined the barrier",
    "workgroup_waves": "every wave of the workgroup",
    "launch": "a rule of the launch, no instruction",
}
"""Participation classes with the words for messages ("... must be executed by <words>")."""

_SPACES = ("smem", "tmem", "global", "remote", "map", "barrier")
EFFECTS = frozenset(
    (
        *(f"{verb}:{space}" for verb in ("reads", "writes") for space in _SPACES),
        *("reads", "writes", "arrives", "expects", "completes", "drops", "waits", "barrier", "fence", "atomic"),
        *("allocates", "frees", "exits"),
    )
)
"""What an operation may do; see `OpSpec.effects`."""
PROXIES = frozenset(("generic", "async", "tensormap", "tcgen05"))
_COUNTERS = ("vmcnt", "lgkmcnt", "asynccnt", "tensorcnt")
_GROUPS = ("bulk_group", "cp_async_group", "wgmma_group", "tcgen05_commit", "tcgen05_wait_ld", "tcgen05_wait_st")
COMPLETIONS = frozenset(("sync", "phase", "barrier", "mbarrier_tx", *_GROUPS, *_COUNTERS))


class OpSpec(Struct, frozen=True):
    """Everything that holds for an operation wherever it stands."""

    name: str
    participation: str
    """Key of `PARTICIPATION`."""
    operands: tuple[str, ...]
    """Roles in the usual order; `coords` stands for `coords.0`, `coords.1`, ..."""
    optional: frozenset[str]
    """Roles that may be absent."""
    outputs: tuple[str, ...]
    effects: frozenset[str]
    """Of `EFFECTS`: memory read and written by space (plain `reads`/`writes` where the modifiers tell the space),
    `arrives`/`expects`/`completes` on an mbarrier, `waits`, `barrier` (a rendezvous), `fence`."""
    proxy: str
    """Of `PROXIES`: by which proxy its memory effects happen."""
    completion: str
    """Of `COMPLETIONS`: what tells that it is done; empty when it has nothing to complete."""
    arch: tuple[str, ...]
    """`all`, a minimum (`sm_90`), or the exact targets that have it (`sm_100a`, `gfx12`)."""
    source: str
    otherwise: str
    """What happens when the wrong threads execute it, as the end of a sentence."""
    is_fact: bool = False
    """A rule of launches or libraries without an instruction of its own."""

    @property
    def who(self) -> str:
        """The participation class in words."""
        return PARTICIPATION[self.participation]

    def supported(self, arch: str) -> bool | None:
        """Whether `arch` (`sm_90a`, `gfx942`) has the operation; None when the table does not decide it."""
        if not arch or not self.arch:
            return None
        if self.arch[0].startswith("gfx"):
            return arch.startswith(self.arch) if arch.startswith("gfx") else False
        if not arch.startswith("sm_"):
            return False
        if self.arch == ("all",):
            return True
        if arch in self.arch:
            return True
        if len(self.arch) == 1 and self.arch[0][3:].isdigit():
            digits = arch[3:].rstrip("af")
            return int(digits) >= int(self.arch[0][3:]) if digits.isdigit() else None
        return False


class _Specs(Mapping[str, OpSpec]):
    """The vocabulary, read on first use."""

    @cached_property
    def _table(self) -> dict[str, OpSpec]:
        with open(os.path.join(os.path.dirname(__file__), "ops.toml"), encoding="utf-8") as file:
            return {name: _spec(name, row) for name, row in read_rows(file.read()).items()}

    def __getitem__(self, name: str) -> OpSpec:
        return self._table[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


def read_rows(text: str) -> dict[str, dict[str, Any]]:
    """The tables of a TOML text by name.

    Each start of the program reads the vocabulary, and the library takes ten times as long as splitting lines does: the
    plain form of our own table (`["name"]` or `[name]`, `key = "value"` without escapes, `key = true`) is read here,
    and a text with any other line by the library.
    """
    rows: dict[str, dict[str, Any]] = {}
    row: dict[str, Any] | None = None
    for line in text.splitlines():
        if not line or line[0] == "#":
            continue
        if line[0] == "[":
            quoted = line[:2] == '["' and line[-2:] == '"]' and line.count('"') == 2 and "\\" not in line
            name = line[2:-2] if quoted else line[1:-1]
            if name in rows or not (quoted or (line[-1] == "]" and name.isidentifier())):
                break
            row = rows[name] = {}
            continue
        key, _, value = line.partition(" = ")
        plain = value == "true" or (value[:1] == value[-1:] == '"' and value.count('"') == 2 and "\\" not in value)
        if row is None or not plain or not key.isidentifier() or key in row:
            break
        row[key] = value[1:-1] if value != "true" else True
    else:
        return rows
    import tomllib

    return tomllib.loads(text)


def _spec(name: str, row: Mapping[str, str]) -> OpSpec:
    get = row.get
    roles = get("args", "").split()
    return OpSpec(
        name,
        row["who"],
        tuple(role.rstrip("?") for role in roles),
        frozenset(role[:-1] for role in roles if role[-1] == "?"),
        tuple(get("out", "").split()),
        frozenset(get("mem", "").split()),
        get("proxy", "generic"),
        get("done", ""),
        tuple(row["arch"].split()),
        row["src"],
        row["else"],
        bool(get("fact", False)),
    )


SPECS: Mapping[str, OpSpec] = _Specs()
"""Every operation by name."""


def spec(name: str) -> OpSpec:
    """The operation of that name; KeyError when the vocabulary has none."""
    return SPECS[name]
