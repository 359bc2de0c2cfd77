"""The clocks of the storages on which tables lie: other than this machine's where machines share them.

A storage's clock is read by writing there, so it is known once this process has taken a lease of the table. Before that this
machine's own stands in for it.
"""

from __future__ import annotations

import time

_AHEAD_OF_TICKS: dict[str, float] = {}


def note_time(location: str, seconds: float) -> float:
    """The clock of the storage of the table at a location is so far past the epoch now; how far it is ahead of this machine's."""
    _AHEAD_OF_TICKS[location] = seconds - _ticks()
    return seconds - time.time()


def time_at(location: str) -> float:
    """The time by which the storage notes when files were written, in seconds since the epoch."""
    ahead = _AHEAD_OF_TICKS.get(location)
    return time.time() if ahead is None else _ticks() + ahead


def _ticks() -> float:
    """Seconds that go on when this machine's clock is set, and where it can be known while the machine sleeps."""
    boot_clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot_clock is None else time.clock_gettime(boot_clock)
