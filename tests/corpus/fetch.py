"""Fetches the packages of `sources.toml` and unpacks the CUDA and HIP sources in them.

    python -m tests.corpus.fetch FOLDER [--only NAME]

The package index is asked through an ordinary client (`unearth`, which downloads source archives without running their
build); which index, its own configuration says. What is there already is not fetched again.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).with_name("sources.toml")
SUFFIXES = (".cu", ".cuh", ".hip", ".h", ".hpp", ".inl", ".cc", ".cpp")
MARKS = (b"__global__", b"__device__", b"__shared__")
MAX_BYTES = 6_000_000


def packages(only: str = "") -> dict[str, dict[str, Any]]:
    """The packages by name, as `sources.toml` has them."""
    found = tomllib.loads(SOURCES.read_text())
    return {name: facts for name, facts in found.items() if only in name}


def download(name: str, facts: dict[str, Any], into: Path) -> Path | None:
    """The archive of a package, fetched if it is not there; None when it could not be had."""
    into.mkdir(parents=True, exist_ok=True)
    stem = name.replace("-", "_").lower()
    marker = into / f"{stem}-{facts['version']}.path"
    if marker.is_file() and Path(marker.read_text()).is_file():
        return Path(marker.read_text())
    before = set(into.iterdir())
    kind = "--only-binary" if facts["kind"] == "wheel" else "--no-binary"
    command = [sys.executable, "-m", "unearth", kind, "--download", str(into), f"{name}=={facts['version']}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    new = [path for path in set(into.iterdir()) - before if path.suffix in (".whl", ".gz", ".zip")]
    if done.returncode or not new:
        print(f"{name}: not fetched: {done.stderr.strip()[-200:]}", file=sys.stderr)
        return None
    marker.write_text(str(new[0]))
    return new[0]


def members(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Path inside the package and bytes of each file of an archive; a source archive's own folder is left out."""
    if archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as opened:
            for item in opened.infolist():
                if _wanted(item.filename, item.file_size):
                    yield item.filename, opened.read(item)
        return
    with tarfile.open(archive) as opened:
        for item in opened:
            file = opened.extractfile(item) if item.isfile() and _wanted(item.name, item.size) else None
            if file is not None:
                yield item.name.partition("/")[2], file.read()


def _wanted(name: str, size: int) -> bool:
    return name.endswith((*SUFFIXES, ".py")) and size <= MAX_BYTES


def unpack(archive: Path, facts: dict[str, Any], into: Path) -> int:
    """Writes headers, and sources that speak of devices; kernels in Python strings get a file each. How many."""
    count = 0
    for name, data in members(archive):
        if ".." in name or not any(name.startswith(folder) for folder in facts["only"]):
            continue
        if name.endswith(".py"):
            texts = kernels_in(data) if facts.get("strings") else []
        else:
            header = name.endswith((".h", ".hpp", ".cuh", ".inl"))
            texts = [data] if header or any(mark in data for mark in MARKS) else []
        for number, text in enumerate(texts):
            path = into / (name if not name.endswith(".py") else f"{name}.{number}.cu")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
            count += 1
    return count


def kernels_in(data: bytes) -> list[bytes]:
    """The string literals of a Python file that hold a whole kernel."""
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError):
        return []
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "__global__" in node.value:
            if "{" in node.value and "%(" not in node.value and "${" not in node.value:
                found.append(node.value.encode())
    return found


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="only packages whose name holds this text")
    options = parser.parse_args()
    for name, facts in packages(options.only).items():
        target = options.folder / "src" / name
        if target.is_dir():
            continue
        archive = download(name, facts, options.folder / "archives")
        if archive is not None:
            print(f"{name} {facts['version']}: {unpack(archive, facts, target)} files", flush=True)


if __name__ == "__main__":
    main()
