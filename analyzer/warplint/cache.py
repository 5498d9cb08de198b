"""What was said about a file's bytes, kept on disk: a second run over unchanged files reads it instead of analysing.

A key covers all that a report depends on: the contents of warplint's own files, of rule and dialect packs and of the
parser, the settings, the name and the bytes of the file. Headers that were looked for are part of the entry and checked
again when it is read. Entries are written beside their place and renamed, and carry a checksum: any number of processes
may share a folder, and one that is killed leaves nothing that a later run takes for a report.

An entry holds pickled structs of `warplint.finding` and `warplint.tables`; nothing else is ever loaded from it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import pickle
import sys
import time
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from warplint import __version__
from warplint.finding import FileReport

FORMAT = b"warplint-cache/1\n"
VARIABLE = "WARPLINT_CACHE_DIR"
"""Environment variable that names the folder."""
PACKAGES = ("warplint", "warplint_rules", "tree_sitter", "tree_sitter_cuda")
GROUPS = ("warplint.rules", "warplint.dialects")
MAX_BYTES = 512 << 20
"""Size above which the least recently used entries go."""
DAY = 86_400
KEPT_DAYS = 30
_DIGEST = 32


def default_folder() -> str:
    """The user's cache folder for warplint: `WARPLINT_CACHE_DIR`, or the place that the platform has for such things.

    Those that the library platformdirs would name; importing it would cost more than reading an entry.
    """
    if named := os.environ.get(VARIABLE):
        return named
    home = os.path.expanduser("~")
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
        return os.path.join(local, "warplint", "Cache")
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Caches", "warplint")
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache"), "warplint")


class Cache:
    """Reports by key in a folder. Whatever goes wrong with the folder, the answer is "not known": never an error."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._stamp: bytes | None = None

    def key(self, path: str, data: bytes, settings: msgspec.Struct) -> str:
        """The key of a file's bytes under the name `path` and `settings`, in hexadecimal."""
        if self._stamp is None:
            self._stamp = stamp(self.folder)
        digest = hashlib.sha256(self._stamp)
        for part in (msgspec.msgpack.encode(settings), os.fsencode(path), data):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
        return digest.hexdigest()

    def load(self, key: str, data: bytes) -> FileReport | None:
        """The report that was stored under `key`; None when there is none, it is damaged, or a header changed."""
        path = self._path(key)
        try:
            with open(path, "rb") as file:
                content = file.read()
            report = _decode(content)
            if report is None or any(digest_of(name) != known for name, known in report.read):
                return None
            if time.time() - os.stat(path).st_mtime > DAY:
                os.utime(path)  # still in use: `prune` goes by it
        except (OSError, ValueError, TypeError, AttributeError, EOFError, pickle.UnpicklingError, zlib.error):
            return None
        return replace(report, data=data)

    def store(self, key: str, report: FileReport) -> None:
        """Keep a report. One with a problem is not kept: the fault may be gone the next time."""
        if report.problem:
            return
        path = self._path(key)
        payload = zlib.compress(_encode(replace(report, data=b"")), 1)
        _write(path, FORMAT + hashlib.sha256(payload).digest() + payload)

    def prune(self) -> None:
        """Once a day: drop entries unused for a month, then the least recently used ones above the size limit."""
        marker = os.path.join(self.folder, "pruned")
        now = time.time()
        try:
            if os.path.exists(marker) and now - os.stat(marker).st_mtime < DAY:
                return
            if not os.path.isdir(self.folder):
                return
            with open(marker, "wb"):
                os.utime(marker)
        except OSError:
            return
        entries = sorted(_entries(self.folder))
        total = sum(size for _, size, _ in entries)
        for used, size, path in entries:
            leftover = path.endswith(".tmp")
            if (leftover and now - used > DAY) or now - used > KEPT_DAYS * DAY or (total > MAX_BYTES and not leftover):
                with contextlib.suppress(OSError):
                    os.unlink(path)
                    total -= size

    def _path(self, key: str) -> str:
        return os.path.join(self.folder, key[:2], key[2:])


def digest_of(path: str) -> str:
    """SHA-256 of a file in hexadecimal; empty when there is none to read."""
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return ""


_stamps: dict[bytes, bytes] = {}


