"""A replayed week of `strategy.at` with `keep`: each daily cut is read back by the SQL of `etc cuts`, late data included."""

import time
from pathlib import Path

import pytest

from etc_policy.api.verifying import gather_evidence
from etc_policy.errors import TableError
from etc_policy.gx.verifier import GxVerifier
from etc_policy.hudi.table import FileTableReader, read_base_files
from etc_policy.policy.manifest import EventTime, Policy, Strategy, Sync, Writer
from etc_policy.policy.writers import CLEAN_HOURS, CLEAN_POLICY, writer_options
from etc_policy.report.as_of_sql import up_to
from etc_policy.report.cuts import table_cuts
from etc_policy.spark.catalog import SparkPropertyStore
from etc_policy.table.cuts import published_cuts
from etc_policy.table.instants import add_ms
from etc_policy.verify.prover import claim_of, verify_table
from etc_policy.wiring import clock_ms
from tests.integration.bench import Bench
from tests.integration.exact_histories import BUCKET, as_of_event, oracle_as_of
from tests.integration.history import QUICK, Oracle, Write, write_history
from tests.integration.hudi_tables import StockTable

pytestmark = [pytest.mark.spark, pytest.mark.extended]

#: Midnight in Paris after the first moment of the tests' event times, in their seconds.
MIDNIGHT, DAY = 2_800, 86_400
#: A cleaner that leaves nothing to readers of the past.
AT_ONCE = {CLEAN_POLICY: "KEEP_LATEST_COMMITS", "hoodie.cleaner.commits.retained": "1"}


class DailyBench(Bench):
    @property
    def policy(self):
        return Policy(
            name="t",
            table=self.location,
            event_time=EventTime(column="ts", unit="ms"),
            data_latency_ms=7_200_000,
            strategy=Strategy(granularity="record", at="00:00 Europe/Paris", keep=7),
            writer=Writer(index="bucket"),
            sync=Sync(ro_table="daily.orders_ro"),
        )

    def cuts(self):
        """The SQL of each cut by its day, and whether it can be read."""
        policy = self.policy
        state, history = FileTableReader().read_with_history(self.location, policy.event_time, archived=None)[:2]
        found = table_cuts(policy, state, published_cuts(history, read_base_files(self.location)), ())
        return [(one.sql, one.readable) for one in reversed(found.cuts)]

    def up_to_last(self, days_before=0):
        """The condition of the view up to T, or as it was before the last compactions."""
        state = self.state()
        return up_to(self.policy, state.event_time_type, state.last_compaction.threshold_ms - days_before * DAY * 1000)


def as_of_check(bench, moved_ms=0):
    """What `expect_ro_as_of` finds of the last cut, at its T or at another one."""
    policy, now_ms = bench.policy, clock_ms()
    state, history = FileTableReader().read_with_history(bench.location, policy.event_time)[:2]
    claim = claim_of(policy, state, now_ms)
    suite = [{"type": "expect_ro_as_of", "kwargs": {"threshold_ms": claim.threshold_ms + moved_ms}}]
    evidence = gather_evidence(policy, state, history, claim, now_ms)
    found = verify_table(evidence, suite, "data", lambda: GxVerifier(bench.spark))
    return next(one for one in found.expectations if one.expectation == "expect_ro_as_of")


def written_on(day):
    """Two keys of the day, one of them written each day; one of the day before, and one that is too late for its own cut."""
    start = MIDNIGHT + day * DAY
    rows = ((day, f"of {day}", start + 3_600), (8, f"seen on {day}", start + 40_000))
    return Write((*rows, (9, f"in time on {day}", start - 600), (10 + day, f"late on {day}", start - 2 * DAY + 5)))


