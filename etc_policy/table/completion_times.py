"""Completion times that cannot be true: a writer in another time zone wrote them into the timeline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

from etc_policy.table.formats import format_duration, format_time
from etc_policy.table.instants import instant_from_ms, instant_to_ms, parse_instant

TimelineName = Literal["table", "metadata table"]

#: Offsets of all zones are multiples of this, and no two zones are further apart than that.
_GRID_MS, _FURTHEST_MS = 15 * 60_000, 26 * 3_600_000
#: A file is written this long after its completion time at most; the clock of a file server may be behind by the other.
_SLACK_MS, _BEHIND_MS = 120_000, 5_000


class CompletedFile(NamedTuple):
    """A completed instant as its file on a timeline shows it; `written_ms` is when that file was last written."""

    requested: str
    completed: str
    action: str
    written_ms: int


@dataclass(frozen=True, slots=True)
class WrongTime:
    """A completion time that cannot be true.

    `late` says that it lies after the file that bears it was written, else it lies before the request. `right` is the true
    time, and `no_renaming` says why the file may not be renamed to it, empty where it may; where it cannot be known it is None
    and `unknown` says why. `set_back` says that it is what the clock showed, which was set back since the request: then
    `misplaced` says, as a clause, why readers may not see what was written; it is empty where they do.
    """

    timeline: TimelineName
    requested: str
    completed: str
    action: str
    late: bool
    written_ms: int
    right: str | None
    unknown: str = ""
    set_back: bool = False
    misplaced: str = ""
    no_renaming: str = ""

    @property
    def is_harmless(self) -> bool:
        """Whether every reader sees what was written."""
        return self.set_back and not self.misplaced

    @property
    def what(self) -> str:
        """What is wrong, as a sentence."""
        where = "" if self.timeline == "table" else " in the metadata table"
        named = f"the {_kind(self)} at {self.requested}{where}"
        if self.late:
            return (
                f"{named} is completed in the future: at {self.completed}, though its file was written {self._written}"
            )
        return f"{named} is completed before it was requested: at {self.completed}"

    @property
    def truth(self) -> str:
        """How it came about and its true time, or why that cannot be known; as a clause."""
        if self.set_back:
            return ", and ".join(
                filter(None, ("clocks were set back meanwhile, as at the end of summer time", self.misplaced))
            )
        return f"its writer was in another time zone, and its true time {self._right}"

    @property
    def _right(self) -> str:
        if self.right is None:
            return f"cannot be known: {self.unknown}"
        apart = abs(parse_instant(self.right) - parse_instant(self.completed))
        off = format_duration(round(apart.total_seconds() * 1000))
        renaming = f"may not be renamed to that: {self.no_renaming}" if self.no_renaming else "may be renamed to that"
        return f"is {self.right} ({off} off); its file {renaming}"

    @property
    def _written(self) -> str:
        return f"at {format_time(self.written_ms - self.written_ms % 1000)}"

    def is_future(self, now: str) -> bool:
        """Whether the time has not come yet."""
        return parse_instant(self.completed) > parse_instant(now)


def find_wrong_times(
    timeline: TimelineName, files: Sequence[CompletedFile], taken: Iterable[str], timezone: str
) -> tuple[WrongTime, ...]:
    """The completion times on a timeline that cannot be true, in order of their requests.

    `taken` are all times on the timeline. A time in the future of its file counts only where other files agree with the
    zone: else it is this machine that reads the table in another zone.
    """
    evidence = _Evidence(files, frozenset(taken), ZoneInfo(timezone))
    early = [file for file in files if file.completed < file.requested]
    late = [file for file in files if evidence.is_late(file)]
    found = [(file, False) for file in early] + [(file, True) for file in late if evidence.agreeing]
    return tuple(evidence.judge(timeline, file, late=is_late) for file, is_late in sorted(found))


@dataclass(frozen=True)
class _Evidence:
    files: Sequence[CompletedFile]
    taken: frozenset[str]
    zone: ZoneInfo

    @cached_property
    def agreeing(self) -> tuple[CompletedFile, ...]:
        """The files that were written when their names say, and so show that the others' times can be trusted."""
        return tuple(file for file in self.files if file.completed >= file.requested and self._agrees(file))

    def is_late(self, file: CompletedFile) -> bool:
        """Whether an instant is completed well after its file was written: compared as texts, there may be thousands."""
        return file.completed > instant_from_ms(file.written_ms + _SLACK_MS, self.zone)

    def _agrees(self, file: CompletedFile) -> bool:
        first, last = (instant_from_ms(file.written_ms + ms, self.zone) for ms in (-_SLACK_MS, _BEHIND_MS))
        return first <= file.completed <= last

    def judge(self, timeline: TimelineName, file: CompletedFile, *, late: bool) -> WrongTime:
        shift_ms = _shift_ms(file, self.zone)
        right = None
        if shift_ms:
            right = instant_from_ms(instant_to_ms(file.completed, self.zone) + shift_ms, self.zone)
        unknown = self._unknown(file, shift_ms, right)
        is_set_back = shift_ms == 0 and bool(self.agreeing)
        return WrongTime(timeline, *file[:3], late, file.written_ms, None if unknown else right, unknown, is_set_back)

    def _unknown(self, file: CompletedFile, shift_ms: int | None, right: str | None) -> str:
        """Why the true time cannot be known; empty where it can."""
        written = format_time(file.written_ms - file.written_ms % 1000)
        if not self.agreeing:
            return "no other file on the timeline was written when its name says, as in a copy of a table"
        if shift_ms is None:
            return f"its file was written at {written}, which the offset of no zone explains"
        if shift_ms == 0 or right is None:
            return "its file was written at that very time: clocks were set back, as at the end of summer time"
        if self.is_late(CompletedFile(file.requested, file.requested, file.action, file.written_ms)):
            return f"its request is later than its file too ({written}), and data files bear that instant"
        if right <= file.requested:
            return f"by its file it was completed at {right}, which is not after its request either"
        if right in self.taken and all((one.requested, one.completed) != (file.requested, right) for one in self.files):
            return f"by its file it was completed at {right}, which is the time of another instant"
        return self._out_of_order(file, right)

    def _out_of_order(self, file: CompletedFile, right: str) -> str:
        for other in self.agreeing:
            apart_ms = other.written_ms - file.written_ms
            if abs(apart_ms) > _BEHIND_MS and (apart_ms > 0) != (other.completed > right):
                return f"by its file it was completed at {right}, which contradicts the order of {other.completed}"
        return ""


def _shift_ms(file: CompletedFile, zone: ZoneInfo) -> int | None:
    """What has to be added to a completion time to come to that of its file; None where that is no offset of zones."""
    behind_ms = min(
        (file.written_ms - instant_to_ms(file.completed, zone, latest=latest) for latest in (True, False)), key=abs
    )
    shift_ms = round(behind_ms / _GRID_MS) * _GRID_MS
    rest_ms = behind_ms - shift_ms
    return shift_ms if abs(shift_ms) <= _FURTHEST_MS and -_BEHIND_MS <= rest_ms <= _SLACK_MS else None


def _kind(wrong: WrongTime) -> str:
    return {"commit": "compaction" if wrong.timeline == "table" else "commit", "deltacommit": "delta commit"}.get(
        wrong.action, wrong.action
    )
