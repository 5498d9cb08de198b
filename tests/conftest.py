"""No test reads or writes the cache of the user who runs it."""

import os
import signal

import pytest


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory):
    """A cache folder of the session's own, for commands that are started as well."""
    before = os.environ.get("WARPLINT_CACHE_DIR")
    os.environ["WARPLINT_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
    yield
    os.environ.pop("WARPLINT_CACHE_DIR")
    if before is not None:
        os.environ["WARPLINT_CACHE_DIR"] = before


# Where the tests run in the background of a shell, SIGINT is ignored, and so it would be in the processes they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
