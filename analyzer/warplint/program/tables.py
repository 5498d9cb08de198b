"""A file's names as one kernel sees them.

Concatenated sources define the same macro, constant or helper again and again: `#undef`ed and defined anew, or once in
each namespace. What a name means then depends on where the kernel stands. Kernels that see the same definitions share
one `Unit`, and a file without such names (nearly every file) has one for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from warplint.dialects.names import lookup
from warplint.program import named
from warplint.program.ctypes import strip_namespace
from warplint.program.extvectors import vector_names
from warplint.program.unit import Options, Unit
from warplint.source import SourceFile, Span
from warplint.syntax import ast, parse

Item = TypeVar("Item", ast.Macro, ast.Declarator)
Named = TypeVar("Named", ast.Function, ast.Record)


class Units:
    """Makes the `Unit` of each kernel of a file."""

    def __init__(self, file: ast.File, source: SourceFile, options: Options, is_amd: bool, host: bool = False) -> None:
        self.file, self.source, self.options, self.is_amd, self.host = file, source, options, is_amd, host
        self.functions, self.records = file.functions, file.records
        if source.parts:
            self.functions, self.records = _untabled(file, source.own, options, is_amd)
        self.macros = _by_name(file.macros)
        self.globals = _by_name(item for declaration in file.globals for item in declaration.items)
        self.changing = [found for found in self.macros.values() if len(found) > 1 or found[0].until >= 0]
        self.repeated = [found for found in self.globals.values() if len(found) > 1]
        self.spaces = _ambiguous(self.functions) or _ambiguous(self.records)
        self.made: dict[tuple[object, ...], Unit] = {}
        self.of_host: Units | None = None

    def of(self, kernel: ast.Function) -> Unit:
        """The tables of one kernel."""
        space = _namespace(kernel) if self.spaces else ""
        macros = [_chosen(found, kernel.span) for found in self.changing]
        constants = [_chosen(found, kernel.span) for found in self.repeated]
        key = (space, *(item and item.span.start for item in (*macros, *constants)))
        unit = self.made.get(key)
        if unit is None:
            unit = self.made[key] = Unit(self.file, self.source, self.options, is_amd=self.is_amd)
            if self.file.passes and not self.host:
                unit.host = self.seen_by_host
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

    def seen_by_host(self, function: str) -> Unit:
        """The tables of a host function in the host's pass over the file."""
        if self.of_host is None:
            file = parse(self.source, self.options.arch, host=True)
            self.of_host = Units(file, self.source, self.options, self.is_amd, host=True)
        functions = self.of_host.file.functions
        if not functions:
            return Unit(self.of_host.file, self.source, self.options, is_amd=self.is_amd)
        plain = strip_namespace(function)
        found = next((fn for fn in functions if fn.name == function), None) or next(
            (fn for fn in functions if strip_namespace(fn.name) == plain), None
        )
        return self.of_host.of(found) if found is not None else self.of_host.of(functions[-1])

    def _fill(self, unit: Unit, space: str, at: int) -> None:
        file = self.file
        for name, fns in _visible(self.functions, space).items():
            unit.functions[name] = fns if len(fns) == 1 else _callable(fns, self.host)
        for name, records in _visible(self.records, space).items():
            unit.records[name] = next((record for record in reversed(records) if record.span.start < at), records[0])
        unit.macros.update((name, found[0]) for name, found in self.macros.items())
        for name, type_ in file.aliases:
            unit.aliases.setdefault(name, type_)
            unit.aliases.setdefault(strip_namespace(name), type_)
        unit.aliases.update((name, ast.TypeName(spelled)) for name, spelled in vector_names(self.source.data).items())
        for name, items in self.globals.items():
            unit.globals.setdefault(name, items[0])
            unit.globals.setdefault(strip_namespace(name), items[0])


def _untabled(
    file: ast.File, own: int, options: Options, is_amd: bool
) -> tuple[tuple[ast.Function, ...], tuple[ast.Record, ...]]:
    """Functions and classes without those of headers that a dialect table describes: there the row holds.

    A library's header defines such a helper by templates over templates; the row says what comes of it. What the
    file itself defines always wins.
    """
    tables = named.in_order(options, is_amd)
    classes: set[str] = set()
    functions: list[ast.Function] = []
    for fn in file.functions:
        if fn.span.start >= own and _tabled(fn, tables):
            if fn.record:
                classes.add(fn.name.rpartition("::")[0])
            continue
        functions.append(fn)
    if not classes:
        return tuple(functions), file.records
    kept = [fn for fn in functions if fn.span.start < own or fn.name.rpartition("::")[0] not in classes]
    return tuple(kept), tuple(item for item in file.records if item.span.start < own or item.name not in classes)


def _tabled(fn: ast.Function, tables: tuple[str, ...]) -> bool:
    arity = len(fn.params) + bool(fn.record)
    return "operator" not in fn.name and lookup(fn.name, tables, arity) is not None


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


def _callable(fns: list[ast.Function], host: bool) -> list[ast.Function]:
    """The overloads that host or device code can call; all, when nothing else is there."""
    other = "__device__" if host else "__host__"
    own = "__host__" if host else "__device__"
    kept = [fn for fn in fns if other not in fn.specifiers or own in fn.specifiers]
    return kept if 0 < len(kept) < len(fns) else fns


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
