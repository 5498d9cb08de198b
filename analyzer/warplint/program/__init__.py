"""Kernels as structured statements over resolved symbols: `lower` turns a parsed file into a `Module`."""

from __future__ import annotations

from warplint.program.lower import Module, lower
from warplint.program.slicing import needed, reads
from warplint.program.unit import Options

__all__ = ["Module", "Options", "lower", "needed", "reads"]
