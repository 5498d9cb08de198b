"""Completion, as shells ask for it."""

import os
import re
import shutil
import subprocess
import sys

import pytest
from click import Context


def run(*arguments, **variables):
    environment = {**os.environ, **variables}
    return subprocess.run(
        [sys.executable, "-m", "warplint", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
    )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script(shell, tmp_path):
    done = run("completion", shell)
    assert done.returncode == 0 and "_WARPLINT_COMPLETE" in done.stdout
    if shutil.which(shell):
        (tmp_path / "script").write_text(done.stdout)
        assert subprocess.run([shell, "-n", tmp_path / "script"], check=False).returncode == 0


@pytest.mark.parametrize(
    ("words", "number", "expected"),
    [
        ("warplint ", 1, {"lint", "baseline", "merge", "config", "lsp"}),
        ("warplint lint --bas", 2, {"--baseline"}),
        ("warplint lint --select smem-ra", 3, {"smem-race"}),
        ("warplint lint --ignore dispatch,smem-ra", 3, {"dispatch,smem-race"}),
        ("warplint explain mbarrier-init", 2, {"mbarrier-init-in-role-branch"}),
    ],
)
def test_answers(words, number, expected):
    done = run(_WARPLINT_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(number))
    found = {line.partition(",")[2] for line in done.stdout.splitlines()}
    assert expected <= found, done


def test_help_of_every_command():
    listed = run("--help").stdout
    for command in ("lint", "baseline", "merge", "config", "completion", "lsp"):
        assert command in listed
        done = run(command, "--help")
        assert done.returncode == 0 and len(done.stdout) > 200


@pytest.mark.parametrize("name", ["lint", "baseline"])
def test_help_shows_every_option_once_and_in_a_section(name):
    from warplint.cli import warplint
    from warplint.cli.help import SECTIONS

    page = run(name, "--help").stdout
    command = warplint.get_command(Context(warplint), name)
    assert command is not None
    listed = [one for names in SECTIONS.values() for one in names]
    assert len(listed) == len(set(listed))
    for param in command.params:
        if param.param_type_name == "option":
            long = max(param.opts, key=len)
            assert len(re.findall(rf"^  (?:-\w, )?{long}\b(?!-)", page, re.M)) == 1, long
            assert param.name in listed or name == "baseline", f"{param.name} has no section"
    assert page.index("Which findings:") < page.index("Reports:") < page.index("Many files:")
    assert all(len(line) <= 100 for line in page.splitlines())


def test_every_command_is_there_and_called_so():
    from warplint.cli import COMMANDS, warplint

    context = Context(warplint)
    for name in COMMANDS:
        command = warplint.get_command(context, name)
        assert command is not None and command.name == name
        assert command.get_short_help_str()
    assert run("nonsense").returncode == 2
    done = run("lnit")
    assert done.returncode == 2 and "did you mean lint?" in done.stderr


def test_a_command_imports_no_other():
    program = "import sys; from warplint.cli import warplint; import click\n"
    program += "warplint.get_command(click.Context(warplint), 'merge')\nprint(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "warplint.cli.merge" in done.stdout and "warplint.cli.handoffs" not in done.stdout
