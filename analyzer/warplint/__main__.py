"""`python -m warplint` and the `warplint` script. `--version` answers before anything is imported."""

import os
import sys


def run() -> None:
    """`main` as a process of its own: leaves with its exit code, without taking every module and object apart first."""
    code = main()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            code = code or 2  # closed, or a full disk: what was to be said is lost
    os._exit(code)


def main() -> int:
    """Run the command line; returns the exit code (0 clean, 1 findings, 2 usage or input error)."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from warplint import __version__

        print(f"warplint {__version__}")
        return 0
    import gc

    gc.disable()  # imports and analysis make few cycles; the engine collects between files
    from warplint.cli import main as run

    code = run()
    gc.freeze()  # the process ends here: nothing is worth a last collection
    return code


if __name__ == "__main__":
    run()
