"""The zone in which Hudi writes instants: one for a whole Java process, so each table's is set before Hudi works on it.

Stock Hudi sets it when it creates a table or writes by the DataFrame API. A Java process that only compacts keeps its own
zone, and would complete a compaction hours before or after it was requested (facts: commit-zone-static).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from etc_policy.errors import EngineError
from etc_policy.errors.codes import Code
from etc_policy.hudi.properties import read_properties
from etc_policy.hudi.zones import declared_zone, table_zone
from etc_policy.plan.clock import EngineTime, clock_skew_ms, completes_too_early, engine_disagrees
from etc_policy.run.ports import Job
from etc_policy.run.table_files import timeline_of
from etc_policy.storage.open_storage import open_reader

_GENERATOR = "org.apache.hudi.common.table.timeline.HoodieInstantTimeGenerator"
#: By bundles: from 1.0, and before.
_LAST_INSTANT = ("LAST_INSTANT_TIME", "lastInstantTime")
#: Earlier than every instant.
_NO_INSTANT = "0"


@dataclass
class ZoneGate:
    """Tables of one zone may be worked on side by side; one of another zone waits until they are done."""

    _changed: threading.Condition = field(default_factory=threading.Condition)
    _zone: str | None = None
    _holders: int = 0
    _leave: Callable[[], None] = lambda: None

    @contextmanager
    def hold(self, zone: str, enter: Callable[[], Callable[[], None]]) -> Iterator[None]:
        """Hold the zone; the first holder calls `enter`, and the last what that returned."""
        with self._changed:
            self._changed.wait_for(lambda: not self._holders or self._zone == zone)
            if not self._holders:
                self._leave = enter()
                self._zone = zone
            self._holders += 1
        try:
            yield
        finally:
            with self._changed:
                self._holders -= 1
                if not self._holders:
                    self._leave()
                    self._changed.notify_all()


_GATE = ZoneGate()
#: The last instant that Hudi made in each zone while that was set.
_LAST_INSTANTS: dict[str, str] = {}


@contextmanager
def commit_zone(jvm: Any, job: Job) -> Iterator[None]:
    """All that Hudi writes meanwhile is in the zone of the job's table; what was set before is set again afterwards.

    Raises:
        EngineError: the time that Hudi would write is not that of this machine's clock in the table's zone.

    """
    zone = declared_zone(read_properties(open_reader(job.base_path)))
    with _GATE.hold(zone, lambda: _set_zone(jvm, zone)):
        if job.instant:
            require_engine_time(jvm, job)
        yield


def require_engine_time(jvm: Any, job: Job, *, completes: bool = False) -> None:
    """Return if Hudi's time now is this machine's in the table's zone and, where the job `completes` now, after its instant.

    Raises:
        EngineError: it is not; nothing was written.

    """
    zone = table_zone(read_properties(open_reader(job.base_path)))
    engine = _engine_time(jvm)
    trouble = engine_disagrees(engine, zone, clock_skew_ms(job.policy))
    if trouble is not None:
        java = jvm.java.time.ZoneId.systemDefault().getId()
        hint = f"Java's own zone is {java}: run etc and its Spark with `TZ` set to the zone of the table's writers"
        raise EngineError(Code.OTHER_ENGINE_TIME, f"{trouble}; nothing was written", hint=hint)
    last = max(timeline_of(job.base_path).completions.values(), default=None) if completes else None
    early = completes_too_early(job.instant, engine, last) if completes else None
    if early is not None:
        hint = "the clock was set back, or its zone changed: run the same command again once it is right"
        raise EngineError(
            Code.COMPLETED_TOO_EARLY, f"the compaction at {job.instant} was not committed: {early}", hint=hint
        )


def _engine_time(jvm: Any) -> EngineTime:
    """By the function that Hudi itself formats new instants with; bundles before 1.1 have the zone alone."""
    generator = jvm.org.apache.hudi.common.table.timeline.HoodieInstantTimeGenerator
    asked_ms = time.time_ns() // 1_000_000
    if any(method.getName() == "formatDateBasedOnTimeZone" for method in _generator_class(jvm).getMethods()):
        instant = str(generator.formatDateBasedOnTimeZone(jvm.java.util.Date()))
    else:
        now = jvm.java.time.ZonedDateTime.now(_static(jvm, "commitTimeZone").get(None).getZoneId())
        instant = str(generator.getInstantFromTemporalAccessor(now))
    return EngineTime(instant, asked_ms, time.time_ns() // 1_000_000)


def _set_zone(jvm: Any, zone: str) -> Callable[[], None]:
    """Set the zone; returns what sets the former one again.

    Hudi waits until a new instant is later than the last that the process made. In a zone behind the former that would be
    for hours, so each zone has a last instant of its own.
    """
    from py4j.protocol import Py4JError

    field, last = _static(jvm, "commitTimeZone"), _static(jvm, *_LAST_INSTANT).get(None)
    former, wanted = field.get(None), jvm.org.apache.hudi.common.model.HoodieTimelineTimeZone.valueOf(zone)
    if former.equals(wanted):
        return lambda: None
    kept = last.get()
    field.set(None, wanted)
    last.set(_LAST_INSTANTS.get(zone, _NO_INSTANT))

    def leave() -> None:
        with suppress(Py4JError, OSError):  # Java has died
            _LAST_INSTANTS[zone] = str(last.get())
            field.set(None, former)
            last.set(kept)

    return leave


def _static(jvm: Any, *names: str) -> Any:
    """The field by the one of its names that the bundle has."""
    found = next(field for field in _generator_class(jvm).getDeclaredFields() if field.getName() in names)
    found.setAccessible(True)
    return found


def _generator_class(jvm: Any) -> Any:
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return jvm.java.lang.Class.forName(_GENERATOR, True, loader)