def test_seven_days(spark, tmp_path):
    bench, written, expected = DailyBench(spark, tmp_path / "t", "record"), [], []
    options = {**QUICK, **BUCKET, **{key: writer_options(bench.policy)[key] for key in (CLEAN_POLICY, CLEAN_HOURS)}}

    def write(day, **others):
        written.append(written_on(day))
        write_history(spark, bench.base, written[-1:], options={**options, **others}, first=day)

    def read(sql):
        rows = spark.sql(sql).collect()
        assert len({row.id for row in rows}) == len(rows)
        return {row.id: row.v for row in rows}

    write(0)
    for day in range(1, 8):
        write(day)
        time.sleep(0.25)  # past the clock-skew bound
        outcome = bench.apply(bench.plan(MIDNIGHT + day * DAY + 50_000))
        assert outcome.status == "compacted", outcome.reason
        expected.append(as_of_event(tuple(written), MIDNIGHT + day * DAY))
        assert bench.views().ro() == expected[-1]
        assert bench.views().rt() == Oracle.of(tuple(written)).rt()
        if day in (3, 7):
            found = as_of_check(bench)
            assert (found.status, found.observed["as_of_rows"]) == ("pass", len(expected[-1])), found
        assert bench.plan(MIDNIGHT + day * DAY + 80_000).tables[0].reason_code == "published"
    assert expected[0] != expected[1] and len(expected[-1]) > len(expected[0])
    assert [as_of_check(bench, moved_ms).status for moved_ms in (-DAY * 1000, DAY * 1000)] == ["fail", "fail"]
    spark.sql("CREATE DATABASE IF NOT EXISTS daily")
    options_ro = "OPTIONS ('hoodie.query.as.ro.table' = 'true')"
    spark.sql(f"CREATE TABLE daily.orders_ro USING hudi {options_ro} LOCATION '{bench.location}'")
    try:
        assert [(read(sql), readable) for sql, readable in bench.cuts()] == [(day, True) for day in expected]
        store = SparkPropertyStore(spark, bench.location)
        between = oracle_as_of(tuple(written), MIDNIGHT + 7 * DAY).rt_up_to(MIDNIGHT + 6 * DAY)
        assert expected[-2].keys() - between.keys()  # after a commit and before its sync, keys that changed are missing
        for condition, rows in ((bench.up_to_last(1), between), (bench.up_to_last(), expected[-1])):
            store.write_view("daily.orders_asof", "daily.orders_ro", condition)
            assert read("SELECT * FROM daily.orders_asof") == rows
        store.write_view("daily.orders_asof", "daily.orders_ro", None)
        assert not spark.catalog.tableExists("daily.orders_asof")
        spark.sql("CREATE VIEW daily.theirs AS SELECT * FROM daily.orders_ro")
        for view in ("daily.theirs", "daily.none"):
            store.write_view(view, "daily.orders_ro", None)
        with pytest.raises(TableError, match="is not replaced"):
            store.write_view("daily.theirs", "daily.orders_ro", bench.up_to_last())
        with pytest.raises(TableError, match="the policy's table lies at"):
            SparkPropertyStore(spark, f"{bench.location}2").write_view(
                "daily.mine", "daily.orders_ro", bench.up_to_last()
            )
        assert not spark.catalog.tableExists("daily.mine")
        assert spark.catalog.tableExists("daily.theirs")
        spark.sql("DROP VIEW daily.theirs")
        write(8, **AT_ONCE)
        write(9, **AT_ONCE)
        for (sql, readable), day in zip(bench.cuts(), expected, strict=True):
            assert not readable
            with pytest.raises(Exception, match="Cleaner cleaned up the timestamp of interest"):
                assert read(sql) != day
    finally:
        spark.sql("DROP TABLE daily.orders_ro")


def test_time_travel_goes_by_the_request(spark, tmp_path):
    """What was in flight at a moment is read as of it once it has ended (facts: time-travel-by-request, time-travel-limit)."""
    options = {"hoodie.parquet.small.file.limit": "0"}
    table = StockTable(spark, str(tmp_path / "t"), "id int, p string, ts long", options=options)
    reader = spark.read.format("hudi").option("hoodie.query.as.ro.table", "true")

    def read(instant):
        rows = reader.option("as.of.instant", instant).load(table.base).select("id", "_hoodie_file_name").collect()
        return {row[0] for row in rows}, {row[1] for row in rows}

    def in_flight():
        completed, requested, _ = table.completed()[-1]
        moment = add_ms(requested, 1)
        assert moment < completed
        return read(add_ms(requested, -1)), read(moment), read(completed)

    table.write([(1, "a", 1_000)], "insert")
    first = table.last_completed
    table.write([(2, "a", 500)], "bulk_insert")
    before, then, after = in_flight()
    assert ([before[0], then[0]], after) == ([{1}, {1, 2}], then)
    spark.sql(f"CALL run_clustering(path => '{table.base}', op => 'scheduleAndExecute')").collect()
    before, then, after = in_flight()
    assert (then, before[1] & then[1]) == (after, set())
    table.write([(3, "a", 500)], "insert_overwrite")
    before, then, after = in_flight()
    assert ([before[0], then[0]], after) == ([{1, 2}, {3}], then)
    completed, requested, _ = table.completed()[-1]
    timeline, died = Path(table.base, ".hoodie", "timeline"), add_ms(requested, -1)
    (timeline / f"{died}.clustering.requested").touch()
    assert read(completed)[0] == {3}
    (timeline / f"{died}.clustering.requested").rename(timeline / f"{died}.deltacommit.requested")
    with pytest.raises(Exception, match="must be earlier than the first incomplete commit"):
        read(completed)
    assert read(first)[0] == {1}
