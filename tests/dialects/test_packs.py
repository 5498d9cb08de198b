"""Dialect packs from outside: checked, found, and used; the worked example of docs/DIALECTS.md runs as it stands."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from warplint.cli import warplint
from warplint.dialects import names
from warplint.dialects.packs import PackError, parse
from warplint.dialects.row_check import problem
from warplint.engine import Settings, lint_bytes
from warplint.finding import Verdict

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "DIALECTS.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)
KERNEL = next(text for kind, text in BLOCKS if kind == "cuda")
PACK = next(text for kind, text in BLOCKS if kind == "toml")
MISSING, WRONG = (text for kind, text in BLOCKS if kind == "text")


def pack(rows: str, head: str = "") -> str:
    return f"{head}\n[rows]\n{rows}\n"


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(warplint, list(arguments), standalone_mode=False)
    if result.exception is not None:
        assert code == 2, result.exception
        return str(getattr(result.exception, "message", result.exception))
    assert result.return_value == code
    return result.output


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernel.cu").write_text(KERNEL)
    (tmp_path / "acme.toml").write_text(PACK)
    return tmp_path


# ------------------------------------------------------------------------------------------- the worked example
def test_without_the_pack_the_names_are_unknown(folder) -> None:
    assert MISSING in run("ops", "--unknown", "kernel.cu")
    kernel = lint_bytes("kernel.cu", KERNEL.encode(), Settings()).kernels[0]
    assert kernel.verdict is Verdict.INCOMPLETE and not kernel.findings


def test_with_the_pack_the_kernel_is_judged(folder) -> None:
    settings = Settings(arch="sm_90a", dialects=(parse(PACK, "acme.toml", "acme"),))
    kernel = lint_bytes("kernel.cu", KERNEL.encode(), settings).kernels[0]
    assert (kernel.verdict, kernel.reasons) == (Verdict.CLEAN, ())
    # and it is judged by what the rows say: a wrong count hangs
    wrong = KERNEL.replace("&empty[s], 128", "&empty[s], 129")
    found = lint_bytes("kernel.cu", wrong.encode(), settings).kernels[0].findings
    assert [finding.rule for finding in found] == ["mbarrier-arrival-count-mismatch"]


def test_pack_of_the_command_line_and_of_the_settings(folder) -> None:
    arguments = ("lint", "kernel.cu", "--no-cache", "--arch", "sm_90a", "--strict")
    run(*arguments, code=1)
    run(*arguments, "--dialect", "acme.toml")
    (folder / "config").mkdir()
    (folder / "acme.toml").rename(folder / "config" / "acme.toml")
    (folder / "warplint.toml").write_text('dialects = ["config/acme.toml"]\n')  # relative to the settings file
    run(*arguments)
    assert "acme (7 rows)" in run("config", "kernel.cu")


def test_the_error_that_the_page_shows(folder) -> None:
    (folder / "acme.toml").write_text(
        PACK.replace("mbarrier.arrive barrier:0 count:#1 sem", "mbarrier.arrive barier:0 sem")
    )
    assert run("lint", "kernel.cu", "--dialect", "acme.toml", code=2) == WRONG.strip()


def test_every_row_of_the_page_is_right() -> None:
    for text in (text for kind, text in BLOCKS if kind == "toml"):
        for key, line in tomllib.loads(text).items():
            if isinstance(line, str):
                assert problem(key, line) == ""


# ------------------------------------------------------------------------------------------------- separate package
@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What an installation of the example gives an interpreter: the package and its entry points on the path."""
    source = ROOT / "fixtures" / "dialect_pack"
    site = tmp_path_factory.mktemp("site")
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    info = site / f"acme_dialect-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    points = project["entry-points"]["warplint.dialects"].items()
    (info / "entry_points.txt").write_text("[warplint.dialects]\n" + "".join(f"{a} = {b}\n" for a, b in points))
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(source), *sys.path])}


def installed(environment: dict[str, str], *args: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "warplint", *args]
    return subprocess.run(command, env=environment, input=text, capture_output=True, text=True, check=False)


def test_an_installed_pack_is_listed_and_used(environment) -> None:
    listed = json.loads(installed(environment, "dialects", "--json", "--no-config").stdout)["dialects"]
    assert (listed[0]["name"], listed[0]["rows"]) == ("acme", 7)
    assert listed[0]["origin"].startswith("entry point acme")
    run = installed(environment, "lint", "-", "--arch", "sm_90a", "--strict", "--no-config", text=KERNEL)
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_example_holds_the_pack_of_the_page() -> None:
    assert (ROOT / "fixtures" / "dialect_pack" / "acme_dialect" / "acme.toml").read_text() == PACK


def test_a_broken_installed_pack_is_told_before_any_file_is_read(environment, tmp_path) -> None:
    broken = tmp_path / "acme_dialect"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise SystemExit('not to be executed')")
    (broken / "acme.toml").write_text(pack('"f" = "bar.snc"'))
    path = os.pathsep.join([environment["PYTHONPATH"].split(os.pathsep)[0], str(tmp_path), environment["PYTHONPATH"]])
    done = installed({**environment, "PYTHONPATH": path}, "lint", "missing.cu")
    assert done.returncode == 2
    assert 'acme: acme.toml: row "f": there is no operation `bar.snc`' in done.stderr


