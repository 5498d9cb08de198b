"""Results that are kept while one file is analysed and let go with it. Imports nothing of ours."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])
_clear: list[Callable[[], None]] = []


def remembered(maxsize: int) -> Callable[[_Function], _Function]:
    """`functools.lru_cache` for functions of a kernel, its roles or its execution.

    What such a cache holds keeps the syntax and the facts of whole files alive; `forget` empties all of them.
    """

    def decorate(function: _Function) -> _Function:
        cached: Any = lru_cache(maxsize=maxsize)(function)
        _clear.append(cached.cache_clear)
        return cached

    return decorate


def forget() -> None:
    """Empty the caches: the file is done."""
    for clear in _clear:
        clear()
