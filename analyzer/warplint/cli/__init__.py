"""The command line: `warplint lint`, `tree`, `handoffs`, `run`, `rules`, `explain`, and what goes with `lint`.

Exit codes are the same in every format: 0 clean, 1 findings at or above `--fail-on` (or, with `--strict`, a kernel that
could not be judged completely), 2 a usage error, a file that cannot be read, or a fault of warplint itself, reported
after all other files are done.
"""

from __future__ import annotations

import importlib
import io
import os
import sys

import click

from warplint import __version__

__all__ = ["main", "warplint"]

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


COMMANDS = {
    "lint": "lint:lint",
    "tree": "tree:tree",
    "handoffs": "handoffs:handoffs",
    "run": "run:run",
    "rules": "explain:list_rules",
    "explain": "explain:explain",
    "ops": "ops:list_operations",
    "dialects": "dialects:list_dialects",
    "baseline": "known:make_baseline",
    "merge": "merge:merge_reports",
    "config": "config:show_config",
    "completion": "editor:completion",
    "lsp": "editor:language_server",
}
"""Commands in the order of `--help`: the module of this package, and the command in it."""


class Commands(click.Group):
    """A group whose commands are imported when they are asked for: most runs need one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name; None when there is none."""
        if cmd_name not in COMMANDS:
            from difflib import get_close_matches

            if near := get_close_matches(cmd_name, COMMANDS, n=1):
                ctx.fail(f"there is no command {cmd_name!r}; did you mean {near[0]}?")
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        return getattr(importlib.import_module(f"warplint.cli.{module}"), name)


@click.group(cls=Commands, context_settings=CONTEXT)
@click.version_option(__version__, "-V", "--version", prog_name="warplint", message="%(prog)s %(version)s")
def warplint() -> None:
    """Read generated CUDA and HIP kernels and say whether their threads and hand-offs are right.

    Needs no GPU, no CUDA toolkit and no launch description. Start with

    \b
        warplint lint artifacts/*.cu

    and, for one kernel whose threads you want to see,

    \b
        warplint tree artifacts/gemm.cu

    and, when it hangs or its hand-offs are in doubt,

    
        warplint handoffs artifacts/gemm.cu
        warplint run artifacts/gemm.cu
    """


def main() -> int:
    """Run the command line on `sys.argv`; returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        # a source line may hold what the terminal's encoding cannot say
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        result = warplint.main(prog_name="warplint", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return 130
    except BrokenPipeError:
        # the reader (head, less) has seen enough; keep Python from complaining about it at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
