"""Faults injected into a real table, one test each: docs/concepts/tested.md describes them. None may end in a clean `pass`.

A fault is injected into a copy of a table that was compacted correctly, and verification has only the table to go by.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from zoneinfo import ZoneInfo

import fastavro
import pytest

from etc_policy.gx.verifier import GxVerifier
from etc_policy.hudi.log_times import read_all_logs
from etc_policy.hudi.table import FileTableReader
from etc_policy.plan.model import make_plan
from etc_policy.policy.files import read_suite
from etc_policy.report.freshness import table_freshness
from etc_policy.table.history import SEEN_UNTIL, THRESHOLD
from etc_policy.table.instants import add_ms, instant_to_ms
from etc_policy.verify.compared_rows import pin_of
from etc_policy.verify.evidence import Evidence
from etc_policy.verify.log_checks import LOGS
from etc_policy.verify.metadata_checks import COMPACTED, FILES, INDEXES, LISTING, PROMISE
from etc_policy.verify.prover import claim_of, verify_table
from etc_policy.verify.suites import parse_suite
from etc_policy.wiring import clock_ms
from tests.integration.bench import SECOND, Bench
from tests.integration.compared import remember, resting
from tests.integration.history import EPOCH_MS, Write, write_history
from tests.integration.hudi_tables import StockTable
from tests.lies.about_rows import read_rows, write_in_as_many_bytes
from tests.nightly import nightly

pytestmark = pytest.mark.spark

T = EPOCH_MS + SECOND * 1000
NOW = T + 10_000
#: After every event of the table's history.
LATER = EPOCH_MS + 600_000


def verdict(bench, level="metadata"):
    """The verification's status, and the status of each check by its name; without rows no Spark is used.

    A proof of rows that rests on those from before the fault finds the same as one of all rows.
    """
    state, history = FileTableReader().read_with_history(str(bench.base), bench.policy.event_time)[:2]
    state = state if level == "metadata" else read_all_logs(state, bench.policy, None)
    evidence = Evidence(bench.policy, state, history, claim_of(bench.policy, state, LATER), LATER)
    worst, status = _judged(bench, evidence, level)
    if level == "data":
        assert _judged(bench, resting(evidence), level) == (worst, status)
    return status, worst


def _judged(bench, evidence, level):
    path, text = read_suite("ro_complete", Path("no-such-project"))
    found = verify_table(evidence, parse_suite(text, path), level, lambda: GxVerifier(bench.spark))
    order = ("pass", "warn", "fail", "error")
    worst = {}
    for result in found.expectations:
        worst[result.expectation] = max(worst.get(result.expectation, "pass"), result.status, key=order.index)
    return worst, found.status


def failed(checks):
    return {name for name, status in checks.items() if status == "fail"}


def rewrite(path, change):
    """Changes the one record of an Avro file of the timeline."""
    with path.open("rb") as stream:
        reader = fastavro.reader(stream)
        schema, record = reader.writer_schema, next(iter(reader))
    change(record)
    with path.open("wb") as stream:
        fastavro.writer(stream, fastavro.parse_schema(schema), [record])
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def promise(key, value):
    return lambda record: record["extraMetadata"].__setitem__(key, value)


@pytest.fixture(scope="module")
def honest(spark, written_table, tmp_path_factory):
    """Compacted up to T by a plan of etc: commits 1 to 3 and 5 are merged, 6 stays behind."""
    bench = Bench(spark, tmp_path_factory.mktemp("honest") / "t")
    shutil.copytree(written_table, bench.base)
    assert bench.apply(bench.plan()).status == "compacted"
    remember(spark, bench.policy, bench.state(), latest_ms=0)
    return bench


@pytest.fixture
def faulty(spark, honest, tmp_path):
    """A copy of the honest table, all rows of which were compared, to inject a fault into."""
    shutil.copytree(honest.base, tmp_path / "t")
    bench = Bench(spark, tmp_path / "t")
    remember(spark, bench.policy, bench.state(), latest_ms=0)
    return bench


def timeline_file(bench, ending):
    (path,) = (bench.base / ".hoodie" / "timeline").glob(f"[0-9]*{ending}")
    return path


def commit_file(bench):
    return timeline_file(bench, ".commit")


def swapped_file(bench):
    """A base file that the compaction wrote, and its predecessor."""
    instant = commit_file(bench).name.split("_")[0]
    newest = next(path for path in sorted(bench.base.rglob("*.parquet")) if f"_{instant}.parquet" in path.name)
    file_id = newest.name.split("_")[0]
    (before,) = (path for path in newest.parent.glob(f"{file_id}_*.parquet") if path != newest)
    return newest, before


def swap_in_as_many_bytes(faulty):
    """The rows of a predecessor in a new base file, which keeps its size."""
    import pyarrow.parquet

    newest, before = swapped_file(faulty)
    wanted, table = newest.stat().st_size, pyarrow.parquet.read_table(before, partitioning=None)
    kept = {key.decode(): value.decode() for key, value in table.schema.metadata.items() if b"bloom" not in key}

    def write(padding):
        bare = table.replace_schema_metadata(None)
        with pyarrow.parquet.ParquetWriter(newest, bare.schema, store_schema=False) as writer:
            writer.write_table(bare)
            writer.add_key_value_metadata({**kept, "padding": "x" * padding})
        return newest.stat().st_size

    padding = 0
    for _ in range(5):  # a length is written in as few bytes as it needs
        padding += wanted - write(padding)
    assert write(padding) == wanted
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)


def test_a_proof_rests_on_what_was_compared_before(honest):
    state, history = FileTableReader().read_with_history(str(honest.base), honest.policy.event_time)[:2]
    evidence = resting(Evidence(honest.policy, state, history, claim_of(honest.policy, state, LATER), LATER))
    path, text = read_suite("ro_complete", Path("no-such-project"))
    found = verify_table(evidence, parse_suite(text, path), "data", lambda: GxVerifier(honest.spark))
    groups = [one for one in state.slices if one.partition in state.partitions_with_logs]
    assert 0 < len(groups) < len(state.slices)
    assert (found.status, found.rests_on.file_groups_compared) == ("pass", len(groups))


@pytest.mark.parametrize("told_by", ["time", "size", "name"])
def test_a_fault_in_a_partition_that_no_run_has_changed(faulty, told_by):
    """A key twice in a file that was compared, whatever says that it is another one; what metadata shows ends the check."""
    import pyarrow.parquet

    path = closed_file(faulty)
    rows, kept = read_rows(path)
    if told_by == "time":
        write_in_as_many_bytes(path, _doubled(rows), kept)
    else:
        pyarrow.parquet.write_table(_doubled(rows), path)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    if told_by == "name":
        path.rename(path.with_name(path.name.replace("_", "_9", 1)))
    found = failed(verdict(faulty, "data")[1])
    assert ("expect_no_key_twice" if told_by == "time" else FILES) in found


def closed_file(bench):
    """The base file of the partition without log files."""
    state = bench.state()
    (one,) = (one for one in state.slices if one.partition not in state.partitions_with_logs)
    return bench.base / one.partition / one.base_file


def _doubled(rows):
    import pyarrow

    return pyarrow.concat_tables([rows, rows.slice(0, 1)])


@pytest.mark.extended
def test_a_byte_that_changes_in_a_file_that_does_not_waits_for_a_proof_of_all_rows(spark, faulty):
    """As bits rot: no listing says that the file is another one."""
    path = closed_file(faulty)
    rows, kept = read_rows(path)
    write_in_as_many_bytes(path, _doubled(rows), kept)
    remember(spark, faulty.policy, faulty.state(), latest_ms=0)  # as if nothing had changed since
    state, history = FileTableReader().read_with_history(str(faulty.base), faulty.policy.event_time)[:2]
    evidence = Evidence(faulty.policy, state, history, claim_of(faulty.policy, state, LATER), LATER)
    assert [_judged(faulty, one, "data")[1] for one in (resting(evidence), evidence)] == ["pass", "fail"]


def test_the_truth_passes_at_every_level(honest):
    assert verdict(honest) == ("pass", dict.fromkeys((COMPACTED, FILES, "no_double_keys_possible", PROMISE), "pass"))
    status, checks = verdict(honest, "data")
    assert (status, failed(checks)) == ("pass", set())
    assert len(checks) > 6
    status, checks = verdict(honest, "logs")
    assert (status, checks[LOGS]) == ("pass", "pass")


@pytest.mark.extended
@pytest.mark.parametrize("began", ["before the compaction completed", "before all commits"])
def test_the_truth_passes_beside_a_writer_in_flight_and_a_lie_does_not(faulty, began):
    """Hudi forbids time travel beyond a commit that is incomplete, so both views are read right before it, or as they are."""
    state = faulty.state()
    completed = state.last_compaction.completed
    first = min(instant.requested for instant in state.instants)
    writer = add_ms(completed, -1) if began == "before the compaction completed" else add_ms(first, -1)
    for suffix in ("requested", "inflight"):
        (faulty.base / ".hoodie" / "timeline" / f"{writer}.deltacommit.{suffix}").touch()
    assert pin_of(faulty.state()) == (add_ms(writer, -1) if began == "before the compaction completed" else None)
    with pytest.raises(Exception, match="must be earlier than the first incomplete commit"):
        faulty.spark.read.format("hudi").option("as.of.instant", completed).load(str(faulty.base)).count()
    status, checks = verdict(faulty, "data")
    assert (status, failed(checks)) == ("pass", set())
    swap_in_as_many_bytes(faulty)
    assert failed(verdict(faulty, "data")[1]) - {INDEXES} == {"expect_rows_of_their_base_file"}


def test_a_log_file_below_the_threshold_is_left_out_of_the_plan(spark, written_table, tmp_path):
    shutil.copytree(written_table, tmp_path / "t")
    bench = Bench(spark, tmp_path / "t")
    plan = bench.plan()
    table = plan.tables[0].model_copy(update={"operations": plan.tables[0].operations[1:]})
    assert bench.apply(make_plan(plan.created_at, (table,))).status == "compacted"
    assert failed(verdict(bench)[1]) == {COMPACTED}


def test_a_threshold_that_was_forged_in_the_commit(faulty):
    rewrite(commit_file(faulty), promise(THRESHOLD, str(T + 1)))
    assert failed(verdict(faulty)[1]) == {PROMISE}


def test_a_threshold_that_was_forged_in_commit_and_plan(faulty):
    """Commit 6 holds events from second 500 on."""
    for path in (commit_file(faulty), timeline_file(faulty, ".compaction.requested")):
        rewrite(path, promise(THRESHOLD, str(EPOCH_MS + 500_000)))
    assert failed(verdict(faulty)[1]) == {COMPACTED}


def test_a_threshold_that_is_after_the_compaction_itself(faulty):
    completed = commit_file(faulty).name.split(".")[0].split("_")[1]
    zone = ZoneInfo(faulty.state().timezone)
    for path in (commit_file(faulty), timeline_file(faulty, ".compaction.requested")):
        rewrite(path, promise(THRESHOLD, str(instant_to_ms(completed, zone) + 1)))
    assert PROMISE in failed(verdict(faulty)[1])


def test_a_compaction_that_says_that_it_had_seen_less_than_it_merged(faulty):
    """What it had not seen would only count as late."""
    first = faulty.state().instants[0].completed
    for path in (commit_file(faulty), timeline_file(faulty, ".compaction.requested")):
        rewrite(path, promise(SEEN_UNTIL, add_ms(first, 1)))
    assert failed(verdict(faulty)[1]) == {PROMISE}


def test_a_metadata_table_that_lacks_the_compaction(faulty):
    """Readers that take their listing from it see the base files of before."""
    instant = commit_file(faulty).name.split("_")[0]
    (commit,) = (faulty.base / ".hoodie/metadata/.hoodie/timeline").glob(f"{instant}_*.deltacommit")
    commit.unlink()
    status, checks = verdict(faulty, "data")
    assert (status, failed(checks)) == ("fail", {LISTING})


def test_a_base_file_that_is_gone_so_that_its_predecessor_shows_again(faulty):
    swapped_file(faulty)[0].unlink()
    assert failed(verdict(faulty)[1]) == {COMPACTED, FILES}


def test_a_base_file_with_the_content_of_its_predecessor(faulty):
    newest, before = swapped_file(faulty)
    shutil.copyfile(before, newest)
    assert failed(verdict(faulty)[1]) == {FILES}


@pytest.mark.extended
def test_a_base_file_with_the_content_of_its_predecessor_in_as_many_bytes(faulty):
    """Both views show the old rows, so that they agree; only the rows themselves say which file they were written to."""
    swap_in_as_many_bytes(faulty)
    assert verdict(faulty)[0] == "pass"
    status, checks = verdict(faulty, "data")
    assert (status, failed(checks)) == ("fail", {"expect_rows_of_their_base_file", INDEXES})


@pytest.mark.parametrize("which", ["log file", "base file"])
def test_a_missing_write_stat(faulty, which):
    """Of the log file that stays behind, or of a base file that the compaction wrote."""
    deltas = (faulty.base / ".hoodie" / "timeline").glob("[0-9]*.deltacommit")
    path = commit_file(faulty) if which == "base file" else max(deltas)

    def drop(record):
        stats = next(stats for stats in record["partitionToWriteStats"].values() if stats)
        stats.pop()

    rewrite(path, drop)
    status, checks = verdict(faulty)
    assert status == "fail"
    assert FILES in failed(checks)


@pytest.mark.parametrize("level", ["logs", *nightly("data")])
def test_an_event_time_that_was_silently_taken_for_none(spark, tmp_path, level):
    """Hudi records no time for the 5 beside a 13-digit one, so that the log file seems to hold later events only."""
    options = {
        "hoodie.write.track.event.time.watermark": "true",
        "hoodie.payload.event.time.field": "ts",
        "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
    }
    table = StockTable(spark, str(tmp_path / "t"), "id int, p string, v string, ts long", options=options)
    table.write([(1, "x", "a", 3), (2, "x", "a", EPOCH_MS)], "insert")
    table.write([(1, "x", "new", 5), (2, "x", "new", NOW + 60_000)])
    bench = Bench(spark, tmp_path / "t")
    assert verdict(bench) == ("pass", {COMPACTED: "pass", FILES: "pass"})
    status, checks = verdict(bench, level)
    assert (status, LOGS in failed(checks)) == ("fail", True)


@pytest.mark.parametrize("level", ["logs", *nightly("data")])
def test_a_commit_that_records_later_event_times_than_its_log_file_holds(faulty, level):
    """The writer's word alone; the log file that stays behind holds events from second 500 on."""

    def later(record):
        for stats in record["partitionToWriteStats"].values():
            for stat in stats:
                stat["minEventTime"] = stat["minEventTime"] and stat["minEventTime"] + 1000

    rewrite(max((faulty.base / ".hoodie" / "timeline").glob("[0-9]*.deltacommit")), later)
    assert verdict(faulty)[0] == "pass"
    status, checks = verdict(faulty, level)
    assert (status, failed(checks)) == ("fail", {LOGS})


@pytest.mark.extended
def test_a_late_row_after_the_check_is_shown_by_the_next_freshness(spark, faulty):
    def freshness():
        state, history = FileTableReader().read_with_history(str(faulty.base), faulty.policy.event_time)[:2]
        return table_freshness(faulty.policy, state, NOW, clock_ms(), history)

    before = freshness()
    assert (before.threshold_ms, before.late_data.writes, before.late_data.regression_ms) == (T, 0, 0)
    write_history(spark, faulty.base, [Write(((7, "late", 205),))], first=7)
    after = freshness()
    assert (after.late_data.writes, after.late_data.file_groups, after.late_data.rows_at_most) == (1, 1, 1)
    assert after.complete_until_ms == after.late_data.complete_until_ms == EPOCH_MS + 205_000 - 1
    assert after.late_data.regression_ms == 5_001
    assert before.complete_until_ms == T
    assert verdict(faulty)[0] == "pass", "what the plan had not seen does not make its claim false"