def stamp(folder: str) -> bytes:
    """Identifies the analyzer that is installed: the contents of its files, of packs and of the parser.

    The version alone would not do: rules are edited in place in a development install. Contents are the same on another
    machine, or after installing once more; since they take a while to read, the answer is kept in `folder` (empty: only
    in this process) under the names, sizes and times of the files.
    """
    packages = dict(_packages())
    quick = hashlib.sha256(f"{__version__}\0{sys.version}\0".encode())
    files = [(name, path, *_size_and_time(path)) for name, place in packages.items() for path in sorted(_files(place))]
    for row in files:
        quick.update("\0".join(map(str, row)).encode("utf-8", "surrogateescape"))
    if (kept := _stamps.get(quick.digest())) is not None:
        return kept
    known = os.path.join(folder, "stamps", quick.hexdigest()) if folder else os.devnull
    try:
        with open(known, "rb") as file:
            content = file.read()
        if len(content) == _DIGEST:
            _stamps[quick.digest()] = content
            return content
    except OSError:
        pass
    digest = hashlib.sha256(f"{__version__}\0{sys.version_info[:2]}\0".encode())
    for name, path, *_ in files:
        relative = os.path.relpath(path, packages[name]).replace(os.sep, "/")
        digest.update(f"{name}\0{relative}\0{digest_of(path)}\n".encode("utf-8", "surrogateescape"))
    if folder:
        _write(known, digest.digest())
    _stamps[quick.digest()] = digest.digest()
    return digest.digest()


def _packages() -> Iterator[tuple[str, str]]:
    """The packages that a report depends on, and their folders."""
    from importlib.util import find_spec

    from warplint.registry import entry_points

    packs = {target.partition(":")[0].partition(".")[0] for group in GROUPS for _, target in entry_points(group)}
    for name in dict.fromkeys((*PACKAGES, *sorted(packs))):
        spec = find_spec(name)
        if spec is None:
            continue
        if spec.submodule_search_locations:
            yield name, next(iter(spec.submodule_search_locations))
        elif spec.origin:
            yield name, spec.origin


def _files(place: str) -> Iterator[str]:
    if os.path.isfile(place):
        yield place
        return
    try:
        with os.scandir(place) as found:
            for entry in found:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != "__pycache__":
                        yield from _files(entry.path)
                elif not entry.name.endswith((".pyc", ".pyi", ".md", "~")):
                    yield entry.path
    except OSError:
        return


def _size_and_time(path: str) -> tuple[int, int]:
    try:
        stat = os.stat(path)
    except OSError:
        return 0, 0
    return stat.st_size, stat.st_mtime_ns


def _write(path: str, content: bytes) -> None:
    """Write a file so that it is there as a whole or not at all; a folder that cannot be written is no error."""
    temporary = f"{path}.{os.urandom(8).hex()}.tmp"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(temporary, "xb") as file:
            file.write(content)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def _entries(folder: str) -> Iterable[tuple[float, int, str]]:
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            with contextlib.suppress(OSError):
                stat = os.stat(path)
                if place != folder:
                    yield stat.st_mtime, stat.st_size, path


# ---------------------------------------------------------------------------------------------------- entries
class _Values(pickle.Pickler):
    """Writes enumerations by their values: some versions of Python 3.11 would write a call of `getattr`."""

    def reducer_override(self, obj: Any) -> Any:
        """The call that makes an enumeration's member; what pickle does by itself for everything else."""
        from enum import Enum

        return (type(obj), (obj.value,)) if isinstance(obj, Enum) else NotImplemented


def _encode(report: FileReport) -> bytes:
    buffer = io.BytesIO()
    _Values(buffer, protocol=5).dump(report)
    return buffer.getvalue()


class _Structs(pickle.Unpickler):
    """Loads our own plain structs and enumerations and nothing else: an entry cannot run code."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        """The struct or enumeration of that name. Raises UnpicklingError for anything else."""
        from enum import Enum

        if module_name in ("warplint.finding", "warplint.tables"):
            import importlib

            found = getattr(importlib.import_module(module_name), global_name, None)
            if isinstance(found, type) and issubclass(found, (msgspec.Struct, Enum)):
                return found
        raise pickle.UnpicklingError(f"{module_name}.{global_name} does not belong into a report")


def _decode(content: bytes) -> FileReport | None:
    start = len(FORMAT)
    if not content.startswith(FORMAT):
        return None
    digest, payload = content[start : start + _DIGEST], content[start + _DIGEST :]
    if hashlib.sha256(payload).digest() != digest:
        return None
    report = _Structs(io.BytesIO(zlib.decompress(payload))).load()
    return report if isinstance(report, FileReport) else None
