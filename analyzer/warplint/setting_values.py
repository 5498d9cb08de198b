"""Values of settings, as a file or an option gives them: each function reads one kind, and raises ValueError with
what is expected.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from warplint.finding import Level

PATHS = ("tma", "tcgen05", "wgmma", "mfma")
"""Fast paths that `expect` may name."""
_ARCH = re.compile(r"(sm_\d{2,3}[af]?|gfx[0-9a-f]{3,4})\Z")
_SUFFIX = {"": 1, "b": 1, "k": 1024, "kb": 1024, "kib": 1024, "m": 1 << 20, "mb": 1 << 20, "mib": 1 << 20}


def arch(value: Any) -> str:
    """`sm_90a`, `gfx942`. Raises ValueError."""
    text = value.strip().lower() if isinstance(value, str) else ""
    if text and not _ARCH.match(text):
        raise ValueError(f"{value!r} is no architecture; write it like sm_90a, sm_100a or gfx942")
    return text


def dims(value: Any) -> tuple[int, int, int]:
    """A block or cluster shape: 256, "256", "128x2", "128,2,1", [128, 2]. Raises ValueError."""
    items: Any = value
    if isinstance(value, str):
        items = re.split(r"\s*[x,×]\s*", value.strip())
    elif isinstance(value, int) and not isinstance(value, bool):
        items = [value]
    try:
        numbers = [int(item) for item in items]
    except (TypeError, ValueError):
        numbers = []
    if not 1 <= len(numbers) <= 3 or any(n < 1 or n > 65535 for n in numbers):
        raise ValueError(f"{value!r} is no shape; write 256, 128x2 or 128,2,1")
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


def block(value: Any) -> tuple[int, int, int]:
    """A block shape of at most 1024 threads. Raises ValueError."""
    shape = dims(value)
    if shape[0] * shape[1] * shape[2] > 1024:
        raise ValueError(f"{value!r} has {shape[0] * shape[1] * shape[2]} threads; a block has at most 1024")
    return shape


def cluster(value: Any) -> tuple[int, int, int]:
    """A cluster shape of at most 16 CTAs. Raises ValueError."""
    shape = dims(value)
    if shape[0] * shape[1] * shape[2] > 16:
        raise ValueError(f"{value!r} has {shape[0] * shape[1] * shape[2]} CTAs; a cluster has at most 16")
    return shape


def size(value: Any) -> int:
    """A number of bytes: 232448, "227K", "16M". Raises ValueError."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    match = re.fullmatch(r"\s*(\d{1,15})\s*([a-zA-Z]*)\s*", value) if isinstance(value, str) else None
    if match is None or match[2].lower() not in _SUFFIX:
        raise ValueError(f"{value!r} is no size; write bytes, or a number with K or M")
    return int(match[1]) * _SUFFIX[match[2].lower()]


def defines(value: Any) -> tuple[tuple[str, str], ...]:
    """Macros: a table {NAME = value} or a list of "NAME=value" (a bare NAME is 1). Raises ValueError."""
    if isinstance(value, Mapping):
        pairs = [(str(name), str(int(item) if isinstance(item, bool) else item)) for name, item in value.items()]
    elif isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        pairs = []
        for item in value:
            name, equals, text = item.partition("=")
            pairs.append((name.strip(), text.strip() if equals else "1"))
    else:
        raise ValueError('write a table, or a list such as ["STAGES=4"]')
    for name, _ in pairs:
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise ValueError(f"{name!r} is no macro name; write NAME=VALUE")
    return tuple(dict(pairs).items())


def names(value: Any) -> tuple[str, ...]:
    """A list of strings, or one with commas. Raises ValueError."""
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, (list, tuple)) or not all(isinstance(item, str) for item in items):
        raise ValueError("write a list of names")
    return tuple(dict.fromkeys(item.strip() for item in items if item.strip()))


def expect(value: Any) -> tuple[str, ...]:
    """Names of fast paths. Raises ValueError."""
    chosen = tuple(name.lower() for name in names(value))
    for name in chosen:
        if name not in PATHS:
            raise ValueError(f"{name!r} is no known path; one of {', '.join(PATHS)}")
    return chosen


def level(value: Any) -> Level:
    """note, warning or error. Raises ValueError."""
    try:
        return Level(str(value).lower())
    except ValueError:
        raise ValueError(f"{value!r} is no level; one of note, warning, error") from None


def levels(value: Any) -> tuple[tuple[str, Level], ...]:
    """A table {rule or family = level}. Raises ValueError."""
    if not isinstance(value, Mapping):
        raise ValueError('write a table, such as levels = {smem-race = "warning"}')
    return tuple((str(name), level(item)) for name, item in value.items())


def text(value: Any) -> str:
    """Any text but an empty one. Raises ValueError."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("write a text")
    return value.strip()


def path_map(value: Any) -> tuple[tuple[str, str], ...]:
    """A table {old = new} or a list of "OLD=NEW". Raises ValueError."""
    if isinstance(value, Mapping):
        pairs = [(str(old), item) for old, item in value.items()]
    elif isinstance(value, (list, tuple)) and all(isinstance(item, str) and "=" in item for item in value):
        pairs = [(item.partition("=")[0], item.partition("=")[2]) for item in value]
    else:
        raise ValueError('write a table, or a list such as ["build/=artifacts/"]')
    if not all(old and isinstance(new, str) for old, new in pairs):
        raise ValueError("write OLD=NEW, two prefixes or patterns")
    return tuple(pairs)


def flag(value: Any) -> bool:
    """True or false. Raises ValueError."""
    if not isinstance(value, bool):
        raise ValueError("write true or false")
    return value


def registers(value: Any) -> int:
    """Registers per thread, 1..255. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 255:
        raise ValueError(f"{value!r} is no register count; 1 to 255")
    return value
