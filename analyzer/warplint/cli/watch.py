"""`warplint lint --watch`: analyse again whenever a source or the settings change."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

import click

from warplint.discover import SKIPPED_FOLDERS, STDIN, SUFFIXES, display_name

SETTINGS = ("warplint.toml", "pyproject.toml")


def watch(paths: tuple[str, ...], once: Callable[[], int], others: tuple[str, ...]) -> int:
    """Run `once` now and after each change, until interrupted (exit code 130). `others` are files besides the inputs
    that matter (settings, a baseline). Raises UsageError without the library, or for standard input.
    """
    if STDIN in paths:
        raise click.UsageError("--watch: standard input cannot be watched")
    try:
        from watchfiles import watch as changes
    except ModuleNotFoundError as error:
        raise click.UsageError("--watch needs watchfiles: pip install 'warplint[watch]'") from error
    named = {os.path.realpath(path) for path in (*paths, *others) if os.path.isfile(path)}

    def concerns(_: object, path: str) -> bool:
        name = os.path.basename(path)
        if os.path.realpath(path) in named or name in SETTINGS:
            return True
        return name.lower().endswith(SUFFIXES) and not SKIPPED_FOLDERS & set(path.split(os.sep))

    _shown(once)
    folders = sorted(set(_folders((*paths, *others))))
    for changed in changes(*folders, watch_filter=concerns, debounce=400, step=50):
        names = sorted({display_name(path) for _, path in changed})
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        click.echo(f"\nwarplint: {names[0]}{more} changed", err=True)
        _shown(once)
    return 0


def _shown(once: Callable[[], int]) -> None:
    """A run whose wrong settings are said and not the end: they are being edited."""
    try:
        once()
    except click.ClickException as error:
        error.show()
    sys.stdout.flush()


def _folders(paths: tuple[str, ...]) -> Iterator[str]:
    """The folders to watch: of files their own, for editors write a new file and rename it; of patterns their root."""
    for path in paths:
        while any(mark in path for mark in "*?[") and not os.path.exists(path):
            path = os.path.dirname(path) or "."
        folder = path if os.path.isdir(path) else os.path.dirname(path) or "."
        if os.path.isdir(folder):
            yield folder
