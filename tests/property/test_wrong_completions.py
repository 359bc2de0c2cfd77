"""A completion time by a clock of another zone bounds no event time, whether its commit is on the timeline or archived."""

import os
import random
import tempfile
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from etc_policy.hudi.table import FileTableReader
from etc_policy.policy.manifest import EventTime, Policy
from etc_policy.report.freshness import table_freshness
from etc_policy.table.instants import instant_from_ms
from tests.unit.hudi.table_folder import TableFolder, archived, base, log

UTC = ZoneInfo("UTC")
START_MS, QUARTER_MS, HOUR_MS = 1_767_225_600_000, 15 * 60_000, 3_600_000


def at(moment_ms):
    return instant_from_ms(moment_ms, UTC)


def in_table(folder, *, is_archived, requested_ms, true_ms, shift_ms, later_ms):
    """A table with a log file of unknown event times, whose commit completed by a clock that is ahead by the shift."""
    table, first_ms = TableFolder(folder), requested_ms - HOUR_MS
    instant, completed = at(requested_ms), at(true_ms + shift_ms)
    if is_archived:
        table.data(at(first_ms), base("f"))
        table.data(instant, log("f", None, rows=1))
        row = archived(instant, completed, log("f", None, rows=1))
        table.archive(archived(at(first_ms), at(first_ms + 1_000), base("f")), row)
    else:
        written = table.commit(at(first_ms), at(first_ms + 1_000), base("f"))
        os.utime(written, ((first_ms + 1_000) / 1000,) * 2)
        os.utime(table.commit(instant, completed, log("f", None, rows=1)), (true_ms / 1000,) * 2)
    os.utime(table.commit(at(later_ms), at(later_ms + 1_000), base("g")), ((later_ms + 1_000) / 1000,) * 2)
    return table


@pytest.mark.parametrize("is_archived", [False, True])
def test_what_is_said_to_be_complete_never_passes_what_the_rows_may_hold(is_archived):
    source, said = random.Random(1), 0
    for _ in range(60):
        requested_ms = START_MS + source.randrange(10 * HOUR_MS)
        true_ms = requested_ms + source.choice((1_000, 60_000, 20 * 60_000))
        shift_ms = source.choice((0, *range(QUARTER_MS, 14 * HOUR_MS, QUARTER_MS)))
        latency_ms = source.choice((0, 60_000, HOUR_MS))
        now_ms = true_ms + shift_ms + HOUR_MS + source.randrange(10 * HOUR_MS)
        with tempfile.TemporaryDirectory() as folder:
            times = {
                "requested_ms": requested_ms,
                "true_ms": true_ms,
                "shift_ms": shift_ms,
                "later_ms": now_ms - 60_000,
            }
            table = in_table(Path(folder) / "t", is_archived=is_archived, **times)
            column = EventTime(column="ts", unit="ms")
            policy = Policy(name="t", table=str(table.base), event_time=column, data_latency_ms=latency_ms)
            state = FileTableReader().read(str(table.base), column)
            until_ms = table_freshness(policy, state, now_ms, now_ms).complete_until_ms
        said += until_ms is not None
        assert until_ms is None or until_ms < true_ms - latency_ms
        if shift_ms == 0 and until_ms is not None and true_ms - requested_ms < QUARTER_MS:
            assert until_ms == true_ms - latency_ms - 1, "a right completion time bounds as before"
    assert said > 50
