"""In which zone a table's writers work, by its instants and by when the files that bear them were written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Literal
from zoneinfo import ZoneInfo

from etc_policy.table.formats import count_of, format_time
from etc_policy.table.instants import instant_to_ms

#: `declared` by the table itself; else by its writers' clocks, as their files bear out, do not, or cannot say.
Certainty = Literal["declared", "confirmed", "unsure", "contradicted"]

#: Offsets of all zones are multiples of this.
_GRID_MS = 15 * 60_000
#: Offsets of all zones from UTC lie between these.
_LEAST_MS, _MOST_MS = -12 * 3_600_000, 14 * 3_600_000
#: A file is written as long after its instant at most; more is taken for a copy's time.
_SLACK_MS = 20_000
#: Files that were written within so long may be those of one copy.
_AT_ONCE_MS = 1_000
_NEWEST = 40
_FEWEST = 3


@dataclass(frozen=True, slots=True)
class ZoneSample:
    """An instant, and when the file that bears it was last written (epoch ms)."""

    instant: str
    written_ms: int


@dataclass(frozen=True, slots=True)
class ZoneReading:
    """The IANA zone in which a table's instants are read, how sure that is, and why."""

    timezone: str
    certainty: Certainty = "declared"
    evidence: str = "the table declares it"

    @property
    def fault(self) -> str | None:
        """Why no instant can be compared with a time, and no lag be told; None where nothing speaks against the zone."""
        if self.certainty != "contradicted":
            return None
        return f"the table's instants are in its writers' local time, read here in {self.timezone}, but {self.evidence}"


@dataclass(frozen=True, slots=True)
class _Shift:
    """How far an instant is ahead of the zone: whole steps of the grid, and what remains."""

    sample: ZoneSample
    steps: int
    rest_ms: int

    @property
    def fits(self) -> bool:
        """Whether it may be that of a zone; the clock of a writer that replays what was is further off."""
        return abs(self.rest_ms) <= _SLACK_MS and _LEAST_MS <= self.offset_ms <= _MOST_MS

    @property
    def offset_ms(self) -> int:
        """The offset from UTC that the instant was written with."""
        ahead_ms = instant_to_ms(self.sample.instant, ZoneInfo("UTC")) - self.sample.written_ms
        return ahead_ms - self.rest_ms


def judge_zone(timezone: str, samples: Sequence[ZoneSample]) -> ZoneReading:
    """Whether the newest samples were written by clocks of the zone.

    Files of a copied table were written when it was copied: they say nothing, unless their times fit.
    """
    newest = sorted(samples, key=lambda sample: (sample.written_ms, sample.instant))[-_NEWEST:]
    shifts = [_shift(sample, ZoneInfo(timezone)) for sample in newest]
    fitting = _without_copies(shifts)
    if not shifts:
        return ZoneReading(timezone, "unsure", "there is no instant yet that shows it")
    if len(fitting) < len(shifts) * 4 / 5:
        return ZoneReading(timezone, "unsure", "the files' times do not fit its instants, as in a copy of a table")
    if not any(shift.steps for shift in fitting):
        agree = f"its last {count_of(len(fitting), 'instant')} agree with the times of their files"
        return ZoneReading(timezone, "confirmed", agree)
    if len(fitting) < _FEWEST:
        return ZoneReading(timezone, "unsure", "too few files that show when its instants were written")
    return ZoneReading(timezone, "contradicted", _contradiction(fitting))


def _shift(sample: ZoneSample, zone: ZoneInfo) -> _Shift:
    ahead = instant_to_ms(sample.instant, ZoneInfo("UTC")) - _wall_clock_ms(sample.written_ms, zone)
    steps = round(ahead / _GRID_MS)
    return _Shift(sample, steps, ahead - steps * _GRID_MS)


def _wall_clock_ms(epoch_ms: int, zone: ZoneInfo) -> int:
    offset = datetime.fromtimestamp(epoch_ms / 1000, UTC).astimezone(zone).utcoffset()
    return epoch_ms + int((offset or timedelta()) / timedelta(milliseconds=1))


def _without_copies(shifts: Sequence[_Shift]) -> list[_Shift]:
    """Those that fit, without the files of another zone's offset that were copied at once; of a single one nobody knows."""
    of_offset: dict[int, list[_Shift]] = {}
    for shift in shifts:
        if shift.fits:
            of_offset.setdefault(shift.steps, []).append(shift)
    alone = len(of_offset) == 1
    copied = {
        steps
        for steps, found in of_offset.items()
        if steps and (alone or found[1:] or _has_neighbour(found[0], shifts)) and not _is_genuine(found)
    }
    return [shift for shift in shifts if shift.fits and shift.steps not in copied]


def _has_neighbour(one: _Shift, shifts: Sequence[_Shift]) -> bool:
    """Whether another file was written at once with it."""
    beside = (shift for shift in shifts if shift is not one)
    return any(abs(shift.sample.written_ms - one.sample.written_ms) < _AT_ONCE_MS for shift in beside)


def _is_genuine(shifts: Sequence[_Shift]) -> bool:
    """Files that were written one by one as the instants went on; those of a copy are all of one time."""
    written = [shift.sample.written_ms for shift in shifts]
    rests = [shift.rest_ms for shift in shifts]
    took_ms = max(written) - min(written)
    return took_ms >= _AT_ONCE_MS and (max(rests) - min(rests)) * 3 <= took_ms


def _contradiction(shifts: Sequence[_Shift]) -> str:
    last = shifts[-1]
    other = next((shift for shift in reversed(shifts) if shift.steps != last.steps), None)
    if other is None:
        return f"its writers' clocks show another zone: {_described(last)}"
    switches = sum(a.steps != b.steps for a, b in pairwise(shifts))
    how = "its instants go back and forth between two zones" if switches > 1 else "its instants changed their zone"
    return f"{how}: {_described(other)}, {_described(last)}"


def _described(shift: _Shift) -> str:
    sample = shift.sample
    minutes = shift.offset_ms // 60_000
    sign, minutes = "-" if minutes < 0 else "+", abs(minutes)
    return f"{sample.instant} was written at {format_time(sample.written_ms)} (UTC{sign}{minutes // 60:02}:{minutes % 60:02})"
