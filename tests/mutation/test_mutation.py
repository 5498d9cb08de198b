"""Deleting any one synchronisation operation of a good kernel is noticed, or the list says why nothing is wrong.

`explained.tsv` is the list: one row for each mutant that stays silent, with its reason. A row that is not needed any
more fails as well. `python -m tests.mutation.run --changes FILES` measures the other mutations.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.mutation.mutate import changes, deletions, sites
from tests.mutation.run import SILENT, explained, judged, settings

HERE = Path(__file__).parent
FIXTURES = HERE.parents[1] / "fixtures"
OURS = sorted([*(HERE / "kernels").glob("*.cu"), *(FIXTURES / "hardware").glob("*good.cu")])
GENERATED = sorted((FIXTURES / "artifacts").glob("*good_*.cu"))
REBUILT = Path(os.environ.get("WARPLINT_GENERATED", "build/generated"))


def every_deletion_is_noticed(path: Path) -> int:
    """Returns how many operations were deleted."""
    known = explained(path.name)
    results = {mutant.key: result for mutant, result in judged(path, deletions)}
    silent = {key for key, result in results.items() if result == SILENT}
    assert not silent - known.keys(), "deleted and not noticed"
    assert not known.keys() - silent, "explained, but noticed or not there any more"
    return len(results)


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.stem)
def test_deletions_in_our_kernels(path: Path) -> None:
    assert every_deletion_is_noticed(path)


@pytest.mark.generator
@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.stem)
def test_deletions_in_generated_kernels(path: Path) -> None:
    assert every_deletion_is_noticed(path) > 40


@pytest.mark.generator
@pytest.mark.parametrize("version", ["tvm026", "tvm027"])
def test_deletions_in_rebuilt_kernels(version: str) -> None:
    """No more silent mutants than in the committed kernel: the lines differ, so they are only counted."""
    path = REBUILT / version / "gemm_step7__good.cu"
    if not path.is_file():
        pytest.skip("not generated (make generated)")
    allowed = len(explained("gemm_step7_good_tvm027.cu"))
    silent = [mutant.key for mutant, result in judged(path, deletions) if result == SILENT]
    assert len(silent) <= allowed, silent


def test_a_mutant_differs_from_the_original_at_one_place() -> None:
    path = HERE / "kernels" / "attention.cu"
    data, chosen = path.read_bytes(), settings(path)
    found = sites(data, chosen)
    assert len({site.span.start for site in found}) == len(found) > 30
    for mutant in (*deletions(data, chosen), *changes(data, chosen)):
        before, after = data.splitlines(), mutant.data.splitlines()
        assert len(before) == len(after), "lines never move"
        differing = sum(one != two for one, two in zip(before, after, strict=True))
        assert 1 <= differing <= 3, mutant.key
