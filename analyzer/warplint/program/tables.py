"""A file's names as one kernel sees them.

Concatenated sources define the same macro, constant or helper again and again: `#undef`ed and defined anew, or once in
each namespace. What a name means then depends on where the kernel stands. Kernels that see the same definitions share
one `Unit`, and a file without such names (nearly every file) has one for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from warplint.program.ctypes import strip_namespace
from warplint.program.extvectors import vector_names
from warplint.program.unit import Options, Unit
from warplint.source import SourceFile, Span
from warplint.syntax import ast

Item = TypeVar("Item", ast.Macro, ast.Declarator)
Named = TypeVar("Named", ast.Function, ast.Record)


class Units:
    """Makes the `Unit` of each kernel of a file."""

    def __init__(self, file: ast.File, source: SourceFile, options: Options, is_amd: bool) -> None:
        self.file, self.source, self.options, self.is_amd = file, source, options, is_amd
        self.macros = _by_name(file.macros)
        self.globals = _by_name(item for declaration in file.globals for item in declaration.items)
        self.changing = [found for found in self.macros.values() if len(found) > 1 or found[0].until >= 0]
        self.repeated = [found for found in self.globals.values() if len(found) > 1]
        self.spaces = _ambiguous(file.functions) or _ambiguous(file.records)
        self.made: dict[tuple[object, ...], Unit] = {}

    def of(self, kernel: ast.Function) -> Unit:
        """The tables of one kernel."""
        space = _namespace(kernel) if self.spaces else ""
        macros = [_chosen(found, kernel.span) for found in self.changing]
        constants = [_chosen(found, kernel.span) for found in self.repeated]
        key = (space, *(item and item.span.start for item in (*macros, *constants)))
        unit = self.made.get(key)
        if unit is None:
            unit = self.made[key] = Unit(self.file, self.source, self.options, is_amd=self.is_amd)
            self._fill(unit, space, kernel.span.end)
            for found, item in zip(self.changing, macros, strict=True):
                if item is None:
                    del unit.macros[found[0].name]
                else:
                    unit.macros[item.name] = item
            unit.globals.update((item.name, item) for item in constants if item is not None)
            for name, value in defined(self.options.defines).items():
                unit.macros[name] = ast.Macro(name, None, value, Span(0, 0))
        return unit

    def _fill(self, unit: Unit, space: str, at: int) -> None:
        file = self.file
        for name, fns in _visible(file.functions, space).items():
            unit.functions[name] = fns
        for name, records in _visible(file.records, space).items():
            unit.records[name] = next((record for record in reversed(records) if record.span.start < at), records[0])
        unit.macros.update((name, found[0]) for name, found in self.macros.items())
        for name, type_ in file.aliases:
            unit.aliases.setdefault(name, type_)
            unit.aliases.setdefault(strip_namespace(name), type_)
        unit.aliases.update((name, ast.TypeName(spelled)) for name, spelled in vector_names(self.source.data).items())
        for name, items in self.globals.items():
            unit.globals.setdefault(name, items[0])
            unit.globals.setdefault(strip_namespace(name), items[0])


def defined(defines: Mapping[str, int | str]) -> dict[str, str]:
    """`--define` values as text."""
    return {name: str(value) for name, value in defines.items()}


def _by_name(items: Iterable[Item]) -> dict[str, list[Item]]:
    found: dict[str, list[Item]] = {}
    for item in items:
        found.setdefault(item.name, []).append(item)
    return found


def _chosen(found: Sequence[Item], kernel: Span) -> Item | None:
    """The last definition before the kernel's end that is not over before the kernel begins; None: undefined there.

    One that stands only behind the kernel (host code defines its launch there) is taken when there is no other.
    """
    before = [item for item in found if item.span.start < kernel.end]
    if not before:
        return found[0]
    last = before[-1]
    return None if isinstance(last, ast.Macro) and 0 <= last.until <= kernel.start else last


def _namespace(fn: ast.Function) -> str:
    return fn.name.rpartition("::")[0]


def _ambiguous(items: Iterable[ast.Function | ast.Record]) -> bool:
    """Two namespaces define the same name (a method belongs to its class, so its name has two parts)."""
    first: dict[str, str] = {}
    for item in items:
        if isinstance(item, ast.Function) and item.record:
            continue
        full = item.name
        if first.setdefault(strip_namespace(full), full) != full:
            return True
    return False


def _visible(items: Sequence[Named], space: str) -> dict[str, list[Named]]:
    """By every name that may stand for them: qualified, and by last component.

    Seen from inside `a::b`, the names of `a::b` hide those of `a`, these the global ones, and what stands in other
    namespaces is found by last component only if nothing nearer has it.
    """
    table: dict[str, list[Named]] = {}
    own: set[str] = set()
    while space:
        prefix = space + "::"
        nearer = [item for item in items if item.name.startswith(prefix)]
        fresh: dict[str, list[Named]] = {}
        for item in nearer:
            rest = item.name[len(prefix) :]
            for name in dict.fromkeys((rest, strip_namespace(rest))):
                fresh.setdefault(name, []).append(item)
        for name, found in fresh.items():
            table.setdefault(name, found)
        own.update(fresh)
        space = space.rpartition("::")[0]
    for item in items:
        for name in dict.fromkeys((item.name, strip_namespace(item.name))):
            if name not in own:
                table.setdefault(name, []).append(item)
    return table
