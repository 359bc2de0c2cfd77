"""Observers of a run of `etc apply`, such as tracing: entry points name them, and nothing of theirs is imported here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass

from etc_policy.errors import EtcError, ExitCode, Issue
from etc_policy.errors.codes import Code
from etc_policy.policy.locations import is_catalog_name
from etc_policy.policy.manifest import Policy
from etc_policy.report.check_titles import result_title
from etc_policy.report.report import coverage_text
from etc_policy.report.sync import NOT_DONE, complete_until
from etc_policy.run.results import TableResult
from etc_policy.storage.port import Requests
from etc_policy.table.formats import iso_time
from etc_policy.verify.catalog import offered
from etc_policy.verify.ports import ExpectationResult

#: Each entry point is a function of a `Warn` that gives an observer of one run, or None where it is not configured.
GROUP = "etc_policy.observers"
#: Takes what keeps an observer from its work and a hint, and says it as one warning.
Warn = Callable[[str, str], None]
GOES_ON = "the run goes on without it"


@dataclass(frozen=True, slots=True)
class ObservedTable:
    """A table of a run: its base path (None where only a catalog knows it), and at the end what was done and why that failed.

    `at` is when it began, or ended, in ISO 8601.
    """

    policy: str
    base_path: str | None
    at: str
    result: TableResult | None = None
    failure: str | None = None

    @property
    def complete_until(self) -> tuple[int | None, str | None]:
        """Up to when (epoch ms) RO is complete, and at which level that is proved; None where nothing is."""
        return (complete_until(self.result) if self.result else None) or (None, None)

    @property
    def checks(self) -> list[tuple[str, ExpectationResult, str | None]] | None:
        """The checks of the verification with their titles, and what each says or which rows alone it is about.

        None where nothing was verified.
        """
        if self.result is None or self.result.verification is None:
            return None
        found, coverage = self.result.verification.expectations, self.result.verification.coverage
        part = None if coverage is None else f"rows read: {coverage_text(coverage)}"
        rows = {name for name, one in offered().items() if one.source != "metadata"}
        return [(result_title(one), one, one.message or (part if one.expectation in rows else None)) for one in found]


class RunObserver:
    """One observer of one run. Several threads call its methods at once; a method may do nothing, and raises no error."""

    def step(self, name: str, policy: str | None) -> AbstractContextManager[object]:
        """Around a step of the run, of a policy's table where it is about one; steps are inside each other."""
        return nullcontext()

    def note(self, error: str | None, values: Mapping[str, str | int]) -> None:
        """What is known now of the step that goes on; with an error it has failed."""

    def table_begins(self, table: ObservedTable) -> None:
        """The work on a table begins."""

    def table_ends(self, table: ObservedTable) -> None:
        """It has ended; of a table without a result and a failure nothing was done, and it may not have begun."""


#: A server may send a byte now and then, for ever.
_REQUESTS, _SECONDS = Requests(), 30.0
Observe = Callable[[Warn], AbstractContextManager[RunObserver | None]]
_OBSERVERS: ContextVar[tuple[RunObserver, ...]] = ContextVar("observers", default=())


@contextmanager
def observed(warn: Callable[[Issue], None]) -> Iterator[None]:
    """Around a run: the observers that are configured are called; `warn` is called where one cannot do its work."""
    from importlib.metadata import entry_points

    def say(message: str, hint: str) -> None:
        warn(Issue(Code.NOT_OBSERVED, message, hint=hint, level="warning"))

    with ExitStack() as stack:
        makers: list[Observe] = [point.load() for point in entry_points(group=GROUP)]
        made = [stack.enter_context(make(say)) for make in makers]
        token = _OBSERVERS.set(tuple(one for one in made if one is not None))
        stack.callback(_OBSERVERS.reset, token)
        yield


def in_time(send: Callable[[], object]) -> None:
    """Do what an observer sends; the run does not wait for it longer than a while.

    Raises:
        TimeoutError: it took longer.

    """
    try:
        _REQUESTS.in_time(send, _SECONDS)
    except TimeoutError:
        raise TimeoutError(f"no whole answer within {_SECONDS:g} s") from None


@contextmanager
def step(name: str, policy: str | None = None) -> Iterator[None]:
    """Around a step of a run."""
    with ExitStack() as stack:
        for observer in _OBSERVERS.get():
            stack.enter_context(observer.step(name, policy))
        yield


def note(error: str | None = None, **values: str | int | None) -> None:
    """Add to this step what is known now."""
    for observer in _OBSERVERS.get():
        observer.note(error, {name: value for name, value in values.items() if value is not None})


def table_begins(policy: Policy, at_ms: int) -> None:
    """Tell that the work on a table begins."""
    for observer in _OBSERVERS.get():
        observer.table_begins(ObservedTable(policy.name, _base_path(policy), iso_time(at_ms)))


def table_ends(policy: Policy, result: TableResult | None, errors: list[EtcError], at_ms: int) -> None:
    """Tell how it ended."""
    for observer in _OBSERVERS.get():
        failure = _why_failed(result, errors)
        observer.table_ends(ObservedTable(policy.name, _base_path(policy), iso_time(at_ms), result, failure))


def _base_path(policy: Policy) -> str | None:
    return None if is_catalog_name(policy.table) else policy.table


def _why_failed(result: TableResult | None, errors: list[EtcError]) -> str | None:
    """Why the command fails for the table; None where it does not."""
    if result is not None and result.status in NOT_DONE:
        return result.reason or result.status
    if result is not None and result.verification and result.verification.exit_code != ExitCode.DONE:
        return f"verification: {result.verification.status} ({result.verification.failures})"
    return errors[0].message if errors else None
