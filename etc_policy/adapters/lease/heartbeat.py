"""The heartbeat that a run of etc keeps: the same everywhere, as the challenger's settings decide when one is dead (FACTS 5)."""

from __future__ import annotations

#: A heartbeat is written this often, and a run is dead after this many misses.
HEARTBEAT_INTERVAL_MS = 5_000
HEARTBEAT_MISSES = 6
HEARTBEAT_TOLERANCE_SECONDS = HEARTBEAT_INTERVAL_MS * HEARTBEAT_MISSES / 1000
