"""docs/RULES.md is what the rules' own texts say today."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from warplint.cli import warplint

PAGE = Path(__file__).parents[2] / "docs" / "RULES.md"


def test_the_page_is_fresh():
    run = CliRunner().invoke(warplint, ["rules", "--markdown"])
    assert run.exit_code == 0
    assert PAGE.read_text() == run.output, "run: warplint rules --markdown > docs/RULES.md"
