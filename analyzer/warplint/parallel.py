"""Many files at once: what the cache knows is read from it, the rest is analysed by several processes.

Reports come in the order of the inputs, whatever was done first. Every worker has a pipe of its own and holds one file
at a time, so that when one dies (a crash of the parser, the system short of memory) it is known which file it was
about: a new worker takes the place and tries once more; a file that costs two workers gets a problem, the others are
not touched.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any

from warplint.engine import Settings, check_rules, lint_bytes, lint_input
from warplint.finding import FileReport
from warplint.judge import internal

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from warplint.cache import Cache
    from warplint.discover import Input

WORTH_BYTES = 48_000
"""Source below which starting processes costs more than it saves (used when the number of processes is not given)."""


def cores() -> int:
    """Processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1


def lint_many(
    inputs: Sequence[Input],
    settings: Callable[[Input], Settings],
    jobs: int | None = 1,
    cache: Cache | None = None,
) -> Generator[FileReport, None, None]:
    """Analyse inputs under their settings; reports come in order, and are the same for every number of processes.

    `jobs` None: as many as there are processors, when the files are large enough. Raises UnknownRule.
    """
    ready, waiting = known_before(inputs, settings, cache)
    sizes = {index: size_of(inputs[index].path) for index in waiting}
    if jobs is None:
        jobs = cores() if sum(sizes.values()) >= WORTH_BYTES else 1
    jobs = min(jobs, len(waiting))
    if jobs < 2:
        for index, item in enumerate(inputs):
            yield ready[index] if index in ready else lint_cached(item, settings(item), cache)
        return
    # the largest first: what is left at the end is small, and no processor waits long for another
    queue = sorted(waiting, key=lambda index: (sizes[index], -index))
    for index in waiting:
        check_rules(settings(inputs[index]))
    with _Pool(jobs, cache) as pool:
        for index in range(len(inputs)):
            while index not in ready:
                while queue and (worker := pool.idle()):
                    following = queue.pop()
                    pool.give(worker, following, inputs[following], settings(inputs[following]))
                ready.update(pool.wait())
            yield ready.pop(index)


def known_before(
    inputs: Sequence[Input], settings: Callable[[Input], Settings], cache: Cache | None
) -> tuple[dict[int, FileReport], list[int]]:
    """Reports that need no analysis or no other process, by position; and the positions of the others."""
    ready: dict[int, FileReport] = {}
    waiting: list[int] = []
    for index, item in enumerate(inputs):
        if item.problem:
            ready[index] = FileReport(item.name, problem=item.problem)
        elif item.path == "-":
            ready[index] = lint_cached(item, settings(item), cache)  # only this process has the standard input
        elif known := _known(item, settings(item), cache):
            ready[index] = known
        else:
            waiting.append(index)
    return ready, waiting


def lint_cached(item: Input, settings: Settings, cache: Cache | None) -> FileReport:
    """`lint_input` that asks the cache first, and tells it."""
    if cache is None:
        return lint_input(item, settings)

    def analyse(path: str, data: bytes, chosen: Settings) -> FileReport:
        key = cache.key(path, data, chosen)
        report = cache.load(key, data)
        if report is None:
            report = lint_bytes(path, data, chosen)
            cache.store(key, report)
        return report

    return lint_input(item, settings, analyse)


def _known(item: Input, settings: Settings, cache: Cache | None) -> FileReport | None:
    """What the cache has about an input."""
    if cache is None:
        return None

    def look(path: str, data: bytes, chosen: Settings) -> FileReport:
        found = cache.load(cache.key(path, data, chosen), data)
        return FileReport(path, problem="not in the cache") if found is None else found

    report = lint_input(item, settings, look)
    return None if report.problem else report


