"""Suppression by comments and settings: what is set apart, what is said about it, in every format."""

import json
from pathlib import Path

import pytest
from click import ClickException
from click.testing import CliRunner
from hypothesis import given, strategies
from hypothesis import settings as hypothesis_settings

from tests.gate.kernels import BAD, RULE
from warplint.cli import warplint
from warplint.engine import Settings, lint_bytes
from warplint.finding import Level, Suppression

COMMENTED = BAD.replace("    __syncthreads();", f"    __syncthreads();  // warplint: ignore[{RULE}] see ticket 12")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.cu").write_text(COMMENTED)
    (tmp_path / "bad.cu").write_text(BAD)
    return tmp_path


def lint(*arguments):
    result = CliRunner().invoke(warplint, ["lint", *arguments], standalone_mode=False)
    if isinstance(result.exception, ClickException):
        return 2, result.exception.format_message()
    assert result.exception is None, result.exception
    return result.return_value, result.stdout


def report(text, **settings):
    return lint_bytes("k.cu", text.encode(), Settings(**settings))


def rules(found):
    return [f.rule for f in found.findings] + [f.rule for kernel in found.kernels for f in kernel.findings]


def test_a_comment_suppresses_and_is_counted(folder):
    found = report(COMMENTED)
    assert rules(found) == []
    (one,) = found.suppressed
    assert (one.finding.rule, one.by, one.where, one.reason, one.line) == (
        RULE,
        "comment",
        "line 3",
        "see ticket 12",
        3,
    )
    assert lint("k.cu")[0] == 0
    assert "no findings in 1 kernel of 1 file; 1 suppressed" in lint("k.cu")[1]
    assert "broken  k.cu:1  findings    1 suppressed\n" in lint("k.cu")[1]


def test_shown_on_request(folder):
    text = lint("k.cu", "--show-suppressed")[1]
    assert "k.cu:3:5: suppressed error: " in text
    assert "because       comment, line 3: see ticket 12" in text


def test_json_always_has_them(folder):
    (file,) = json.loads(lint("k.cu", "--format", "json")[1])["files"]
    assert file["suppressed"] == 1
    assert file["suppressions"][0]["finding"]["rule"] == RULE
    assert file["suppressions"][0]["reason"] == "see ticket 12"


def test_sarif_has_them_on_request(folder):
    (run,) = json.loads(lint("k.cu", "--format", "sarif")[1])["runs"]
    assert run["results"] == []
    (run,) = json.loads(lint("k.cu", "--format", "sarif", "--show-suppressed")[1])["runs"]
    (result,) = run["results"]
    (suppression,) = result["suppressions"]
    assert suppression["kind"] == "inSource" and suppression["justification"] == "line 3: see ticket 12"
    assert suppression["location"]["physicalLocation"]["region"]["startLine"] == 3


def test_html_lists_them(folder):
    page = lint("k.cu", "--format", "html")[1]
    assert "<summary>1 suppressed</summary>" in page and "see ticket 12" in page


@pytest.mark.parametrize(
    ("comment", "unused"),
    [
        ("// warplint: ignore[smem-race]", ["unused-suppression"]),
        ("// warplint: ignore[smem-race]", []),
    ],
)
def test_unused_only_where_the_rule_was_asked(comment, unused):
    text = BAD.replace("    __syncthreads();", "    out[0] = 1.0f;").replace(
        "__syncthreads();", f"{comment}\n__syncthreads();"
    )
    settings = {} if unused else {"ignore": ("smem-race",)}
    assert rules(report(text, **settings)) == unused
    assert rules(report(text, execute=False)) == []
    assert rules(report(text, select=("participation",))) == []
    assert rules(report(text, level=Level.ERROR)) == []


def test_settings_suppress_by_path_rule_and_kernel(folder):
    entry = '[[suppress]]\npath = "{}"\nrules = ["{}"]\nkernel = "{}"\nreason = "old"\n'
    for path, rule, kernel, code in [
        ("bad.cu", RULE, "bro*", 0),
        ("*.cu", "participation", "*", 0),
        ("other/*.cu", RULE, "*", 1),
        ("bad.cu", "smem-race", "*", 1),
        ("bad.cu", RULE, "fine*", 1),
    ]:
        (folder / "warplint.toml").write_text(entry.format(path, rule, kernel))
        assert lint("bad.cu")[0] == code, (path, rule, kernel)
    (folder / "warplint.toml").write_text(entry.format("bad.cu", RULE, "broken"))
    (file,) = json.loads(lint("bad.cu", "--format", "json")[1])["files"]
    assert file["suppressions"][0]["where"] == "warplint.toml: suppress 1"
    (run,) = json.loads(lint("bad.cu", "--format", "sarif", "--show-suppressed")[1])["runs"]
    assert run["results"][0]["suppressions"][0]["kind"] == "external"


def test_an_entry_of_the_settings_that_matches_nothing_is_told(folder):
    (folder / "warplint.toml").write_text('[[suppress]]\npath = "bad.cu"\nrules = ["smem-race"]\n')
    result = CliRunner().invoke(warplint, ["lint", "bad.cu", "k.cu"], standalone_mode=False)
    assert "warplint.toml: suppress 1 (smem-race) matches no finding" in result.stderr
    result = CliRunner().invoke(warplint, ["lint", "k.cu"], standalone_mode=False)
    assert "suppress 1" not in result.stderr, "the file that it is about was not analysed"


