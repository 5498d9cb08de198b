"""Configuration files: found upwards, checked strictly, overridden by path and by the command line."""

import pytest

from warplint import config
from warplint.engine import Settings
from warplint.finding import Level


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def test_found_upwards(tmp_path):
    write(tmp_path / "pyproject.toml", "[tool.warplint]\nlevel = 'note'\n")
    source = write(tmp_path / "a" / "b" / "k.cu", "")
    assert config.find(source) == str(tmp_path / "pyproject.toml")
    near = write(tmp_path / "a" / "warplint.toml", "")
    assert config.find(source) == near


def test_a_pyproject_without_our_table_is_passed_over(tmp_path):
    write(tmp_path / "warplint.toml", "")
    write(tmp_path / "a" / "pyproject.toml", "[project]\nname = 'x'\n")
    assert config.find(str(tmp_path / "a")) == str(tmp_path / "warplint.toml")


def test_values_overrides_and_command_line(tmp_path):
    path = write(
        tmp_path / "warplint.toml",
        """
        arch = "sm_90a"
        block = [128, 2]
        cluster = 2
        smem = "227K"
        ignore = ["dispatch"]
        level = "note"
        expect = ["tma"]
        [defines]
        STAGES = 4
        FAST = true
        [[overrides]]
        path = "gen/**/attn_*.cu"
        block = 384
        [[overrides]]
        path = "*_blackwell.cu"
        arch = "sm_100a"
        """,
    )
    loaded = config.load(path)
    plain = loaded.settings_for(str(tmp_path / "k.cu"), Settings(), {})
    assert plain == Settings(
        arch="sm_90a",
        block=(128, 2, 1),
        cluster=(2, 1, 1),
        smem=227 * 1024,
        ignore=("dispatch",),
        level=Level.NOTE,
        expect=("tma",),
        defines=(("STAGES", "4"), ("FAST", "1")),
    )
    deep = loaded.settings_for(str(tmp_path / "gen" / "x" / "attn_blackwell.cu"), Settings(), {})
    assert deep.block == (384, 1, 1) and deep.arch == "sm_100a"
    assert loaded.settings_for(str(tmp_path / "gen" / "attn_1.cu"), Settings(), {}).block == (384, 1, 1)
    assert loaded.settings_for(str(tmp_path / "other" / "attn_1.cu"), Settings(), {}).block == (128, 2, 1)
    explicit = loaded.settings_for(str(tmp_path / "a_blackwell.cu"), Settings(), {"arch": "sm_120a"})
    assert explicit.arch == "sm_120a"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("blocks = 256", "unknown key `blocks`; did you mean `block`"),
        ("frobnicate = 1", "unknown key `frobnicate` (known: arch"),
        ("block = 'wide'", "block: 'wide' is no shape"),
        ("block = true", "is no shape"),
        ("level = 'loud'", "'loud' is no level"),
        ("strict = 'yes'", "true or false"),
        ("overrides = 3", "array of tables"),
        ("[[overrides]]\nblock = 3", "needs `path`"),
        ("[[overrides]]\npath = 'x'\nfail-on = 'note'", "override 1: unknown key `fail-on`"),
        ("[[overrides]]\npath = 'x'\nblocks = 3", "override 1: unknown key `blocks`; did you mean `block`"),
        ("levels = 'note'", "levels: write a table"),
        ("[levels]\nsmem-race = 'loud'", "levels: 'loud' is no level"),
        ("[[suppress]]\nrules = ['x']", "suppress 1: needs `path` or `kernel`"),
        ("[[suppress]]\npath = 'x'", "suppress 1: needs `rules`"),
        ("[[suppress]]\npath = 'x'\nrule = ['x']", "suppress 1: unknown key `rule`; did you mean `rules`"),
        ("path-map = ['x']", "path-map: write a table, or a list"),
        ("block = ", "not valid TOML"),
        ("[defines]\n'a b' = 1", "is no macro name"),
    ],
)
def test_errors_name_the_key(tmp_path, text, words):
    with pytest.raises(config.ConfigError) as error:
        config.load(write(tmp_path / "warplint.toml", text))
    assert words in str(error.value)


@pytest.mark.parametrize(("given", "shape"), [("256", (256, 1, 1)), ("128x2", (128, 2, 1)), ("32, 4,2", (32, 4, 2))])
def test_shapes(given, shape):
    assert config.block(given) == shape


@pytest.mark.parametrize(("given", "size"), [(232448, 232448), ("227K", 232448), ("16M", 1 << 24), ("0", 0)])
def test_sizes(given, size):
    assert config.size(given) == size
