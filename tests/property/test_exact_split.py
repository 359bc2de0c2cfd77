"""What a split by record does to log files whose commits recorded event times as Hudi does, against the rows that are in them.

`ETC_HISTORIES` says how many tables. Hudi drops what has not 10 or 13 digits from the minimum and the maximum (facts:
dropped-event-times), and reads 10 digits as seconds.
"""

import io
import random

import pytest

from etc_policy.hudi.block_times import TimesWanted
from etc_policy.hudi.log_split import Part, split_log_file
from etc_policy.hudi.log_times import fill_from_logs
from etc_policy.hudi.table import FileTableReader
from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.commit_metadata import extra_metadata
from etc_policy.plan.model import SplitInput
from etc_policy.plan.split import extract_path
from etc_policy.policy.manifest import EventTime, Policy, Strategy, Writer
from etc_policy.run.ports import Job
from etc_policy.run.table_files import HudiFiles
from tests.nightly import HISTORIES
from tests.unit.hudi.log_file import avro
from tests.unit.hudi.table_folder import TableFolder, at, base, log

HOUR = 3_600_000
#: Midnight of the tables' day; T is an hour later, and their files are of that hour.
BEGIN = 1_767_225_600_000
T, NOW = BEGIN + HOUR, BEGIN + 3 * HOUR
#: Times that Hudi does not record, or not as they are: years 0, 1970 and 9999, and what lies right beside.
ODD = (0, 7, 123_456_789, 1_767_225_600, 999_999_999_999, 10_000_000_000_000, 253_402_300_799_000, -1)
NEAR = (T - HOUR, T - 1, T, T + 1, T + 5 * HOUR)
EVENT_TIME = EventTime(column="ts", unit="ms")
POLICY = Policy(
    name="p",
    table="t",
    event_time=EVENT_TIME,
    data_latency_ms=NOW - T,
    strategy=Strategy(granularity="record"),
    writer=Writer(compaction="none", index="bucket"),
)


def recorded(times):
    """What Hudi's tracking makes of the values of a commit."""
    digits = {10: 1000, 13: 1}
    return [time * digits[len(str(time))] for time in times if time >= 0 and len(str(time)) in digits]


def play(folder, dice):
    """A table of one to three file groups, each with one to four log files; the rows of each file by its path."""
    table, rows = TableFolder(folder), {}
    table.commit(at("00:00:00"), at("00:00:01"), *(base(one) for one in "abc"))
    for minute in range(1, dice.randrange(3, 13)):
        instant, name = at(f"00:{minute:02}:00"), dice.choice("abc")
        times = [dice.choice(ODD if dice.random() < 0.2 else NEAR) for _ in range(dice.randrange(1, 5))]
        known, data = recorded(times) if dice.random() < 0.8 else [], avro(times, ts="long")
        least, most, deletes = min(known, default=None), max(known, default=None), int(dice.random() < 0.05)
        one = log(name, least, max_event=most, rows=len(times), size=len(data), deletes=deletes)
        table.commit(instant, instant, one)
        (table.base / "p" / one.name(instant)).write_bytes(data)
        rows[f"p/{one.name(instant)}"] = (times, bool(deletes))
    return table, rows


def sides(path):
    """How many rows of a log file are at or before T, and how many after it."""
    early, late, data = Part(io.BytesIO()), Part(io.BytesIO()), path.read_bytes()
    split_log_file(io.BytesIO(data), len(data), TimesWanted(EVENT_TIME, "long", ("ts",)), T, early, late)
    return early.rows, late.rows


@pytest.mark.parametrize("seed", range(HISTORIES // 5))
def test_only_rows_up_to_the_threshold_are_merged(tmp_path, seed):
    """But of slices with deletes, which may leave nothing behind."""
    table, rows = play(tmp_path / "t", random.Random(seed))
    policy = POLICY.model_copy(update={"table": str(table.base)})
    state = fill_from_logs(FileTableReader().read(str(table.base), EVENT_TIME), policy, None)
    plan = build_table_plan(policy, state, now_ms=NOW, clock_ms=NOW)
    if plan.action != "compact":
        assert plan.reason_code == "nothing_due"
        return
    job = Job(policy, str(table.base), 9, (), plan.instant, plan.operations, extra_metadata(plan, "id", None))
    for one in HudiFiles().split(job, state).operations if job.splits else plan.operations:
        written = {name: rows[f"p/{name}"] for name in one.log_files_compacted}
        if not any(deletes for _, deletes in written.values()):
            check(table.base, one, {name: times for name, (times, _) in written.items()})


def check(folder, operation, written):
    """What is merged, and what stays, against the rows that were written to the log files."""
    whole = [SplitInput(name=name) for name in written]
    inputs = {one.name: one for one in (operation.split.inputs if operation.split else whole)}
    for name, times in written.items():
        early = sum(time <= T for time in times)
        if name not in inputs:
            assert early == 0, f"rows up to T of {name} are not merged"
        elif inputs[name].extract_bytes is None:
            assert early == len(times), f"{name} is merged whole"
        else:
            assert sides(folder / extract_path(operation, name)) == (early, 0)
    late = sum(time > T for times in written.values() for time in times)
    assert bool(late) == bool(operation.added_log_files)
    if late:
        assert sides(folder / "p" / operation.remainder) == (0, late)
