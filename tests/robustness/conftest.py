"""A limit on processor time for each test: what hangs must fail, not stop the suite."""

from __future__ import annotations

import signal

import pytest

SECONDS = 40


class TooLong(BaseException):
    """Not an Exception: the engine turns those into problems of a file and would go on."""


@pytest.fixture(autouse=True)
def limited():
    def stop(signum, frame):
        raise TooLong(f"more than {SECONDS} s of processor time")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)
