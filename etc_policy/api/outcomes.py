"""How verbs over many tables end: errors are gathered, then raised as one; of exit codes the one that says most counts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from etc_policy.errors import EtcError, ExitCode, SeveralErrors


def raise_all(
    errors: Sequence[EtcError],
    codes: Iterable[ExitCode] = (),
    report: object = None,
    unwritten: Sequence[EtcError] = (),
) -> None:
    """Raise the gathered errors as one, with the report of what was done all the same; returns when there is no error.

    `unwritten` says which files of the report could not be written.
    """
    found = [*codes, *(error.exit_code for error in errors)]
    if errors or unwritten:
        raise SeveralErrors((*errors, *unwritten), code_with_unwritten(found, unwritten), report)


def code_with_unwritten(codes: Collection[ExitCode], unwritten: Iterable[EtcError]) -> ExitCode:
    """The code that says most: a failed verdict says more than a report that could not be written."""
    return worst(codes if ExitCode.FAILED in codes else [*codes, *(error.exit_code for error in unwritten)])


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