# ------------------------------------------------------------------------------------------------------- messages
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rows = 3", "needs a table [rows]"),
        ("[rows]", "needs a table [rows]"),
        ("[row]\nf = '~'", "unknown key `row`; did you mean `rows`?"),
        ("[rows", "not valid TOML"),
        (pack("f = 3"), 'row "f": a row is a text'),
        (pack("acme.f = '~'"), "a spelling with dots or colons stands in quotes"),
        (pack("f = ''"), "the row is empty"),
        (pack("'f!' = '~'"), "`f!` is no spelling"),
        (pack("'f g' = '~'\n'g' = '~'"), '`g` stands in row "f g" already'),
        (pack("f = 'mbarrier.wait barrier:0'"), "there is no operation `mbarrier.wait`; did you mean"),
        (pack("f = 'mbarrier.init barrier:0'"), "mbarrier.init needs `count:`"),
        (pack("f = 'mbarrier.init barrier:x count:1'"), "write an argument's number"),
        (pack("f = 'mbarrier.init barrier count:1'"), "`barrier` is no operand; write role:argument"),
        (pack("f = 'bar.sync.cta +aligend'"), "there is no modifier `aligend`; did you mean `aligned`?"),
        (pack("f = 'bar.sync.cta -> value'"), "bar.sync.cta has no output `value`"),
        (pack("f = '-> value'"), "is the output of an operation, and the row has none"),
        (pack("f = '-> %lane'"), "no register that is known"),
        (pack("f = 'cp.async.wait_group group:$n'"), "`$n` stands for nothing"),
        (pack("'f{n} g' = 'cp.async.wait_group group:$n'"), "`g` has no {n}"),
        (pack("f = '(a, b'"), "does not close its parameters"),
        (pack("f = '(int a) => a'"), "`int a` is no parameter"),
        (pack("f = '(a) if (a) {'"), "cannot be parsed"),
        (pack("f = '[space=0] bar.sync.cta || ~'"), "write an argument's number and the tag"),
        (pack("f = '~'", "[pack]\ntarget = 'cuda'"), "target 'cuda' is none of any, nvidia, amd"),
        (pack("f = '~'", "[pack]\nnam = 'a'"), "unknown key `nam`; did you mean `name`?"),
        (pack("f = '~'", "[pack]\nname = 'a b'"), "may hold letters, digits"),
    ],
)
def test_what_is_wrong_is_said(text: str, message: str) -> None:
    with pytest.raises(PackError) as caught:
        parse(text, "my.toml", "my")
    assert str(caught.value).startswith("my.toml: ") and message in str(caught.value)


# ------------------------------------------------------------------------------------------------------ precedence
BODY = """
extern "C" __global__ void __launch_bounds__(128) k(float* out) {
  if (threadIdx.x < 64) meet();
  out[threadIdx.x] = 1;
}
"""


def rules_of(source: str, *packs: str) -> list[str]:
    settings = Settings(dialects=tuple(parse(text, f"{n}.toml", f"p{n}") for n, text in enumerate(packs)))
    kernel = lint_bytes("k.cu", source.encode(), settings).kernels[0]
    return [finding.rule for finding in kernel.findings]


def test_an_earlier_pack_wins_and_a_definition_beats_all() -> None:
    barrier, nothing = pack('meet = "bar.sync.cta"'), pack('meet = "~"')
    assert rules_of(BODY, barrier) == ["cta-barrier-in-divergent-code"]
    assert rules_of(BODY, nothing, barrier) == []
    assert rules_of("__device__ void meet() { __syncthreads(); }" + BODY, nothing) == ["cta-barrier-in-divergent-code"]


def test_a_pack_may_say_what_ours_says_otherwise() -> None:
    source = BODY.replace("meet()", "__syncthreads()")
    assert rules_of(source) == ["cta-barrier-in-divergent-code"]
    assert rules_of(source, pack('__syncthreads = "~"')) == []


def test_a_pack_for_the_other_compiler_is_not_asked() -> None:
    text = pack('meet = "bar.sync.cta"', '[pack]\ntarget = "amd"')
    assert rules_of(BODY, text) == []


def test_equal_packs_are_one_table() -> None:
    one, two = (parse(pack('zzz = "~"'), "z.toml", "z") for _ in range(2))
    assert names.use(one) == names.use(two)
    assert names.lookup("zzz", (names.use(one),)) is not None and names.lookup("zzz") is None


# ----------------------------------------------------------------------------------------------------------- lists
def test_dialects_lists_our_tables_and_their_rows(folder) -> None:
    listed = run("dialects", "--dialect", "acme.toml")
    for name in ("acme", "cuda", "tirx", "cutlass", "hip"):
        assert re.search(rf"^{name} ", listed, re.MULTILINE)
    assert "command line: acme.toml" in listed
    assert "cuda::ptx::mbarrier_init" in run("dialects", "cuda_ptx")
    assert "did you mean 'cutlass'" in run("dialects", "cutlas", code=2)
    table = json.loads(run("dialects", "acme", "--json", "--dialect", "acme.toml"))["dialects"][0]["table"]
    assert {"names": ["acme::warp_index"], "row": "-> %tid.x/32"} in table
