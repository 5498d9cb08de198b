"""Writes reports so that a reader never sees half of one: into a temporary file beside the target, then renamed."""

from __future__ import annotations

import contextlib
import os
import tempfile


def write_atomically(path: str, text: str) -> None:
    """Write `text` as UTF-8 to `path`; what stood there stays until the new content is complete.

    Missing folders are made. A target that is no regular file (`/dev/stdout`, a pipe) is written to directly.
    Raises OSError.
    """
    data = text.encode("utf-8", "backslashreplace")
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):
        with open(target, "wb") as file:
            file.write(data)
        return
    folder = os.path.dirname(target)
    os.makedirs(folder, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{os.path.basename(target)}.", suffix=".tmp", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        # mkstemp makes private files; a report has the permissions that any new file of this user gets
        with contextlib.suppress(OSError):
            mode = os.stat(target).st_mode & 0o777 if os.path.exists(target) else 0o666 & ~_umask()
            os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
