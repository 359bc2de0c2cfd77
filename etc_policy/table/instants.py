"""Instants: `yyyyMMddHHmmssSSS` strings in the table's zone. Arithmetic goes through time, never the number.

See facts: instant-arithmetic.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache

#: How far two clocks may be apart before one of them is wrong, or of another time zone.
CLOCK_TOLERANCE = timedelta(minutes=1)
CLOCK_TOLERANCE_MS = CLOCK_TOLERANCE // timedelta(milliseconds=1)
#: So much later than another one may a write show itself that completed before it: clocks of writers differ, a store may
#: be slow, and where the timeline is in local time an hour comes twice.
SHOWN_WITHIN_MS = 3_600_000
DAY_MS = 86_400_000
_SECONDS_LENGTH, _LENGTH = 14, 17


def parse_instant(instant: str) -> datetime:
    """The wall-clock time of an instant, naive; instants of the old second grain get Hudi's `999` milliseconds.

    Services of a metadata table may have three digits more behind the time, which say which service it was.
    """
    text = instant + "999" if len(instant) == _SECONDS_LENGTH else instant[:_LENGTH]
    return datetime.fromisoformat(f"{text[:8]}T{text[8:14]}.{text[14:]}")  # naive on purpose: no zone in the name


def format_instant(wall_clock: datetime) -> str:
    """The instant of a naive wall-clock time, cut to milliseconds."""
    return wall_clock.strftime("%Y%m%d%H%M%S%f")[:17]


def add_ms(instant: str, milliseconds: int) -> str:
    """The instant that many milliseconds later (`...59999` + 1 carries into the minute)."""
    return format_instant(parse_instant(instant) + timedelta(milliseconds=milliseconds))


def shown_until(instant: str) -> str:
    """The completion up to which all writes showed themselves when this was the last one; empty without one."""
    return add_ms(instant, -SHOWN_WITHIN_MS) if instant else ""


@lru_cache(maxsize=1 << 14)  # file groups share the instants of their commits
def instant_to_ms(instant: str, zone: tzinfo, *, latest: bool = False) -> int:
    """Epoch milliseconds of an instant read in `zone`; in the hour that comes twice in autumn the earlier of both times.

    Where the later would be the careful reading, `latest` asks for that.
    """
    aware = parse_instant(instant).replace(tzinfo=zone, fold=int(latest))
    return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def had_passed(instant: str, at: str, zone: tzinfo) -> bool:
    """Whether an instant was over at another one, whichever of both times each is of in the hour that comes twice in autumn."""
    if instant > at:
        return False
    return instant <= shown_until(at) or instant_to_ms(instant, zone, latest=True) <= instant_to_ms(at, zone)


def instant_from_ms(epoch_ms: int, zone: tzinfo) -> str:
    """The instant of an epoch time in `zone`."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=epoch_ms)
    return format_instant(moment.astimezone(zone).replace(tzinfo=None))
