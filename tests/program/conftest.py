"""Fixtures that lower sources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.program.build import lines


@pytest.fixture
def low() -> Callable[..., list[str]]:
    """Lower a source to the lines of its dump."""
    return lines


@pytest.fixture
def body() -> Callable[..., list[str]]:
    """Lower the body of a kernel `k(int* p, int n)` to lines, helpers before it given apart."""

    def run(text: str, before: str = "", **options: Any) -> list[str]:
        return lines(f"{before}\n__global__ void k(int* p, int n) {{\n{text}\n}}", **options)

    return run
