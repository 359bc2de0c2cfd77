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
from typing import Any, Generic, TypeVar, overload

from etc_policy.errors import EtcError, SeveralErrors, TableError, is_panic, let_go, worst
from etc_policy.errors.codes import Code
from etc_policy.policy.locations import is_catalog_name
from etc_policy.policy.manifest import Policy
from etc_policy.wiring import Environment, no_garbage_collection

Result = TypeVar("Result")
Reading = TypeVar("Reading")
#: A call, and whether it may run beside others; else it runs in the caller's thread when its turn comes.
Call = tuple[Callable[[], Result], bool]
#: So many results for each thread are kept while an earlier one is waited for.
_AHEAD = 4
#: So soon Ctrl-C is noticed, whichever thread the system gives it to.
_TICK_SECONDS = 0.2

#: How often a long reading of many tables says how far it is.
_SAID_EVERY_SECONDS = 5.0


@contextmanager
def table_errors(policy: Policy) -> Iterator[None]:
    """What goes wrong in the block is an EtcError at the policy's place, whatever it was.

    Raises:
        EtcError: something in the block failed.

    """
    try:
        yield
    except EtcError as error:
        let_go(error)
        set_place(error, policy)
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        said = " ".join(str(error).split())[:200]
        let_go(error)
        message = f"`{policy.name}` cannot be worked on: {type(error).__name__}{f': {said}' if said else ''}"
        hint = _what_to_look_at(error)
        raise TableError(Code.TABLE_FAILED, message, where=policy.place, hint=hint) from error


def _what_to_look_at(error: BaseException) -> str:
    """The file that the system refused, which need not be the table's; else the table."""
    name = error.filename if isinstance(error, OSError) else None
    what = f"see that this user may use `{name}`" if name else "the table may be damaged, or too large for this machine"
    return f"{what}; `--debug` prints the stack"


def by_release(environment: Environment, policies: Iterable[Policy]) -> Iterator[tuple[Policy, ...]]:
    """The policies whose tables one release of Hudi takes, then those of the next, in the order of their first.

    Until the next are asked for Spark has that release. A table that cannot be read is with those that any takes.
    """
    groups: dict[str | None, list[Policy]] = {}
    chosen = tuple(policies)
    releases, _ = each_table(environment, chosen, environment.release_of, lambda *_: None)
    for policy, release in zip(chosen, releases, strict=True):
        groups.setdefault(release, []).append(policy)
    for release, found in groups.items():
        with environment.with_release(release):
            yield tuple(found)


Entries = tuple[tuple[Result, ...], tuple[EtcError, ...]]


@overload
def each_table(
    environment: Environment,
    policies: Iterable[Policy],
    read: Callable[[Policy], Result],
    instead: Callable[[Policy, EtcError], Result],
    *,
    in_turn: bool = False,
) -> Entries[Result]: ...
@overload
def each_table(
    environment: Environment,
    policies: Iterable[Policy],
    read: Callable[[Policy], Reading],
    instead: Callable[[Policy, EtcError], Result],
    use: Callable[[Policy, Reading], Result],
    *,
    jobs: int | None = None,
) -> Entries[Result]: ...
def each_table(
    environment: Environment,
    policies: Iterable[Policy],
    read: Callable[[Policy], Any],
    instead: Callable[[Policy, EtcError], Any],
    use: Callable[[Policy, Any], Any] = lambda _, found: found,
    *,
    jobs: int | None = None,
    in_turn: bool = False,
) -> Entries[Any]:
    """An entry for each table, in the policies' order, and the errors.

    An entry is what `use` makes of what was read of the table, or `instead` of the table's error. `read` runs for up to `jobs`
    tables at once (those of the environment), so it may not ask Spark; for a table that only a catalog knows it runs in this
    thread, as `use` always does. With `in_turn` all do, each when its policy is taken.
    """
    entries: list[Any] = []
    errors: list[EtcError] = []
    readings = _in_turn(policies, read) if in_turn else _read(environment, tuple(policies), read, jobs)
    for policy, reading in readings:
        outcome = reading if isinstance(reading, EtcError) else _outcome(policy, partial(use, policy, reading))
        if isinstance(outcome, EtcError):
            errors.append(outcome)
            outcome = instead(policy, outcome)
        entries.append(outcome)
    return tuple(entries), tuple(errors)


def _in_turn(
    policies: Iterable[Policy], read: Callable[[Policy], Reading]
) -> Iterator[tuple[Policy, Reading | EtcError]]:
    return ((policy, _outcome(policy, partial(_without_garbage, read, policy))) for policy in policies)


def _read(
    environment: Environment, policies: Sequence[Policy], read: Callable[[Policy], Reading], jobs: int | None
) -> Iterator[tuple[Policy, Reading | EtcError]]:
    """Each policy with what was read, some of them at once; a long reading says how far it is."""
    calls = (
        (partial(_outcome, policy, partial(_without_garbage, read, policy)), not is_catalog_name(policy.table))
        for policy in policies
    )
    readings = side_by_side(calls, min(environment.jobs if jobs is None else jobs, len(policies)))
    due = monotonic() + _SAID_EVERY_SECONDS
    for number, (policy, reading) in enumerate(zip(policies, readings, strict=True), 1):
        if monotonic() >= due:
            environment.progress(f"{policy.name}: read, {number} of {len(policies)} tables")
            due = monotonic() + _SAID_EVERY_SECONDS
        yield policy, reading


def _outcome(policy: Policy, work: Callable[[], Result]) -> Result | EtcError:
    try:
        with table_errors(policy):
            return work()
    except EtcError as error:
        return error


def _without_garbage(read: Callable[[Policy], Reading], policy: Policy) -> Reading:
    with no_garbage_collection():
        return read(policy)


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
            let_go(error)
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
