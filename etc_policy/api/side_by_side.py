"""Calls that run in threads, whose results come in the order in which they were given.

Threads, not processes: what is waited for is the file system. On a local disk nothing is gained, and a tenth of the
processor's time lost; where each access takes 5 ms, four threads read a hundred tables in a sixth of the time
(benchmarks/README.md).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from threading import Thread
from time import monotonic
from typing import Generic, TypeVar

Result = TypeVar("Result")
#: A call, and whether it may run beside others; else it runs in the caller's thread when its turn comes.
Call = tuple[Callable[[], Result], bool]
#: So many results for each thread are kept while an earlier one is waited for.
_AHEAD = 4
#: So soon Ctrl-C is noticed, whichever thread the system gives it to.
_TICK_SECONDS = 0.2


def side_by_side(calls: Iterable[Call[Result]], jobs: int, *, grace_seconds: float = 0.0) -> Iterator[Result]:
    """What each call returns, in their order; up to `jobs` of them run at once.

    No further call begins once the caller stops taking results, as it does on an interrupt. Those that run then have
    `grace_seconds` to end.
    """
    if jobs <= 1:
        yield from (call() for call, _ in calls)
        return
    threads, rest = _Threads[Result](jobs), iter(calls)
    waiting: deque[Callable[[], Result]] = deque()
    try:
        while True:
            while len(waiting) < _AHEAD * jobs and (given := next(rest, None)) is not None:
                call, beside = given
                waiting.append(partial(_result, threads.start(call)) if beside else call)
            if not waiting:
                return
            yield waiting.popleft()()
    finally:
        threads.close(grace_seconds)


def _result(future: Future[Result]) -> Result:
    """What a call returns; looked after now and then, as a signal that another thread has taken does not end this one's wait."""
    while not wait([future], timeout=_TICK_SECONDS).done:
        pass
    return future.result()


class _Threads(Generic[Result]):
    """Threads that end with the process: an interrupted command does not wait for what they still read."""

    def __init__(self, count: int) -> None:
        self._calls: SimpleQueue[tuple[Future[Result], Callable[[], Result]] | None] = SimpleQueue()
        self._closed = False
        self._threads = [Thread(target=self._work, daemon=True, name=f"table worker {n + 1}") for n in range(count)]
        for thread in self._threads:
            thread.start()

    def start(self, call: Callable[[], Result]) -> Future[Result]:
        """The future of a call, which sees what its caller's context holds."""
        future: Future[Result] = Future()
        self._calls.put((future, partial(copy_context().run, call)))
        return future

    def close(self, grace_seconds: float) -> None:
        """End each thread after the call that it is in, and wait so long for that."""
        self._closed = True
        for _ in self._threads:
            self._calls.put(None)
        until = monotonic() + grace_seconds
        for thread in self._threads:
            thread.join(max(0.0, until - monotonic()))

    def _work(self) -> None:
        while (given := self._calls.get()) is not None:
            future, call = given
            if self._closed:
                future.cancel()
                continue
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)
