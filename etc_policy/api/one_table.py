"""One table's trouble never hides another's result: whatever goes wrong in a table is an error of that table.

Tables are read side by side, and what is made of the readings is made in the caller's thread, one table after the other: so
Spark is never asked by two at once. What went wrong in several tables is raised together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from time import monotonic
from traceback import clear_frames
from typing import TypeVar

from etc_policy.api.side_by_side import side_by_side
from etc_policy.errors import EtcError, ExitCode, SeveralErrors, TableError, worst
from etc_policy.errors.codes import Code
from etc_policy.policy.locations import is_catalog_name
from etc_policy.policy.manifest import Policy
from etc_policy.wiring import Environment

Result = TypeVar("Result")
Reading = TypeVar("Reading")
Progress = Callable[[str], None]

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


def raise_all(
    errors: Sequence[EtcError],
    codes: Iterable[ExitCode] = (),
    report: object = None,
    unwritten: Sequence[EtcError] = (),
) -> None:
    """Raise the gathered errors as one, with the report of what was done all the same; returns when there is no error.

    `unwritten` says which files of the report could not be written.
    """
    if errors or unwritten:
        raise SeveralErrors((*errors, *unwritten), worst(codes, errors, unwritten), report)


def errors_of(*works: Callable[[], None]) -> tuple[EtcError, ...]:
    """What goes wrong in the works; each is tried."""
    errors: list[EtcError] = []
    for work in works:
        try:
            work()
        except EtcError as error:
            errors.append(error)
    return tuple(errors)
