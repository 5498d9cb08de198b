"""What a name may stand for besides itself: `using namespace`, `using a::b`, namespace aliases, enclosing namespaces.

The tables hold full names (`cute::elect_one_sync`). A file that says `using namespace cute;` or stands inside
`namespace cutlass { ... }` writes less. Which of several declarations is in force at a line is not looked at: a full
name that no table knows is no name of ours, so trying one too many finds nothing.
"""

from __future__ import annotations

from warplint.patterns import late

_USING = late(rb"\busing\s+namespace\s+(?:::)?([A-Za-z_][\w:]*)\s*;")
_DECLARED = late(rb"\busing\s+(?:::)?([A-Za-z_]\w*(?:::[A-Za-z_]\w*)+)\s*;")
_ALIAS = late(rb"\bnamespace\s+([A-Za-z_]\w*)\s*=\s*(?:::)?([A-Za-z_][\w:]*)\s*;")
_OPENED = late(rb"\bnamespace\s+([A-Za-z_][\w:]*)\s*\{")
MAX_SPACES = 12
"""Namespaces that are tried for a name."""


class Spaces:
    """The namespaces of one file: names as written to the full names they may stand for."""

    def __init__(self, data: bytes) -> None:
        self.used: tuple[str, ...] = ()
        self.declared: dict[str, str] = {}
        self.aliases: dict[str, str] = {}
        if b"namespace" in data:
            opened = dict.fromkeys(match[1].decode() for match in _OPENED.finditer(data))
            used = dict.fromkeys(match[1].decode() for match in _USING.finditer(data))
            self.aliases = {match[1].decode(): match[2].decode() for match in _ALIAS.finditer(data)}
            outer = [name.rsplit("::", cut)[0] for name in opened for cut in range(1, name.count("::") + 1)]
            nested = [f"{one}::{two}" for one in ("cutlass", "kittens", "deep_gemm") if one in opened for two in opened]
            spaces = dict.fromkeys([*used, *nested, *opened, *outer])
            self.used = tuple(self._full(name) for name in spaces if name not in ("std", "detail"))[:MAX_SPACES]
        if b"using" in data:
            for match in _DECLARED.finditer(data):
                full = match[1].decode()
                self.declared[full.rsplit("::", 1)[-1]] = self._full(full)

    def _full(self, name: str) -> str:
        first, colons, rest = name.partition("::")
        return f"{self.aliases[first]}{colons}{rest}" if first in self.aliases else name

    def meanings(self, name: str) -> list[str]:
        """The full names that a name may stand for, the name itself left out, likeliest first."""
        found: list[str] = []
        first = name.partition("::")[0]
        if first in self.declared:
            found.append(self.declared[first] + name[len(first) :])
        full = self._full(name)
        if full != name:
            found.append(full)
        found.extend(f"{space}::{full}" for space in self.used)
        return found
