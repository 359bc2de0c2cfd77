"""What the verbs of `Project` take: terms that select policies, moments and spans of time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime, timedelta

from etc_policy.api.moments import epoch_ms
from etc_policy.codes.registry import Code
from etc_policy.errors import UsageError
from etc_policy.policy.selection import split_terms
from etc_policy.wiring import clock_ms

Terms = str | Sequence[str]
Moment = datetime | int | None
File = str | os.PathLike[str]

#: Time between two looks of `wait` at the tables.
DEFAULT_POLL: timedelta = timedelta(seconds=10)


def terms_of(given: Terms) -> tuple[str, ...]:
    """The terms of a selection, each once."""
    return split_terms([given] if isinstance(given, str) else list(given))


def selected_terms(given: Terms) -> tuple[str, ...]:
    """The terms of what is selected; none only where nothing was given (an empty tuple), which means every policy.

    Raises:
        UsageError: what was given is empty, mostly a variable that is not set, or a list of what is due.

    """
    terms = terms_of(given)
    if not terms and given != ():
        hint = "name policies; to mean all of them leave the selection out"
        raise UsageError(Code.BAD_SELECTION, "the selection is empty: it has no term", hint=hint)
    return terms


def moment_ms(moment: Moment) -> int:
    """Epoch milliseconds; None is now, and a time without a zone is UTC as on the command line."""
    if moment is None:
        return clock_ms()
    return moment if isinstance(moment, int) else epoch_ms(moment)


def span_ms(span: timedelta) -> int:
    """The span in whole milliseconds."""
    return span // timedelta(milliseconds=1)
