"""The command line: `warplint lint`, `tree`, `handoffs`, `run`, `rules`, `explain`.

Exit codes are the same in every format: 0 clean, 1 findings at or above `--fail-on` (or, with `--strict`, a kernel that
could not be judged completely), 2 a usage error, a file that cannot be read, or a fault of warplint itself, reported
after all other files are done.
"""

from __future__ import annotations

import io
import os
import sys

import click

from warplint import __version__
from warplint.cli.explain import explain, list_rules
from warplint.cli.handoffs import handoffs
from warplint.cli.lint import lint
from warplint.cli.run import run
from warplint.cli.tree import tree

__all__ = ["main", "warplint"]

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(context_settings=CONTEXT)
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


warplint.add_command(lint)
warplint.add_command(tree)
warplint.add_command(handoffs)
warplint.add_command(run)
warplint.add_command(list_rules)
warplint.add_command(explain)


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
