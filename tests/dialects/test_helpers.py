"""Names against instructions: a helper's name says the same as the assembly in its body.

The files are kernels as TVM generated them; every helper they define is looked up by name and classified by its body.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from warplint.dialects import asm, names
from warplint.dialects.asm import AsmOp
from warplint.source import SourceFile
from warplint.syntax import ast, parse

ARTIFACTS = sorted((Path(__file__).parents[2] / "fixtures" / "artifacts").glob("*_tvm0*.cu"))
CORPUS = os.environ.get("WARPLINT_CORPUS", "")


def helpers(path: Path) -> Iterator[tuple[ast.Function, list[ast.Asm]]]:
    """Functions of a file that hold nothing but declarations and inline assembly."""
    for fn in parse(SourceFile(path.name, path.read_bytes())).functions:
        if "__device__" in fn.specifiers and "asm" in fn.text_mentions:
            found = list(_assembly(fn.body()))
            if found:
                yield fn, found


def _assembly(block: ast.Block) -> Iterator[ast.Asm]:
    for stmt in block.body:
        if isinstance(stmt, ast.Block):
            yield from _assembly(stmt)
        elif isinstance(stmt, ast.ExprStmt) and isinstance(stmt.value.expr, ast.Asm):
            yield stmt.value.expr


def meaning(op: AsmOp) -> tuple[object, ...]:
    """Operation, roles with their parameters or constants, and the modifiers that matter to rules."""
    shared = ("remote", "multicast", "read", "direction", "elects", "blocking", "kind", "noinc", "dim")
    mods = {key: op.mods[key] for key in shared if op.mods.get(key)}
    return op.name, {role: _plain(value) for role, value in op.operands.items()}, mods, _plain(op.predicate)


def _plain(value: ast.Expr | None) -> object:
    """The parameter behind a value: casts, `x != 0`, and local copies of an address apart."""
    while True:
        if isinstance(value, ast.Cast):
            value = value.arg
        elif isinstance(value, ast.Binary) and value.op == "!=" and isinstance(value.right, ast.Num):
            value = value.left
        elif isinstance(value, ast.Num):
            return value.value
        elif isinstance(value, ast.Name):
            return re.sub(r"(_addr)?(_int)?$|_ptr$|ess$", "", value.id)
        else:
            return None if value is None else "other"


def check(path: Path) -> int:
    """Compares every helper of a file; the number of helpers compared."""
    compared = 0
    for fn, nodes in helpers(path):
        results = [asm.classify(node) for node in nodes]
        assert all(not result.unknown for result in results), fn.name
        by_body = [meaning(op) for result in results for op in result.ops]
        row = names.lookup(fn.name, names.NVIDIA, len(fn.params))
        if row is None:
            assert not fn.name.startswith("tvm_builtin_ptx_"), fn.name
            continue
        args = tuple(ast.Name(fn.span, param.name) for param in fn.params)
        by_name = [meaning(op) for op in names.bind(row, args, (), fn.span).ops]
        assert [item[0] for item in by_name] == [item[0] for item in by_body], fn.name
        for name, body in zip(by_name, by_body, strict=True):
            for role, value in name[1].items():  # type: ignore[attr-defined]
                assert body[1][role] == value or "other" in (value, body[1][role]), (fn.name, role)  # type: ignore[index]
            assert name[2:] == body[2:] or "st_" in fn.name, fn.name
        compared += 1
    return compared


@pytest.mark.parametrize("path", ARTIFACTS, ids=lambda path: path.name)
def test_generated_helpers(path: Path) -> None:
    assert check(path) > 10


@pytest.mark.corpus
@pytest.mark.skipif(not CORPUS, reason="WARPLINT_CORPUS names no folder")
def test_corpus_helpers() -> None:
    assert sum(check(path) for path in sorted(Path(CORPUS).rglob("*.cu"))) > 0
