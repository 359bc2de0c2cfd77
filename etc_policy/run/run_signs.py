"""Signs of life of a run: its heartbeat, its inflight file, and what it has begun to write.

The heartbeat is the same everywhere, as the challenger's settings decide when a run is dead (facts: challenger-decides).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from time import monotonic, sleep

from etc_policy.errors import EngineError, RetryableError
from etc_policy.errors.codes import Code
from etc_policy.hudi.layout import HEARTBEATS, timeline_folder
from etc_policy.hudi.pending_writes import announced_by, marker_files
from etc_policy.hudi.properties import read_properties
from etc_policy.run.lease_document import FILE_LEASE, MAX_LEASE_BYTES, STORE_LEASE, read_document
from etc_policy.storage.clocks import time_at
from etc_policy.storage.port import FileInfo, TableReader, TableStorage, os_errors_as
from etc_policy.table.formats import format_duration
from etc_policy.table.instants import CLOCK_TOLERANCE

_POLL_SECONDS = 0.5

Progress = Callable[[str], None]
#: A heartbeat is written this often, and a run is dead after this many misses.
HEARTBEAT_INTERVAL_MS = 5_000
HEARTBEAT_MISSES = 6
HEARTBEAT_TOLERANCE_SECONDS = HEARTBEAT_INTERVAL_MS * HEARTBEAT_MISSES / 1000


class RunSigns:
    """The signs of the runs on one table, by the clock by which the storage notes when files were written."""

    def __init__(self, storage: TableStorage, progress: Progress, goes_on: Callable[[], bool] = lambda: True) -> None:
        self._storage, self._progress, self._goes_on = storage, progress, goes_on
        self._first_seen: dict[tuple[str, float], float] = {}

    def inflight_made(self, instant: str) -> str:
        """When the inflight file, which is written once, was made, in nanoseconds; empty if it is missing."""
        found = self._inflight(instant)
        return str(found.modified_ns) if found else ""

    def require_own(self, instant: str, made: str) -> None:
        """Return while the inflight file is the one that our run `made`, where it has made one, and our heartbeat is fresh.

        Bundles before 1.2 keep no heartbeat; and one that is fresh may be that of a writer who has taken our run over.

        Raises:
            EngineError: one of them is not, so another run may have taken over.

        """
        if made and self.inflight_made(instant) != made:
            hint = "run the same command again: it finishes what that run leaves"
            message = f"another run of the compaction at {instant} has taken over; this one commits nothing"
            raise EngineError(Code.RUN_TAKEN_OVER, message, hint=hint)
        beat_age = self._beat_age(instant)
        if beat_age is not None and beat_age > HEARTBEAT_TOLERANCE_SECONDS:
            hint = "the machine stalled for too long; run the same command again"
            message = f"this run's heartbeat at {instant} has expired; nothing was committed"
            raise EngineError(Code.RUN_TAKEN_OVER, message, hint=hint)

    def wait_until_silent(self, instant: str, tolerance_seconds: float) -> None:
        """Return once a run has shown no sign of life for so long; one that advances is alive.

        Raises:
            RetryableError: the run is alive, or this process is to end.

        """
        first = self._last(instant)
        if first is not None and (left := tolerance_seconds - self._silent_seconds(instant, first)) > 0:
            self._progress(
                f"a run of the compaction at {instant} wrote {tolerance_seconds - left:.0f} s ago; waiting {left:.0f} s to see "
                "whether it is dead"
            )
        while (sign := self._last(instant)) is not None and self._silent_seconds(instant, sign) <= tolerance_seconds:
            if sign != first:
                message = f"a run of the compaction at {instant} is alive: it goes on writing"
                raise RetryableError(Code.RUN_IS_ALIVE, message, hint="wait for it to end, then run this again")
            if not self._goes_on():
                message = f"a run of the compaction at {instant} may be alive, and this process is to end"
                raise RetryableError(Code.RUN_IS_ALIVE, message, hint="nothing was begun; run this again")
            sleep(_POLL_SECONDS)

    def _silent_seconds(self, instant: str, sign: float) -> float:
        """How long ago the last sign was, at least since it was first seen: a writer may give a file a time to come."""
        seen = self._first_seen.setdefault((instant, sign), monotonic())
        return max(self._now() - sign, monotonic() - seen)

    def remove_beat(self, instant: str) -> None:
        """Remove the heartbeat of a run that is dead.

        Raises:
            EngineError: it cannot be removed.
            RetryableError: the table's store does not answer.

        """
        message = f"cannot remove the heartbeat at {instant} from `{self._storage.location}`"
        with os_errors_as(Code.CANNOT_LOCK, message):
            self._storage.remove(f"{HEARTBEATS}/{instant}")

    def _now(self) -> float:
        return time_at(self._storage.location)

    def _beat_age(self, instant: str) -> float | None:
        """How many seconds ago the heartbeat was written; None without one."""
        beat = _seconds(self._storage.info(f"{HEARTBEATS}/{instant}"))
        return self._now() - beat if beat is not None else None

    def _last(self, instant: str) -> float | None:
        """When a run last wrote anything, as seconds since the epoch; None where it has left no trace."""
        begun = _seconds(self._inflight(instant))
        signs = [_seconds(self._storage.info(f"{HEARTBEATS}/{instant}")), begun]
        if begun is not None:
            signs += map(self._written, self._begun_files(instant))
        return max((sign for sign in signs if sign is not None), default=None)

    def _begun_files(self, instant: str) -> Iterator[str]:
        """The markers of a run, and the base files that they announce."""
        for path in marker_files(self._storage, instant):
            yield path
            yield from announced_by(self._storage, path)

    def _written(self, path: str) -> float | None:
        with suppress(ValueError):  # somebody else has made the marker, and names a file elsewhere
            return _seconds(self._storage.info(path))
        return None

    def _inflight(self, instant: str) -> FileInfo | None:
        """That of the compaction at an instant."""
        folder, _ = timeline_folder(read_properties(self._storage), self._storage.location)
        return self._storage.info(f"{folder}/{instant}.compaction.inflight")


def sign_of_run(storage: TableReader) -> tuple[str, int, int] | None:
    """What changes while a run of etc is at work on a table: its instant, its heartbeat, the files that it has begun.

    None where the lease names no run. A run whose Java has stopped shows the same again and again.
    """
    for path in (FILE_LEASE, STORE_LEASE):
        with suppress(OSError):
            document = read_document(storage.read(path, MAX_LEASE_BYTES))
            if document is not None and document.instant and not document.ended:
                beat = storage.info(f"{HEARTBEATS}/{document.instant}")
                begun = sum(1 for _ in marker_files(storage, document.instant))
                return document.instant, beat.modified_ns if beat else 0, begun
    return None


def _seconds(found: FileInfo | None) -> float | None:
    return found.modified_ns / 1e9 if found is not None else None


def warn_of_clock(ahead_seconds: float, progress: Progress) -> None:
    """Say that the storage's clock is far from this machine's: T is a time of this machine's clock."""
    if abs(ahead_seconds) > CLOCK_TOLERANCE.total_seconds():
        way = "behind" if ahead_seconds > 0 else "ahead of"
        by = format_duration(int(abs(ahead_seconds)) * 1000)
        progress(f"this machine's clock is {by} {way} that of the table's storage: one of them is wrong, and T with it")