def test_unknown_rules_in_the_settings_are_errors(folder):
    (folder / "warplint.toml").write_text('[[suppress]]\npath = "bad.cu"\nrules = ["smem-rase"]\n')
    code, text = lint("bad.cu")
    assert code == 2 and "did you mean smem-race" in text
    (folder / "warplint.toml").write_text('[levels]\nsmem-rase = "note"\n')
    assert lint("bad.cu")[0] == 2


def test_levels_by_rule_family_and_path(folder):
    (folder / "warplint.toml").write_text(
        f'[levels]\nparticipation = "note"\n[[overrides]]\npath = "bad.cu"\nlevels = {{{RULE} = "warning"}}\n'
    )
    (folder / "worse.cu").write_text(BAD)
    files = json.loads(lint("bad.cu", "worse.cu", "--format", "json", "--level", "note")[1])["files"]
    assert [file["kernels"][0]["findings"][0]["level"] for file in files] == ["warning", "note"]
    assert [file["kernels"][0]["verdict"] for file in files] == ["findings", "clean"]
    assert lint("bad.cu", "worse.cu")[0] == 0
    assert lint("bad.cu", "worse.cu", "--fail-on", "warning")[0] == 1


def test_rules_by_path(folder):
    (folder / "warplint.toml").write_text('[[overrides]]\npath = "bad.cu"\nignore = ["participation"]\n')
    (folder / "worse.cu").write_text(BAD)
    files = json.loads(lint("bad.cu", "worse.cu", "--format", "json")[1])["files"]
    assert [len(file["kernels"][0]["findings"]) for file in files] == [0, 1]


def test_macros_of_overrides_and_the_command_line_add_up(folder):
    from warplint.cli.options import merge
    from warplint.discover import Input

    (folder / "warplint.toml").write_text(
        'defines = {A = 1, B = 1, C = 1}\n[[overrides]]\npath = "*.cu"\ndefines = {B = 2, C = 2}\n'
    )
    chosen = merge(("k.cu",), False, True, None, False, defines=("C=3",))
    assert dict(chosen.settings(Input("k.cu", "k.cu")).defines) == {"A": "1", "B": "2", "C": "3"}


def test_the_level_of_a_report_does_not_change_fingerprints():
    notes = report(BAD, level=Level.NOTE)
    errors = report(BAD, level=Level.ERROR)
    chosen = [f.fingerprint for k in notes.kernels for f in k.findings if f.level is Level.ERROR]
    assert chosen == [f.fingerprint for k in errors.kernels for f in k.findings]


def test_an_entry_for_a_kernel_leaves_others_alone():
    entry = Suppression(("participation",), "broken", "", "x")
    text = BAD + BAD.replace("broken", "other")
    found = report(text, suppress=(entry,))
    assert [len(kernel.findings) for kernel in found.kernels] == [0, 1]


def test_config_says_what_applies_and_why(folder):
    (folder / "warplint.toml").write_text(
        'arch = "sm_90a"\nlevels = {smem-race = "note"}\n[[overrides]]\npath = "k*.cu"\narch = "sm_100a"\n'
        '[[suppress]]\npath = "k.cu"\nrules = ["smem-race"]\nreason = "old"\n'
    )
    run = CliRunner().invoke(warplint, ["config", "k.cu", "bad.cu"])
    first, second = run.output.split("\nbad.cu\n")
    assert "arch       sm_100a" in first and "warplint.toml: override 1 (k*.cu)" in first
    assert "instead of sm_90a  warplint.toml" in first
    assert "smem-race: old  warplint.toml: suppress 1" in first
    assert "smem-race = note" in second and "suppress 1" not in second and "sm_100a" not in second
    data = json.loads(CliRunner().invoke(warplint, ["config", "k.cu", "--json"]).output)
    assert data["file"] == "warplint.toml"
    (row,) = [row for row in data["settings"][0]["values"] if row["key"] == "arch"]
    assert row["value"] == "sm_100a" and row["instead_of"][0]["value"] == "sm_90a"
    bare = CliRunner().invoke(warplint, ["config", "--no-config"])
    assert "settings file: none" in bare.output and "all rules" in bare.output


def test_paths_of_the_page_are_escaped(folder):
    Path("k.cu").write_text(COMMENTED.replace("ticket 12", "<script>alert(1)</script>"))
    page = lint("k.cu", "--format", "html")[1]
    assert "see <script>alert(1)" not in page


PIECES = [
    "// warplint: ignore[smem-race] x",
    "/* warplint: ignore-kernel[dispatch",
    "warplint:",
    "// warplint: ignore-file[]",
    "]*/",
    "\r\n",
    "\r",
    "\n",
    '"',
    'R"(',
    ')"',
    "\\\n",
    "\xff\xfe",
    "ü😀",
    "__global__ void k() {",
    "}",
    "#if 0\n",
    "#endif\n",
    "// warplint: \x00ignore[*]",
]


@given(strategies.lists(strategies.sampled_from(PIECES), max_size=12))
@hypothesis_settings(max_examples=150, deadline=None)
def test_any_text_is_read(pieces):
    data = b" ".join(piece.encode("latin-1" if "\xff" in piece else "utf-8") for piece in pieces)
    found = lint_bytes("k.cu", data, Settings())
    assert not found.problem
    lines = data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for finding in found.findings:
        units = lines[finding.location.line - 1].encode("utf-16-le")[2 * (finding.location.column - 1) :]
        assert units.decode("utf-16-le").startswith("warplint:")


def test_the_place_is_right_behind_bytes_that_are_no_text():
    data = b"// \xff\xff\xfe warplint: ignroe[x]\n" + BAD.encode()
    (finding,) = lint_bytes("k.cu", data, Settings()).findings
    assert (finding.location.line, finding.location.column) == (1, 8)
