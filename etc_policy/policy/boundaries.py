"""The boundaries of `strategy.at`: times of day by the clock of a zone, `00:00 Europe/Paris` (pure)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)
_MS = timedelta(milliseconds=1)
#: Some days from the ends of the calendar, where no zone leads out of it.
_FIRST, _LAST = datetime(1, 1, 8, tzinfo=UTC), datetime(9999, 12, 24, tzinfo=UTC)
_TIME_PATTERN = "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_TIME = re.compile(_TIME_PATTERN)
#: What editors accept.
BOUNDARIES_PATTERN = rf"^\s*(?:{_TIME_PATTERN}\s+)+[A-Za-z][A-Za-z0-9_+/-]*\s*$"


@dataclass(frozen=True)
class Boundaries:
    """The times of day, sorted, and their zone.

    Of a time that the clock shows twice on a day it is the first. One that it skips lies as far after the last reading before
    the gap: `02:30` is what the clock then shows as `03:30`.
    """

    times: tuple[time, ...]
    zone: ZoneInfo

    @property
    def longest_ms(self) -> int:
        """From one boundary to the next at most, on days without a change of the clock."""
        minutes = [one.hour * 60 + one.minute for one in self.times]
        return max(after - before for before, after in pairwise([*minutes, minutes[0] + 24 * 60])) * 60_000

    def last_ms(self, at_ms: int) -> int:
        """The last boundary at or before an epoch time; the time itself where the calendar has none."""
        return max((one for one in self._around(at_ms) if one <= at_ms), default=at_ms)

    def next_ms(self, at_ms: int) -> int:
        """The first boundary after an epoch time; the next millisecond where the calendar has none."""
        return min((one for one in self._around(at_ms) if one > at_ms), default=at_ms + 1)

    def _around(self, at_ms: int) -> list[int]:
        moment = _EPOCH + min(max(at_ms * _MS, _FIRST - _EPOCH), _LAST - _EPOCH)
        day = moment.astimezone(self.zone).date()
        days = (day + number * _DAY for number in range(-2, 3))
        moments = (datetime.combine(one, at, self.zone) for one in days for at in self.times)
        return [(moment - _EPOCH) // _MS for moment in moments]


def parse_boundaries(text: str) -> Boundaries:
    """The boundaries that a text such as `00:00 12:00 Europe/Paris` means.

    Raises:
        ValueError: a time is not one of 00:00 to 23:59 or is there twice, or the zone is missing or not known.

    """
    *times, name = text.split() or [""]
    for one in times:
        if not _TIME.fullmatch(one):
            raise ValueError(f"`{one[:60]}` is not a time of day from `00:00` to `23:59`; write `00:00 Europe/Paris`")
    if not times or _TIME.fullmatch(name):
        raise ValueError(f"`{text[:60]}` needs times of day and a zone after them; write `00:00 Europe/Paris`")
    if len(set(times)) < len(times):
        raise ValueError(f"a time is twice in `{text[:60]}`; write each once")
    return Boundaries(tuple(time.fromisoformat(one) for one in sorted(times)), zone_of(name))


def zone_of(name: str) -> ZoneInfo:
    """The zone that the IANA has given the name.

    Raises:
        ValueError: no zone has the name.

    """
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"`{name[:60]}` is not a zone; write one such as `UTC` or `Europe/Paris`") from None
