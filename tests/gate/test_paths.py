"""Names of files: relative to a root, mapped, and warned about where they will not last."""

import json

import pytest
from click import ClickException
from click.testing import CliRunner

from tests.gate.kernels import BAD
from warplint.cli import warplint
from warplint.discover import Input, shard
from warplint.pathmap import PathError, named, unstable


def run(*arguments):
    result = CliRunner().invoke(warplint, ["lint", *arguments], standalone_mode=False)
    if isinstance(result.exception, ClickException):
        return 2, "", result.exception.format_message()
    assert result.exception is None, result.exception
    return result.return_value, result.stdout, result.stderr


@pytest.mark.parametrize(
    ("path", "pair", "name"),
    [
        ("build/a/k.cu", ("build/", "artifacts/"), "artifacts/a/k.cu"),
        ("build/a/k.cu", ("build", "artifacts"), "artifacts/a/k.cu"),
        ("build/a/k.cu", ("build/", ""), "a/k.cu"),
        ("building/k.cu", ("build", "x"), "building/k.cu"),
        ("/scratch/jit-1/kernel_77.cu", ("/scratch/jit-*/kernel_*.cu", "generated/kernel.cu"), "generated/kernel.cu"),
        ("/scratch/jit-1/kernel_77.cu", ("/scratch/jit-*/kernel_*.cu", "g/*/k_*.cu"), "g/1/k_77.cu"),
        ("/scratch/a/b/k.cu", ("/scratch/**/k.cu", "g/**/k.cu"), "g/a/b/k.cu"),
        ("/scratch/a/b/k.cu", ("/scratch/*/k.cu", "g/k.cu"), "/scratch/a/b/k.cu"),
        ("g/gemm_0a1b2c3d.cu", ("*/gemm_????????.cu", "*/gemm.cu"), "g/gemm.cu"),
        ("a+b/k.cu", ("a+b/", "x/"), "x/k.cu"),
    ],
)
def test_mapping(path, pair, name):
    assert named([Input(path, path)], None, [pair])[0].name == name


def test_the_first_pair_that_fits_wins():
    assert named([Input("a/k.cu", "a/k.cu")], None, [("a/", "b/"), ("b/", "c/")])[0].name == "b/k.cu"


def test_two_files_with_one_name_are_an_error():
    inputs = [Input("a/k.cu", "a/k.cu"), Input("b/k.cu", "b/k.cu")]
    with pytest.raises(PathError, match=r"a/k.cu and b/k.cu would both be called k.cu"):
        named(inputs, None, [("*/k.cu", "k.cu")])


@pytest.mark.parametrize(
    "name",
    ["/scratch/k.cu", "build/tmpab12_x9q/k.cu", "g/kernel_3f2a9c1b77.cu", "a1b2c3d4e5f60718/k.cu", "x/tmp.Ab3dE6/k.cu"],
)
def test_names_that_will_not_last(name, monkeypatch):
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/scratch")
    assert unstable([name]) == [name]


@pytest.mark.parametrize(
    "name",
    ["artifacts/gemm_sm100a.cu", "k/attention_backward_sm_90a.cu", "deadbeef.cu", "gemm_20240131.cu", "template/k.cu"],
)
def test_names_that_last(name):
    assert not unstable([name])


def test_sarif_needs_names_below_the_root(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "k.cu").write_text(BAD)
    monkeypatch.chdir(tmp_path / "here")
    code, _, err = run("../there/k.cu", "--format", "sarif")
    assert code == 2 and "lies outside the working directory" in err and "--path-map" in err
    assert run("../there/k.cu")[0] == 1, "people can read such a name"
    for options in (("--root", ".."), ("--path-map", "../there/=there/")):
        code, out, _ = run("../there/k.cu", "--format", "sarif", *options)
        (result,) = json.loads(out)["runs"][0]["results"]
        assert code == 1
        assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "there/k.cu"
    code, _, err = run("../there/k.cu", "--format", "sarif", "--root", ".")
    assert code == 2 and "lies outside ." in err


def test_a_name_like_a_hash_is_warned_about(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k_3f2a9c1b77.cu").write_text(BAD)
    assert "--path-map" in run(".", "--format", "sarif")[2]
    assert not run(".")[2]
    assert not run(".", "--format", "sarif", "--path-map", "k_*.cu=k.cu")[2]


def test_the_settings_may_map_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "k.cu").write_text(BAD)
    (tmp_path / "warplint.toml").write_text('[path-map]\n"b/" = "c/"\n')
    assert "c/k.cu:3:5: error" in run("b")[1]
    assert "d/k.cu:3:5: error" in run("b", "--path-map", "b/=d/")[1], "the command line comes first"


def test_shards_share_files_out():
    inputs = [Input(f"k{number}.cu", f"k{number}.cu") for number in range(200)]
    parts = [shard(inputs, number, 7) for number in range(1, 8)]
    assert sorted(position for part in parts for position in part) == list(range(200))
    assert all(10 < len(part) < 60 for part in parts)
    assert shard(inputs[:100], 3, 7) == [position for position in parts[2] if position < 100]
