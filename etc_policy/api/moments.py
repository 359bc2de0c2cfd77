"""Which moments may count as now, or be waited for: what the command line and Python's verbs ask of a time alike."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta

from etc_policy.table.formats import iso_time
from etc_policy.table.instants import CLOCK_TOLERANCE_MS
from etc_policy.wiring import clock_ms

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Years 1000 to 8999: a time that a `data_latency` or an hour of some zone can be added to or taken from.
_FIRST_MS, _END_MS = -30_610_224_000_000, 221_845_392_000_000
#: Dates without punctuation, by their number of digits.
_DATES = {4: "%Y", 6: "%Y%m", 8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
_NEAR_YEARS = range(1900, 2200)
#: From 2001 to 2286.
_DIGITS_OF_SECONDS = 10


def epoch_ms(moment: datetime) -> int:
    """Epoch milliseconds; a time without a zone is UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - EPOCH) // timedelta(milliseconds=1)


def moment_fault(moment: datetime | int, *, may_be_future: bool = False) -> str | None:
    """Why a moment cannot be used, in words that follow its name; None where it can. A number is epoch milliseconds."""
    if isinstance(moment, int) and (other := _other_reading(str(moment))):
        return f"is ambiguous: {iso_time(moment)} in epoch milliseconds, or {other}; write one of them"
    moment_ms = moment if isinstance(moment, int) else epoch_ms(moment)
    if not _FIRST_MS <= moment_ms < _END_MS:
        return "does not lie between the years 1000 and 8999"
    if not may_be_future and moment_ms > clock_ms() + CLOCK_TOLERANCE_MS:
        return "lies in the future: nobody knows what will have arrived by then"
    return None


def _other_reading(digits: str) -> str | None:
    """What a number that is read as milliseconds may have been meant for: a date of a near century, or seconds."""
    form = _DATES.get(len(digits))
    if form is not None:
        with suppress(ValueError):
            moment = datetime.strptime(digits, form).replace(tzinfo=UTC)
            if moment.year in _NEAR_YEARS:
                return f"{moment.isoformat().replace('+00:00', 'Z')} as a date"
    if len(digits) == _DIGITS_OF_SECONDS and not digits.startswith("-"):
        return f"{iso_time(int(digits) * 1000)} in epoch seconds"
    return None
