"""How verbs over many tables end: errors are gathered, then raised as one; of exit codes the one that says most counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from etc_policy.errors import EtcError, ExitCode, SeveralErrors


def raise_all(
    errors: Sequence[EtcError],
    codes: Iterable[ExitCode] = (),
    report: object = None,
    unwritten: Sequence[EtcError] = (),
) -> None:
    """Raise the gathered errors as one, with the report of what was done all the same; returns when there is no error.

    `unwritten` says which files of the report could not be written: a failed verdict counts for more.
    """
    found = {*codes, *(error.exit_code for error in errors)}
    if ExitCode.FAILED not in found:
        found.update(error.exit_code for error in unwritten)
    if errors or unwritten:
        raise SeveralErrors((*errors, *unwritten), worst(found), report)


def errors_of(*works: Callable[[], None]) -> tuple[EtcError, ...]:
    """What goes wrong in the works; each is tried."""
    errors: list[EtcError] = []
    for work in works:
        try:
            work()
        except EtcError as error:
            errors.append(error)
    return tuple(errors)


def worst(codes: Iterable[ExitCode]) -> ExitCode:
    """The exit code that says most: an engine's failure, then a failed verdict, then a retry."""
    order = (ExitCode.ENGINE, ExitCode.FAILED, ExitCode.RETRY, ExitCode.CHANGES)
    found = set(codes)
    return next((code for code in order if code in found), ExitCode.DONE)
