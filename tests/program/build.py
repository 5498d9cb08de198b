"""Sources lowered for tests."""

from __future__ import annotations

from warplint.program import Module, Options, lower
from warplint.program.dump import dump
from warplint.source import SourceFile
from warplint.syntax import parse


def module(text: str, path: str = "test.cu", **options: object) -> Module:
    """A source lowered with the given options."""
    source = SourceFile(path, text.encode())
    return lower(parse(source), source, Options(**options))  # type: ignore[arg-type]


def lines(text: str, path: str = "test.cu", **options: object) -> list[str]:
    """The dump of the only kernel, one statement a line, indentation kept, header left out."""
    kernels = module(text, path, **options).kernels
    assert len(kernels) == 1
    return dump(kernels[0]).splitlines()[1:]
