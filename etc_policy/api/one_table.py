"""One table's trouble never hides another's result: whatever goes wrong in a table is an error of that table.

Tables are read side by side, and what is made of the readings is made in the caller's thread, one table after the other: so
Spark is never asked by two at once. What went wrong in several tables is raised together.

Threads, not processes: what is waited for is the file system. On a local disk nothing is gained, and a tenth of the
processor's time lost; where each access takes 5 ms, four threads read a hundred tables in a sixth of the time
(benchmarks/README.md).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from threading import Thread
from time import monotonic
from traceback import clear_frames
from typing import Generic, TypeVar

from etc_policy.errors import EtcError, SeveralErrors, TableError, worst
from etc_policy.errors.codes import Code
from etc_policy.policy.locations import is_catalog_name
from etc_policy.policy.manifest import Policy
from etc_policy.wiring import Environment

Result = TypeVar("Result")
Reading = TypeVar("Reading")
Progress = Callable[[str], None]
#: A call, and whether it may run beside others; else it runs in the caller's thread when its turn comes.
Call = tuple[Callable[[], Result], bool]
#: So many results for each thread are kept while an earlier one is waited for.
_AHEAD = 4
#: So soon Ctrl-C is noticed, whichever thread the system gives it to.
_TICK_SECONDS = 0.2

#: How often a long reading of many tables says how far it is.
_SAID_EVERY_SECONDS = 5.0


@contextmanager
def one_table(policy: Policy) -> Iterator[None]:
    """What goes wrong in the block is an EtcError at the policy's place, whatever it was.

    Raises:
        EtcError: something in the block failed.

    """
    try:
        yield
    except EtcError as error:
        set_place(error, policy)
        raise
    except Exception as error:
        clear_frames(error.__traceback__)  # they hold what was read of the table, perhaps all of memory
        said = " ".join(str(error).split())[:200]
        message = f"`{policy.name}` cannot be worked on: {type(error).__name__}{f': {said}' if said else ''}"
        hint = _what_to_look_at(error)
        raise TableError(Code.TABLE_FAILED, message, where=policy.place, hint=hint) from error


def _what_to_look_at(error: Exception) -> str:
    """The file that the system refused, which need not be the table's; else the table."""
    name = error.filename if isinstance(error, OSError) else None
    what = f"see that this user may use `{name}`" if name else "the table may be damaged, or too large for this machine"
    return f"{what}; `--debug` prints the stack"


def entries_of(
    outcomes: Iterable[tuple[Policy, Result | EtcError]], instead: Callable[[Policy, EtcError], Result]
) -> tuple[tuple[Result, ...], tuple[EtcError, ...]]:
    """An entry for each table, which is what `instead` makes of its error where it has one; and the errors."""
    entries: list[Result] = []
    errors: list[EtcError] = []
    for policy, found in outcomes:
        if isinstance(found, EtcError):
            errors.append(found)
            entries.append(instead(policy, found))
        else:
            entries.append(found)
    return tuple(entries), tuple(errors)


def one_by_one(
    policies: Iterable[Policy], work: Callable[[Policy], Result]
) -> Iterator[tuple[Policy, Result | EtcError]]:
    """Each policy with what the work gives, or with the table's error; one table after the other, in this thread."""
    return ((policy, _attempt(policy, partial(work, policy))) for policy in policies)


def readings_of(
    environment: Environment, policies: Iterable[Policy], read: Callable[[Policy], Result]
) -> Iterator[tuple[Policy, Result | EtcError]]:
    """As `outcomes_of`, where nothing more is made of what was read."""
    return outcomes_of(policies, read, lambda _, found: found, environment.jobs, environment.progress)


def by_release(environment: Environment, policies: Iterable[Policy]) -> Iterator[tuple[Policy, ...]]:
    """The policies whose tables one release of Hudi takes, then those of the next, in the order of their first.

    Until the next are asked for Spark has that release. A table that cannot be read is with those that any takes.
    """
    groups: dict[str | None, list[Policy]] = {}
    for policy, release in readings_of(environment, policies, environment.release_of):
        groups.setdefault(None if isinstance(release, EtcError) else release, []).append(policy)
    for release, found in groups.items():
        with environment.with_release(release):
            yield tuple(found)


def outcomes_of(
    policies: Iterable[Policy],
    read: Callable[[Policy], Reading],
    use: Callable[[Policy, Reading], Result],
    jobs: int,
    progress: Progress,
) -> Iterator[tuple[Policy, Result | EtcError]]:
    """Each policy, in their order, with what `use` makes of what was read of its table, or with the table's error.

    `read` runs for up to `jobs` tables at once, so it may not ask Spark; for a table that only a catalog knows it runs in
    this thread, as `use` always does.
    """
    chosen = tuple(policies)
    calls = ((partial(_attempt, policy, partial(read, policy)), not is_catalog_name(policy.table)) for policy in chosen)
    readings = side_by_side(calls, min(jobs, len(chosen)))
    due = monotonic() + _SAID_EVERY_SECONDS
    for number, (policy, reading) in enumerate(zip(chosen, readings, strict=True), 1):
        if monotonic() >= due:
            progress(f"{policy.name}: read, {number} of {len(chosen)} tables")
            due = monotonic() + _SAID_EVERY_SECONDS
        if isinstance(reading, EtcError):
            yield policy, reading
        else:
            yield policy, _attempt(policy, partial(use, policy, reading))


def _attempt(policy: Policy, work: Callable[[], Result]) -> Result | EtcError:
    try:
        with one_table(policy):
            return work()
    except EtcError as error:
        return error


def set_place(error: EtcError, policy: Policy) -> None:
    """Give the error the policy's place; one of its own stays, with the policy's name."""
    if error.where is None:
        error.where = policy.place
    elif error.where.object_name is None:
        error.where = replace(error.where, object_name=policy.name)


def raise_all(errors: Sequence[EtcError], unwritten: Sequence[EtcError], report: object) -> None:
    """Raise the gathered errors as one, with the report of what was done all the same; returns when there is no error.

    `unwritten` says which files of the report could not be written.
    """
    if errors or unwritten:
        raise SeveralErrors((*errors, *unwritten), worst((), errors, unwritten), report)


def errors_of(*works: Callable[[], None]) -> tuple[EtcError, ...]:
    """What goes wrong in the works; each is tried."""
    errors: list[EtcError] = []
    for work in works:
        try:
            work()
        except EtcError as error:
            errors.append(error)
    return tuple(errors)


def side_by_side(calls: Iterable[Call[Result]], jobs: int, *, grace_seconds: float = 0.0) -> Iterator[Result]:
    """What each call returns, in their order; up to `jobs` of them run at once.

    No further call begins once the caller stops taking results, as it does on an interrupt. Those that run then have
    `grace_seconds` to end.
    """
    if jobs <= 1:
        for call, _ in calls:
            yield call()
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
