"""One table's trouble never hides another's result: whatever goes wrong in a table is an error of that table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from traceback import clear_frames
from typing import TypeVar

from etc_policy.codes.registry import Code
from etc_policy.compile.manifest import Policy
from etc_policy.errors import EtcError, TableError, Where

Result = TypeVar("Result")


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
        hint = "the table may be damaged, or too large for this machine; `--debug` prints the stack"
        where = place(policy.source, policy.name)
        raise TableError(Code.TABLE_FAILED, message, where=where, hint=hint) from error


def each_table(
    policies: Iterable[Policy], work: Callable[[Policy], Result]
) -> tuple[tuple[Result, ...], tuple[EtcError, ...]]:
    """What the work gives for each policy where it succeeds, and the errors of the others."""
    results: list[Result] = []
    errors: list[EtcError] = []
    for policy in policies:
        try:
            with one_table(policy):
                results.append(work(policy))
        except EtcError as error:
            errors.append(error)
    return tuple(results), tuple(errors)


def place(source: str | None, name: str) -> Where | None:
    """A policy's `file:line:column` as a place."""
    if source is None:
        return None
    path, line, column = source.rsplit(":", 2)
    return Where(path, int(line), int(column), name)


def set_place(error: EtcError, policy: Policy) -> None:
    """Give the error the policy's place, where it has none of its own."""
    error.where = error.where or place(policy.source, policy.name)
