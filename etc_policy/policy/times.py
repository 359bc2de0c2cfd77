"""Times by the clock of a zone (pure): the boundaries of `strategy.at`, and what time the name of a partition is about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from functools import cached_property, partial
from itertools import pairwise
from typing import NamedTuple
from urllib.parse import unquote
from zoneinfo import ZoneInfo

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK, _MS, _DAY = timedelta(microseconds=1), timedelta(milliseconds=1), timedelta(days=1)
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


_DIRECTIVE = re.compile(r"%(.)|(\*)", re.DOTALL)
#: How many digits each directive has; the shorter form counts only where something else stands between two of them.
_DIGITS = {"Y": (4, 4), "m": (1, 2), "d": (1, 2), "j": (1, 3), "H": (1, 2), "M": (1, 2), "s": (1, 11)}
#: What each directive needs beside it to be a point in time.
_NEEDS = {"m": "Y", "d": "m", "j": "Y", "H": "dj", "M": "H"}
#: In one folder: with more of them a name could be read in so many ways that a look at it takes for ever.
_MOST_STARS = 2
#: The finest first.
_UNITS = "sMHjdmY"
_FIXED_MS = {"M": 60_000, "H": 3_600_000, "j": 86_400_000, "d": 86_400_000, "s": 1}
_WORDS = {"M": "a minute", "H": "an hour", "j": "a day", "d": "a day", "m": "a month", "Y": "a year", "s": "a second"}


#: How paths mostly name hours, days and months, the longest first.
_USUAL = (
    "year=%Y/month=%m/day=%d",
    "%Y/%m/%d/%H",
    "%Y/%m/%d",
    "%Y-%m-%d-%H",
    "%Y-%m-%d",
    "%Y%m%d%H",
    "%Y%m%d",
    "year=%Y/month=%m",
    "%Y/%m",
    "%Y-%m",
    "%Y%m",
)


#: A folder that names an hour, in one of a day.
_HOUR = re.compile(r"(hour|hr|hh|h)=\d{2}", re.IGNORECASE)


class Span(NamedTuple):
    """The time that a partition is about, in epoch milliseconds: from `begins_ms` up to, and without, `ends_ms`.

    A grace has moved the end.
    """

    begins_ms: int
    ends_ms: int


def pattern_fault(pattern: str) -> str | None:
    """Why no time can be read by the pattern; None where one can."""
    found = _directives(pattern)
    if any(folder.count("*") > _MOST_STARS for folder in pattern.split("/")):
        return f"it has more than {_MOST_STARS} `*` in one folder"
    unknown = next((letter for letter in found if letter not in _DIGITS), None)
    if unknown is not None:
        return f"`%{unknown}` is not one of %Y, %m, %d, %j, %H, %M and %s"
    twice = next((letter for letter in found if found.count(letter) > 1), None)
    if twice is not None:
        return f"`%{twice}` is there twice"
    if "s" in found:
        return None if len(found) == 1 else "`%s` is a whole time by itself (seconds since 1970)"
    if "Y" not in found:
        return "it has no year (`%Y`), so it is not a point in time"
    if "j" in found and "m" in found:
        return "`%j` is the day of the year: it goes without `%m`"
    lacking = next((letter for letter in found if letter in _NEEDS and not set(_NEEDS[letter]) & set(found)), None)
    return f"`%{lacking}` needs `%{_NEEDS[lacking][0]}` beside it" if lacking else None


def length_fault(pattern: str, length_ms: int | None) -> str | None:
    """Why a partition of the pattern cannot be as long; None where it can."""
    unit = _unit(pattern)
    if length_ms is None:
        return "`%s` does not say how long a partition is" if unit == "s" else None
    if unit in "mY":
        return f"the pattern names {_WORDS[unit]}, which has no fixed length"
    return f"the pattern names {_WORDS[unit]}, and the length is less" if length_ms < _FIXED_MS[unit] else None


@dataclass(frozen=True)
class PartitionClock:
    """Reads times from partition paths: the pattern, the length (that of its finest unit where None) and the zone.

    A partition ends `grace_ms` later than by its path.
    """

    pattern: str
    length_ms: int | None
    zone: ZoneInfo
    grace_ms: int = 0

    def span(self, partition: str) -> Span | None:
        """What time the partition is about; None where its path does not fit the pattern, or names no time there is.

        A span is all of the time whose clock reading lies in it: a day of 23 or 25 hours, and the hour that comes twice.
        """
        found = self._digits_in(unquote(partition).split("/"))
        if found is None:
            return None
        fields = {name: int(value) for name, value in found.items()}
        try:
            if "s" in fields:
                begins_ms = fields["s"] * 1000
                return Span(begins_ms, begins_ms + (self.length_ms or 1000) + self.grace_ms)
            begins = _local(fields)
            ends = self._after(begins)
            ends_ms = _epoch_ms((ends - _TICK).replace(fold=1), self.zone)
            return Span(min(_epoch_ms(begins, self.zone), ends_ms), ends_ms + self.grace_ms)
        except (ValueError, OverflowError):
            return None

    def _after(self, begins: datetime) -> datetime:
        """Where the clock stands at the end."""
        unit = self._finest
        if self.length_ms is not None:
            return begins + timedelta(milliseconds=self.length_ms)
        if unit == "Y":
            return begins.replace(year=begins.year + 1)
        if unit == "m":
            return begins.replace(year=begins.year + begins.month // 12, month=begins.month % 12 + 1)
        return begins + timedelta(milliseconds=_FIXED_MS[unit])

    @cached_property
    def _finest(self) -> str:
        return _unit(self.pattern)

    def _digits_in(self, folders: Sequence[str]) -> dict[str, str] | None:
        """Those of each directive, None where a folder does not fit; it is not tried in other ways where a later one does not."""
        expressions = self._expressions
        found = [one.fullmatch(folder) for one, folder in zip(expressions, folders, strict=False)]
        if len(folders) != len(expressions) or None in found:
            return None
        return {name: text for one in found if one is not None for name, text in one.groupdict().items()}

    @cached_property
    def _expressions(self) -> tuple[re.Pattern[str], ...]:
        return tuple(re.compile(_folder_expression(folder), re.ASCII) for folder in self.pattern.split("/"))


def _folder_expression(pattern: str) -> str:
    parts, end = [], 0
    for found in _DIRECTIVE.finditer(pattern):
        parts.append(re.escape(pattern[end : found.start()]))
        parts.append(_directive_expression(pattern, found))
        end = found.end()
    return "".join(parts) + re.escape(pattern[end:])


def _directive_expression(pattern: str, found: re.Match[str]) -> str:
    letter = found[1]
    if letter is None:
        return "[^/]+"
    if letter == "%":
        return "%"
    fewest, most = _DIGITS[letter]
    begins, ends = found.span()
    stands_free = not pattern.startswith("%", ends) and pattern[max(begins - 2, 0) : begins][:1] != "%"
    return rf"(?P<{letter}>[0-9]{{{fewest if stands_free else most},{most}}})"


def _usual_digits(found: re.Match[str], *, is_free: bool) -> str:
    """The digits of a directive: years are 1900 to 2099, and behind a name (`month=`) a number may have fewer digits."""
    fewest, most = _DIGITS[found[1]]
    return r"(?:19|20)\d\d" if found[1] == "Y" else rf"\d{{{fewest if is_free else most},{most}}}"


def usual_pattern(partitions: Sequence[str]) -> str | None:
    """The usual pattern of hours, days or months that fits most of the paths; None if none does."""
    for layout in _USUAL:
        digits = re.sub(r"%(.)", partial(_usual_digits, is_free="=" in layout), layout)
        found = {one: re.search(rf"(?<!\d){digits}(?!\d)", unquote(one)) for one in partitions}
        first = next((one for one in found.values() if one is not None), None)
        if first is None:
            continue
        *folders, before = first.string[: first.start()].replace("%", "%%").split("/")
        after, *others = first.string[first.end() :].replace("%", "%%").split("/")
        below = map(_any_value if "%H" in layout else _hour_or_any, others)
        pattern = "/".join((*map(_any_value, folders), before + layout + after, *below))
        clock = PartitionClock(pattern, None, ZoneInfo("UTC"))
        if 2 * sum(found[one] is not None and clock.span(one) is not None for one in partitions) > len(partitions):
            return pattern
    return None


def _any_value(folder: str) -> str:
    name, equals, _ = folder.partition("=")
    return f"{name}=*" if equals else "*"


def _hour_or_any(folder: str) -> str:
    named = _HOUR.fullmatch(folder)
    return f"{named[1]}=%H" if named else _any_value(folder)


def _directives(pattern: str) -> list[str]:
    return [found[1] for found in _DIRECTIVE.finditer(pattern) if found[1] not in (None, "%")]


def _unit(pattern: str) -> str:
    """The finest directive."""
    return min(_directives(pattern), key=_UNITS.index)


def _local(fields: dict[str, int]) -> datetime:
    """Where the clock stands at the begin."""
    if "j" in fields:
        day = datetime(fields["Y"], 1, 1) + timedelta(days=fields["j"] - 1)  # noqa: DTZ001 - a clock's reading
        if day.year != fields["Y"] or fields["j"] < 1:
            raise ValueError("no day of that year")
        return day.replace(hour=fields.get("H", 0), minute=fields.get("M", 0))
    year, month, day_of_month = (fields.get(name, 1) for name in "Ymd")
    return datetime(year, month, day_of_month, fields.get("H", 0), fields.get("M", 0))  # noqa: DTZ001 - as above


def _epoch_ms(reading: datetime, zone: ZoneInfo) -> int:
    """The epoch time of a clock's reading, rounded up to whole milliseconds."""
    return -((_EPOCH - reading.replace(tzinfo=zone)) // _MS)
