"""How verbs over many tables end: errors are gathered, then raised as one; of exit codes the one that says most counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from etc_policy.errors import EtcError, ExitCode, SeveralErrors


def raise_all(errors: Sequence[EtcError], codes: Iterable[ExitCode] = (), report: object = None) -> None:
    """Raise the gathered errors as one, with the report of what was done all the same; returns when there is no error."""
    if errors:
        raise SeveralErrors(errors, worst([*codes, *(error.exit_code for error in errors)]), report)


def worst(codes: Iterable[ExitCode]) -> ExitCode:
    """The exit code that says most: an engine's failure, then a failed verdict, then a retry."""
    order = (ExitCode.ENGINE, ExitCode.FAILED, ExitCode.RETRY, ExitCode.CHANGES)
    found = set(codes)
    return next((code for code in order if code in found), ExitCode.DONE)
