"""The hand-off section of the HTML report: there when a kernel was executed, escaped, every link resolves."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.handoffs.kernels import CROSSED, GEMM
from tests.reports.test_html import Page
from warplint.cli import warplint


def page(folder: Path, text: str) -> tuple[str, Page]:
    (folder / "kernel.cu").write_text(text)
    result = CliRunner().invoke(
        warplint, ["lint", "kernel.cu", "--format", "html", "--exit-zero"], standalone_mode=False
    )
    assert result.exception is None
    return result.stdout, Page(result.stdout)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_tables_are_on_the_page(folder):
    text, made = page(folder, GEMM)
    assert "handoffs" in made.ids and "k1-handoffs" in made.ids
    cells = " ".join(made.texts["td"] + made.texts["div"])
    assert "pool_buf_ptr + 8, + 16" in cells and "2 stages, count 1" in cells
    assert "tcgen05.dealloc 512 columns" in cells
    targets = {element["href"][1:] for element in made.of("a") if element.get("href", "").startswith("#")}
    assert targets <= set(made.ids)
    assert "Hangs" not in text


def test_a_hang_is_explained(folder):
    _, made = page(folder, CROSSED)
    assert "Hangs" in made.texts["b"]
    assert len([item for item in made.texts["li"] if "waits at line" in item]) == 4, "in the finding and in its tables"


def test_no_section_without_an_execution(folder):
    _, made = page(folder, "__global__ void f(float* x) { x[threadIdx.x] = 1.f; }\n")
    assert "handoffs" not in made.ids


def test_guards_of_the_input_are_escaped(folder):
    hostile = "threadIdx.x < 32 /* </td><b>\u202e */"
    text, _ = page(folder, CROSSED.replace("threadIdx.x < 32", hostile))
    section = text[text.index('<section id="handoffs">') : text.index('<section id="sources">')]
    assert "threadIdx.x &lt; 32" in section, "the guard is shown"
    assert "\u202e" not in section and "</td><b>" not in section
