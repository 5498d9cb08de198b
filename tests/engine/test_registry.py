"""Rules are found by their place, and a rule that is not as it should be is an error that says what is missing."""

import sys
from pathlib import Path

import pytest

from warplint import registry

GOOD = '''"""thing: A thing that is wrong.

More words.

## Why
Because.

## Bad
```cuda
bad();
```

## Good
    ```cuda
    if (x) {
      good();
    }
    ```
"""
from warplint.finding import Level, Symptom
from warplint.rule import Rule
RULE = Rule(Level.ERROR, Symptom.CRASH, precision="medium", guide=True)
def check(roles):
    return iter(())
'''


@pytest.fixture
def pack(tmp_path, monkeypatch):
    """An installed rule pack with one family and one rule; yields a function that rewrites the rule."""
    folder = tmp_path / "other_rules" / "my_family"
    folder.mkdir(parents=True)
    (tmp_path / "other_rules" / "__init__.py").touch()
    (folder / "__init__.py").touch()
    info = tmp_path / "other-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[warplint.rules]\nother = other_rules\n")
    monkeypatch.syspath_prepend(tmp_path)

    def write(text, name="thing"):
        (folder / f"{name}.py").write_text(text)

    write(GOOD)
    yield write
    registry.rules.cache_clear()
    for name in [name for name in sys.modules if name.startswith("other_rules")]:
        del sys.modules[name]


def load():
    registry.rules.cache_clear()
    return {rule.slug: rule for rule in registry.rules()}


def test_every_rule_of_ours_is_documented():
    rules = load()
    assert rules
    for rule in rules.values():
        info = rule.info
        assert info.summary and not info.summary.endswith(".") and "\n" not in info.summary
        assert info.bad != info.good
        assert info.precision in ("very-high", "high", "medium", "low")


def test_every_superseded_rule_exists_or_is_in_the_catalogue():
    rules = load()
    for rule in rules.values():
        assert rule.slug not in rule.rule.supersedes


def test_entry_points(pack):
    rule = load()["thing"]
    info = rule.info
    assert (rule.family, info.summary, info.why) == ("my-family", "A thing that is wrong", "Because.")
    assert info.bad == "bad();" and info.good == "if (x) {\n  good();\n}"
    assert info.precision == "medium" and info.guide


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("## Why\nBecause.", ""), "no section '## Why'"),
        (("```cuda\nbad();\n```", "bad();"), "'## Bad' holds no fenced code"),
        (("## Good", "## Fine"), "no section '## Good'"),
        (("thing: A thing that is wrong.\n\nMore words.\n", ""), "no summary line"),
    ],
)
def test_a_missing_section_is_an_error(pack, change, words):
    pack(GOOD.replace(*change))
    with pytest.raises(registry.RuleError, match=words):
        _ = load()["thing"].info


@pytest.mark.parametrize(
    ("text", "words"),
    [("1/0", "cannot be imported: ZeroDivisionError"), ("", "a rule module holds")],
)
def test_a_broken_module_is_an_error(pack, text, words):
    pack(text)
    with pytest.raises(registry.RuleError, match=words):
        load()


def test_a_slug_has_one_owner(pack):
    pack(GOOD, "cta_barrier_in_divergent_code")
    with pytest.raises(registry.RuleError, match="two rules are called cta-barrier-in-divergent-code"):
        load()


def test_select(pack):
    load()
    slugs = lambda *args: [rule.slug for rule in registry.select(*args)]  # noqa: E731
    assert slugs(["my-family"], []) == ["thing"]
    assert slugs(["thing"], []) == ["thing"]
    assert "thing" not in slugs([], ["my-family"]) and "thing" not in slugs([], ["thing"])
    assert slugs(["thing"], ["my-family"]) == ["thing"]  # the more specific name wins
    with pytest.raises(registry.UnknownRule, match="did you mean thing"):
        registry.select(["thin"], [])


def test_files_that_start_with_an_underscore_are_no_rules():
    assert (Path(sys.modules["warplint_rules"].__path__[0]) / "_say.py").exists()
    assert not [rule for rule in load().values() if "_say" in rule.module.__name__]
