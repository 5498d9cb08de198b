"""Very many files on an existing Dask cluster (extra `warplint[dask]`).

The files' bytes travel with the tasks, a bounded number at a time; reports come in the order of the inputs and go into
the cache of the machine that asks. A task whose worker dies is given to another one by the scheduler; a file that costs
several workers becomes a problem of its own. Workers need the same warplint, which each task checks, and headers under
the same absolute paths where files include any.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from warplint.cache import Cache, stamp
from warplint.engine import Settings, check_rules, lint_bytes, lint_input
from warplint.finding import FileReport
from warplint.parallel import known_before, size_of

if TYPE_CHECKING:
    from warplint.discover import Input

AHEAD = 4
"""Tasks in flight for each thread of the cluster."""
PATIENCE = 30
"""Seconds for the scheduler to answer."""
_one_at_a_time = Lock()


class ClusterError(ValueError):
    """The cluster cannot be used; the message says why."""


def lint_on_cluster(
    inputs: Sequence[Input], settings: Callable[[Input], Settings], scheduler: str, cache: Cache | None
) -> Generator[FileReport, None, None]:
    """Analyse inputs on the cluster of a scheduler's address. Raises ClusterError and UnknownRule."""
    from distributed import Client, as_completed
    from distributed.client import FutureCancelledError
    from distributed.scheduler import KilledWorker

    ready, waiting = known_before(inputs, settings, cache)
    for index in waiting:
        check_rules(settings(inputs[index]))
    queue = sorted(waiting, key=lambda index: (size_of(inputs[index].path), -index))
    try:
        client: Any = Client(scheduler, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise ClusterError(f"the Dask scheduler {scheduler} does not answer: {error}") from error
    ours = stamp(cache.folder if cache else "").hex()
    with client:
        threads = sum(client.nthreads().values())
        if not threads and queue:
            raise ClusterError(f"the Dask scheduler {scheduler} has no workers")
        done = as_completed(loop=client.loop)
        running: dict[Any, int] = {}
        for index in range(len(inputs)):
            while index not in ready:
                while queue and len(running) < AHEAD * threads:
                    following = queue.pop()
                    future = _submit(client, inputs[following], settings(inputs[following]), ours, following)
                    if isinstance(future, FileReport):
                        ready[following] = future
                        continue
                    running[future] = following
                    done.add(future)
                if index in ready:
                    break
                future = next(done)
                at = running.pop(future)
                try:
                    ready[at] = future.result()
                except KilledWorker:
                    text = "the workers that analysed it died, please report it"
                    ready[at] = FileReport(inputs[at].name, problem=text)
                except (FutureCancelledError, OSError) as error:
                    raise ClusterError(f"the Dask scheduler {scheduler} is gone: {error}") from error
                future.release()
                if cache is not None and not ready[at].problem:
                    cache.store(cache.key(inputs[at].name, ready[at].data, settings(inputs[at])), ready[at])
            yield ready.pop(index)


def _submit(client: Any, item: Input, settings: Settings, ours: str, index: int) -> Any:
    """The future of a file's report; the report itself where the file cannot be read."""
    read: list[tuple[str, bytes, Settings]] = []

    def take(name: str, data: bytes, chosen: Settings) -> FileReport:
        if chosen.folder:
            chosen = replace(chosen, folder=os.path.abspath(chosen.folder))
        read.append((name, data, replace(chosen, include=tuple(map(os.path.abspath, chosen.include)))))
        return FileReport(name)

    report = lint_input(item, settings, take)
    if not read:
        return report
    return client.submit(task, *read[0], ours, key=f"warplint-{os.getpid()}-{id(client)}-{index}", pure=False)


def task(name: str, data: bytes, settings: Settings, expected: str) -> FileReport:
    """What a worker does. The analysis is not made for threads: those of one worker take turns."""
    with _one_at_a_time:
        if stamp("").hex() != expected:
            return FileReport(name, problem="the worker has another warplint, or other packs, than this machine")
        return lint_bytes(name, data, settings)