def size_of(path: str) -> int:
    """Bytes of a file; 0 when that cannot be told."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


# -------------------------------------------------------------------------------------------------- processes
class _Worker:
    """A process, our end of its pipe, and what it is about."""

    def __init__(self, process: Any, pipe: Connection) -> None:
        self.process = process
        self.pipe = pipe
        self.index: int | None = None
        self.order: tuple[Input, Settings] | None = None


class _Pool:
    """A fixed number of workers, replaced when they die."""

    def __init__(self, size: int, cache: Cache | None) -> None:
        import multiprocessing

        # fork shares what is imported already; where it does not exist, workers import anew
        methods = multiprocessing.get_all_start_methods()
        self._context: Any = multiprocessing.get_context("fork" if "fork" in methods else "spawn")
        self._cache = cache
        self._workers: list[_Worker] = []
        self._died: set[int] = set()
        _import_all()
        for _ in range(size):
            self._start()

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.pipe.close()  # an idle worker leaves on its own
        for worker in self._workers:
            worker.process.join(0 if worker.index is not None else 1)
            if worker.process.is_alive():
                worker.process.terminate()
                worker.process.join(1)

    def idle(self) -> _Worker | None:
        """A worker with nothing to do."""
        return next((worker for worker in self._workers if worker.index is None), None)

    def give(self, worker: _Worker, index: int, item: Input, settings: Settings) -> None:
        """Let a worker analyse an input."""
        worker.index, worker.order = index, (item, settings)
        with contextlib.suppress(OSError):  # it died while idle: `wait` will see
            worker.pipe.send((item, settings))

    def wait(self) -> dict[int, FileReport]:
        """Reports of the workers that are done by now; waits for the next event, which may be a death."""
        from multiprocessing.connection import wait

        done: dict[int, FileReport] = {}
        busy = {worker.pipe: worker for worker in self._workers if worker.index is not None}
        for pipe in wait(list(busy)):
            worker = busy[pipe]  # type: ignore[index]
            assert worker.index is not None
            try:
                answer = worker.pipe.recv()
            except (EOFError, OSError):
                done.update(self._replaced(worker, worker.index))
            else:
                done[worker.index] = answer
                worker.index = None
        return done

    def _replaced(self, worker: _Worker, index: int) -> dict[int, FileReport]:
        """A new worker for a dead one, with the same file; a problem when this is the second that the file costs."""
        worker.pipe.close()
        worker.process.join(5)
        code = worker.process.exitcode
        self._workers.remove(worker)
        successor = self._start()
        assert worker.order is not None
        if index not in self._died:
            self._died.add(index)
            self.give(successor, index, *worker.order)
            return {}
        how = f"exit code {code}"
        if code is not None and code < 0:
            with contextlib.suppress(ValueError):
                how = signal.Signals(-code).name
        problem = f"the process that analysed it died twice ({how}), please report it"
        return {index: FileReport(worker.order[0].name, problem=problem)}

    def _start(self) -> _Worker:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError):
                stream.flush()  # or a forked worker would write it once more
        ours, theirs = self._context.Pipe()
        inherited = [worker.pipe for worker in self._workers] + [ours]
        process = self._context.Process(
            target=_work,
            args=(theirs, inherited if self._context.get_start_method() == "fork" else [], self._cache),
            daemon=True,
        )
        process.start()
        theirs.close()
        self._workers.append(_Worker(process, ours))
        return self._workers[-1]


def _work(pipe: Connection, inherited: Sequence[Connection], cache: Cache | None) -> None:
    """A worker's life: one input after the other, until the other end of the pipe is closed."""
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interruption means
    for other in inherited:
        other.close()  # held open, a parent that is killed would never be noticed
    while True:
        try:
            item, settings = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer = lint_cached(item, settings, cache)
        except Exception as error:
            answer = FileReport(item.name, problem=internal(error, "analysing the file"))
        try:
            pipe.send(answer)
        except (BrokenPipeError, ConnectionResetError):
            return


def _import_all() -> None:
    """Import what nearly every file needs, once, before processes are forked."""
    import gc

    import warplint.machine
    import warplint.program
    import warplint.syntax
    import warplint.threads  # noqa: F401

    gc.freeze()  # shared memory stays shared: the collector of a worker leaves it alone
