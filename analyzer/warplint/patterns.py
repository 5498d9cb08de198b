"""Regular expressions that are compiled when they are first used. Imports nothing of ours.

Most constructs that the analyzer knows are absent from any one file. Compiling a pattern costs far more than using it
once, and a module full of them is paid for by every start of the program.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast

_METHODS = ("match", "fullmatch", "search", "finditer", "findall", "sub", "split")


class _Late:
    """Stands for a compiled pattern; after the first use its methods are the pattern's own."""

    __slots__ = ("_flags", "_text", *_METHODS)

    def __init__(self, text: str | bytes, flags: int) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        # reached only while the slot of that name is empty, and for `pattern`, `flags` and the like
        compiled = re.compile(self._text, self._flags)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def late(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """`re.compile(pattern, flags)`, put off until the pattern is used; a wrong pattern raises re.error only then."""
    return cast("re.Pattern[AnyStr]", _Late(pattern, flags))
