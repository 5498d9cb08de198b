"""The committed page of what a GPU did says what warplint says today."""

from __future__ import annotations

import pytest

from tests.hardware import table


def test_the_page_is_fresh():
    assert table.PAGE.read_text() == table.page(), "run: python tests/hardware/table.py > docs/HARDWARE.md"


@pytest.mark.parametrize("name", sorted(table.measured()))
def test_a_kernel_that_failed_on_the_gpu_is_not_clean_and_a_sound_one_is(name):
    found = table.verdict(table.report(table.KERNELS / f"{name}.cu"))
    if table.outcome(table.measured()[name]).startswith("right in") and name.endswith("_good"):
        assert found == "clean"
    else:
        assert found.startswith("`"), found
