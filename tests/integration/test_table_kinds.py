"""The promise of `etc` on many kinds of table: RT stays, RO is complete up to T, later stock writes are right."""

from __future__ import annotations

import datetime as dt
import shutil
import time
from dataclasses import dataclass, field

import pytest

from etc_policy.api.table_apply import TableApply
from etc_policy.hudi import commits as hudi_commits
from etc_policy.hudi.log_times import fill_from_logs
from etc_policy.hudi.table import FileTableReader
from etc_policy.plan.clock import MAX_CLOCK_SKEW_MS
from etc_policy.policy.manifest import EventTime, Verify
from etc_policy.verify.evidence import Evidence
from etc_policy.verify.metadata_checks import COMPACTED, FILES, PROMISE, always_checked
from etc_policy.verify.prover import claim_of
from etc_policy.wiring import Environment
from tests.integration.bench import Bench
from tests.integration.history import (
    EPOCH_MS,
    HISTORY,
    QUICK,
    WRITER,
    Oracle,
    Views,
    Write,
    partition_of,
    write_history,
)

pytestmark = pytest.mark.spark
T = 200
NO_MDT = {"hoodie.metadata.enable": "false"}
IN_STRUCT = {
    "hoodie.datasource.write.precombine.field": "e.ts",
    "hoodie.payload.event.time.field": "e.ts",
    "hoodie.payload.ordering.field": "e.ts",
}
FLAT = {
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
}
NESTED = {
    "hoodie.datasource.write.partitionpath.field": "p,q",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.datasource.write.partitionpath.urlencode": "true",
    **NO_MDT,
}
BUCKETS = {
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "1",
    "hoodie.bucket.index.hash.field": "id",
}
NON_BLOCKING = {
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    "hoodie.clean.failed.writes.policy": "LAZY",
}
LOG_ONLY = {**BUCKETS, **NON_BLOCKING, **NO_MDT}
MOVING = {
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.record.index.update.partition.path": "true",
}
VERSION_6 = {"hoodie.write.table.version": "6", "hoodie.write.auto.upgrade": "false", **NO_MDT}
ROLLING = {**FLAT, **NO_MDT, "hoodie.logfile.max.size": "3000", "hoodie.logfile.data.block.max.size": "1500"}
ARCHIVING = {
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.clean.commits.retained": "1",
    **NO_MDT,
}

#: Options -> a table with `Kind.history` and the rows that RT must return.
_WRITTEN = {}


@dataclass
class Kind(Bench):
    """A table of some kind, with what RT must return (`rows`: key -> (value, event second)) kept beside it."""

    options: dict = field(default_factory=dict)
    schema: str = "id int, p string, v string, ts long"
    unit: str | None = "ms"
    column: str = "ts"
    to_time: object = staticmethod(lambda second: EPOCH_MS + second * 1000)
    to_row: object = None
    rows: dict = field(default_factory=dict)
    latest_wins: bool = False
    level: str = "data"

    @property
    def policy(self):
        event_time = EventTime(column=self.column, unit=self.unit)
        return super().policy.model_copy(update={"event_time": event_time, "verify": Verify(level=self.level)})

    def write(self, *rows, operation="upsert", **options):
        """One commit of (key, value, event second), in the oracle too."""
        self.send([self.row(*row) for row in rows], operation, **options)
        for key, value, second in rows:
            if self.latest_wins or key not in self.rows or second >= self.rows[key][1]:
                self.rows[key] = (value, second)

    def send(self, records, operation="upsert", **options):
        settings = {**WRITER, **QUICK, "hoodie.datasource.write.operation": operation, **self.options, **options}
        settings = {key: value for key, value in settings.items() if value is not None}
        frame = self.spark.createDataFrame(records, self.schema).coalesce(1)
        mode = "append" if self.base.exists() else "overwrite"
        frame.write.format("hudi").options(**settings).mode(mode).save(str(self.base))

    def row(self, key, value, second):
        if self.to_row is not None:
            return self.to_row(key, value, self.to_time(second))
        return (key, partition_of(key), value, self.to_time(second))

    def history(self):
        """Late, updated and newer rows; commits 2 and 3 hold events at or below T, the last one does not.

        Plain tables with the same options are copies of the first one.
        """
        plain = (self.schema, self.to_row, self.unit) == (Kind.schema, None, Kind.unit)
        key = tuple(sorted(self.options.items(), key=str)) if plain else None
        if key in _WRITTEN:
            written, self.rows = _WRITTEN[key][0], dict(_WRITTEN[key][1])
            shutil.copytree(written, self.base)
            return
        self._write_history()
        if key is not None:
            _WRITTEN[key] = (shutil.copytree(self.base, self.base.with_name("written")), dict(self.rows))

    def _write_history(self):
        self.write(*((key, "v0", key) for key in range(9)))
        self.write((1, "v1", 100), (2, "v1", 101), (3, "v1", 102))
        self.write((1, "v2", 150), (4, "v2", 500))
        self.write((1, "v3", 600), (5, "v3", 601))

    def view(self, **options):
        named = {key.replace("__", "."): value for key, value in options.items()}
        found = self.spark.read.format("hudi").options(**named).load(str(self.base)).select("id", "v").collect()
        assert len({row.id for row in found}) == len(found), f"a key stands twice: {sorted(found)}"
        return {row.id: row.v for row in found}

    def rust(self):
        from hudi import HudiTable

        found = [row for batch in HudiTable(str(self.base)).read() for row in batch.to_pylist()]
        assert len({row["id"] for row in found}) == len(found)
        return {row["id"]: row["v"] for row in found}

    def check_rt(self, *, rust=True):
        expected = {key: value for key, (value, _) in self.rows.items()}
        assert self.view() == expected
        if self.options.get("hoodie.metadata.enable") != "false":
            assert self.view(hoodie__metadata__enable="false") == expected
        if rust:
            assert self.rust() == expected

    def check_ro(self, second):
        ro = self.view(hoodie__query__as__ro__table="true")
        expected = {key: value for key, (value, at) in self.rows.items() if at <= second}
        assert {key: ro.get(key) for key in expected} == expected
        return ro

    def settled_plan(self, second=T):
        """The table's plan once its last commit is past the clock-skew bound."""
        time.sleep(MAX_CLOCK_SKEW_MS / 1000)
        return self.plan(second)

    def holds(self, second=T, *, left=None):
        """Plan and apply up to a second, and check everything; `left`: whether log files must stay behind or may not."""
        properties, plan = self.properties(), self.settled_plan(second)
        table = plan.tables[0]
        assert table.action == "compact", table.reason
        if left is not None:
            assert any(operation.log_files_remaining for operation in table.operations) == left
        assert self.apply(plan).status == "compacted"
        self.check_rt()
        self.check_ro(second)
        assert self.properties() == properties
        state = self.state()
        _, history = FileTableReader().read_with_history(str(self.base), self.policy.event_time)[:2]
        now_ms = EPOCH_MS + second * 1000 + self.policy.data_latency_ms
        proved = always_checked(Evidence(self.policy, state, history, claim_of(self.policy, state, now_ms), now_ms))
        assert {check.status for check in proved} == {"pass"}, proved
        assert {COMPACTED, FILES, PROMISE} <= {check.expectation for check in proved}
        after = self.plan(second).tables[0]
        assert (after.action, after.watermark_before_ms) == ("nothing_due", table.watermark_after_ms)
        return table

    def writes_on(self):
        self.write((1, "later", 900), (8, "later", 901))
        self.check_rt()

    def sql(self, text):
        """One statement of Spark SQL with the table as `kind`."""
        self.spark.sql(f"CREATE TABLE kind USING hudi LOCATION '{self.base}'")
        try:
            return self.spark.sql(text).collect()
        finally:
            self.spark.sql("DROP TABLE kind")

    def timeline(self, pattern):
        return sorted((self.base / ".hoodie" / "timeline").glob(pattern))

    def roll_back_last(self):
        instant = self.timeline("*_*.deltacommit")[-1].name.split("_")[0]
        self.sql(f"CALL rollback_to_instant(table => 'kind', instant_time => '{instant}')")


@pytest.fixture
def kind(spark, tmp_path, monkeypatch):
    made = []

    def make(**settings):
        made.append(Kind(spark, tmp_path / "t", **settings))
        return made[-1]

    yield make
    for table in made:
        check_reading_of_many(table, monkeypatch)


def check_reading_of_many(table, monkeypatch):
    """As a table of many commits it is read by other means, and the same is found."""
    place = str(table.base), table.policy.event_time
    found = FileTableReader().read_with_history(*place, archived=None)[:2]
    matched = []
    by_pattern = hudi_commits._by_pattern
    monkeypatch.setattr(hudi_commits, "_by_pattern", lambda content: matched.append(by_pattern(content)) or matched[-1])
    monkeypatch.setattr(hudi_commits, "_MANY", 1)
    assert FileTableReader().read_with_history(*place, archived=None)[:2] == found
    assert any(matched) or found[0].table_version == 6  # whose commits are JSON


def nested_row(key, value, at):
    """Partition values that need escapes, and an empty one."""
    return (key, ["a b/c", "d=e:f", ""][key % 3], value, at, ["x%", "y"][key % 2])


@pytest.mark.extended
def test_nested_partitions_and_seconds(kind):
    schema = "id int, p string, v string, ts int, q string"
    table = kind(
        schema=schema, unit="s", options=NESTED, to_row=nested_row, to_time=lambda second: EPOCH_MS // 1000 + second
    )
    table.history()
    assert "p=a b%2Fc/q=x%25" in {file_slice.partition for file_slice in table.state().slices}
    assert table.plan().tables[0].unknown_log_files == 0
    table.holds(left=True)
    table.writes_on()


DOTTED = (".net", ".d", "plain")


@pytest.mark.extended
def test_partitions_that_begin_with_a_dot(kind):
    """Hudi lists them like any other, and so does `etc`."""
    table = kind(to_row=lambda key, value, at: (key, DOTTED[key % 3], value, at))
    table.history()
    assert {file_slice.partition for file_slice in table.state().slices} == set(DOTTED)
    table.holds(left=True)
    table.writes_on()


PARTIAL = {"hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.PartialUpdateAvroPayload"}


@pytest.mark.extended
@pytest.mark.parametrize("version", [{}, VERSION_6], ids=["9", "6"])
def test_updates_that_change_a_part_of_a_row(kind, version):
    """A log file whose event times are all after T changes rows that are not: every log file is compacted, and said so."""
    table = kind(options={**PARTIAL, **version, **NO_MDT}, granularity="file_slice" if version else "log_file")
    table.write(*((key, "v0", key) for key in range(9)))
    table.write((1, "v1", 100))
    table.send([(2, partition_of(2), None, table.to_time(500)), (3, partition_of(3), "v2", table.to_time(501))])
    table.rows |= {2: ("v0", 500), 3: ("v2", 501)}
    assert table.state().updates_in_part
    assert any("may change a part of a row" in one for one in table.settled_plan().tables[0].warnings)
    table.holds(left=False)
    table.write((1, "later", 900), (8, "later", 901))
    table.check_rt(rust=not version)  # of version 6 hudi-rs says that it does not know the payload


@pytest.mark.extended
@pytest.mark.parametrize("block_format", ["avro", "parquet"])
def test_an_event_time_inside_a_struct(kind, block_format):
    """Commits record it, and where they would not, the log blocks hold it."""
    table = kind(
        schema="id int, p string, v string, e struct<n: string, ts: long>",
        column="e.ts",
        to_row=lambda key, value, at: (key, partition_of(key), value, ("n", at)),
        options={**IN_STRUCT, "hoodie.logfile.data.block.format": block_format},
    )
    table.history()
    state = table.state()
    assert {log_file.min_event_time_ms is None for _, log_file in state.log_files} == {False}
    read = fill_from_logs(state.with_log_files(without_time), table.policy, None)
    times = [[log_file.min_event_time_ms for _, log_file in one.log_files] for one in (read, state)]
    assert times[0] == times[1]
    assert command_verifies(table, "data") == ("compacted", "pass")
    table.check_rt()
    table.check_ro(T)
    table.writes_on()


def without_time(_, log_file):
    return log_file._replace(min_event_time_ms=None)


@pytest.mark.extended
def test_no_partitions_and_log_files_that_roll_over(kind):
    table = kind(options=ROLLING)
    padding = "".join(chr(33 + (7 * place) ** 3 % 90) for place in range(150))
    value = [f"{version}{padding}" for version in range(4)]
    table.write(*((key, value[0], key) for key in range(60)))
    table.write(*((key, value[1], 100 if key == 30 else 700 + key) for key in range(60)))
    table.write(*((key, value[2], 900 + key) for key in range(60)))
    (only,) = table.state().slices
    assert len(only.log_files) > 2 * len({log_file.requested for log_file in only.log_files})
    operation = table.holds(left=True).operations[0]
    compacted, remaining = operation.log_files_compacted, operation.log_files_remaining
    assert {name.split("_")[1] for name in compacted}.isdisjoint(name.split("_")[1] for name in remaining)
    table.write((1, "later", 2000))
    table.check_rt()


@pytest.mark.extended
def test_log_only_slices_with_the_same_file_id_in_every_partition(kind):
    table = kind(index="bucket", options=LOG_ONLY)
    table.history()
    slices = table.state().slices
    assert {file_slice.base_file for file_slice in slices} == {None}
    assert len({file_slice.file_id for file_slice in slices}) == 1
    left = {operation.partition for operation in table.holds(left=True).operations if operation.log_files_remaining}
    assert left == {"b", "c"}
    table.writes_on()
    table.options = {**BUCKETS, **NO_MDT}
    table.send([table.row(2, "", 0)], "delete_partition", **{"hoodie.datasource.write.partitions.to.delete": "c"})
    table.rows = {key: row for key, row in table.rows.items() if partition_of(key) != "c"}
    assert {file_slice.partition for file_slice in table.state().slices} == {"a", "b"}
    table.check_rt()


@pytest.fixture
def timestamps(kind):
    """A table whose commits hold no event times: Hudi records none of timestamps."""
    schema = "id int, p string, v string, ts timestamp"
    table = kind(
        schema=schema, unit=None, to_time=lambda second: dt.datetime.fromtimestamp(EPOCH_MS / 1000 + second, dt.UTC)
    )
    table.history()
    return table


@pytest.mark.extended
def test_timestamps_from_column_statistics(timestamps):
    timestamps.read_stats = True
    timestamps.holds(left=True)
    timestamps.writes_on()


@pytest.mark.extended
def test_timestamps_that_are_not_known_at_all(timestamps):
    assert timestamps.settled_plan().tables[0].unknown_log_files == len(list(timestamps.state().log_files))
    timestamps.holds(left=False)
    assert not list(timestamps.state().log_files)


@pytest.mark.extended
def test_the_command_reads_column_statistics_too(timestamps):
    timestamps.read_stats = True
    assert command_verifies(timestamps) == ("compacted", "pass")


def command_verifies(table, level="metadata"):
    """What `etc apply` says of the table: status of the run and of the verification, which needs the statistics too."""
    environment = Environment(table.base.parent, lambda _: None)
    environment.session = table.spark
    policy = table.policy.model_copy(update={"verify": Verify(level=level)})
    plan = table.settled_plan()
    run = TableApply(environment, policy, EPOCH_MS + T * 1000 + policy.data_latency_ms)
    run.run(plan)
    return run.result.status, run.result.verification.status


@pytest.mark.extended
def test_dates_from_column_statistics(kind):
    schema = "id int, p string, v string, ts date"
    table = kind(schema=schema, unit=None, read_stats=True, to_time=lambda day: dt.date(1970, 1, 1) + dt.timedelta(day))
    table.write((1, "v0", 10_000))
    table.write((1, "v1", 19_675))
    assert [log_file.min_event_time_ms for _, log_file in table.state().log_files] == [19_675 * 86_400_000]


@pytest.mark.extended
def test_a_record_that_moves_between_partitions(kind):
    table = kind(index="global_record_index", options=MOVING, to_row=lambda *row: (row[0], where[row[0]], *row[1:]))
    where = {key: partition_of(key) for key in range(9)}
    table.write(*((key, "v0", key) for key in range(9)))
    table.write((1, "v1", 100), (3, "v1", 600))
    where[1] = "c"
    table.write((1, "moved", 110), (5, "v2", 700))
    table.holds()
    table.writes_on()


def test_version_6_by_whole_slices(kind):
    table = kind(options=VERSION_6, schema="id int, p string, v string, ts long, _hoodie_is_deleted boolean")
    table.to_row = lambda key, value, at: (key, partition_of(key), value, at, value == "")
    table.write(*((key, "v0", 300 + key) for key in range(9)))
    table.write((1, "v1", 310), (2, "v1", 311))
    table.write((3, "v2", 400), (0, "", 390))
    del table.rows[0]
    refused = table.plan(100).tables[0]
    assert (refused.action, refused.reason_code) == ("refused", "ETC218")
    table.granularity = "file_slice"
    table.holds(left=False)
    table.writes_on()


@pytest.mark.extended
def test_rollback_and_a_killed_writer_in_the_history(kind):
    table = kind(options=NO_MDT)
    table.history()
    kept = dict(table.rows)
    table.write((1, "gone", 160), (6, "gone", 161))
    table.roll_back_last()
    table.rows = kept
    kept = dict(table.rows)
    table.write((2, "killed", 170), (4, "killed", 610))
    completed = table.timeline("*_*.deltacommit")[-1]
    completed.unlink()
    (completed.parent / f".{completed.name}.crc").unlink()
    table.rows = kept
    assert [instant.action for instant in table.state().pending] == ["deltacommit"]
    table.holds()
    table.writes_on()
    assert len(table.timeline("*_*.rollback")) == 2


@pytest.mark.extended
@pytest.mark.parametrize("committed_to_mdt", [True, False])
def test_rollback_of_a_commit_in_our_pending_plan(kind, committed_to_mdt):
    table = kind(options={} if committed_to_mdt else NO_MDT)
    table.write(*((key, "v0", key) for key in range(9)))
    table.write((1, "v1", 100), (3, "v1", 101))
    kept = dict(table.rows)
    table.write((1, "gone", 150), (4, "gone", 151))
    plan = table.settled_plan()
    if committed_to_mdt:
        table.apply(plan)
        (commit,) = table.timeline("*_*.commit")
        commit.unlink()
        (commit.parent / f".{commit.name}.crc").unlink()
    else:
        table.publish(plan)
    table.roll_back_last()
    table.rows = kept
    assert table.runner.finish_pending(table.policy, str(table.base)) is None
    instant = plan.tables[0].instant
    assert len(table.timeline(f"{instant}_*.commit")) == 1  # it is withdrawn: a commit that wrote nothing
    assert not list(table.base.rglob(f"*_{instant}.parquet"))
    table.check_rt()
    table.holds()
    table.writes_on()


@pytest.mark.extended
def test_a_stock_compaction_goes_first(kind):
    table = kind(options=NO_MDT)
    table.history()
    path, always = str(table.base), "hoodie.compact.inline.max.delta.commits=1,hoodie.metadata.enable=false"
    table.spark.sql(f"CALL run_compaction(op => 'schedule', path => '{path}', options => '{always}')")
    refused = table.settled_plan().tables[0]
    assert (refused.action, refused.reason_code) == ("refused", "pending_service")
    assert f"`etc finish --select {table.policy.name}`" in refused.hints[0]
    assert len(table.finish()) == 1
    table.check_rt()
    table.write((1, "w", 910), (3, "w", 155), (6, "w", 800))
    table.holds()
    table.write((1, "later", 2000))
    table.check_rt()


#: Names that a shell, a URL, a glob, a pattern or a terminal would take for something else.
ODD_NAMES = ("it's $(id)", "a b;c", "p%41=1", "[1]*", "{a,b}?", "-rf ~", "\u00fc\u20ac", "~root", "\u202eabc")


@pytest.mark.extended
def test_partition_names_that_mean_something_elsewhere(kind):
    table = kind(to_row=lambda key, *rest: (key, ODD_NAMES[key], *rest))
    table.history()
    for operation in table.holds().operations:
        assert (table.base / operation.partition).is_dir()
    assert {path.name for path in table.base.iterdir() if path.name != ".hoodie"} == set(ODD_NAMES)
    table.writes_on()
    table.holds(1000, left=False)


@pytest.mark.extended
def test_archived_timeline(kind):
    table = kind(options=ARCHIVING)
    table.write(*((key, "v0", key) for key in range(9)))
    for cycle in range(2):
        start = 100 * cycle
        table.write((cycle, f"a{cycle}", start + 11), (cycle + 1, f"a{cycle}", start + 12))
        table.write((cycle, f"b{cycle}", start + 60), (cycle + 2, f"b{cycle}", start + 61))
        table.holds(start + 30)
    for number in range(4):
        table.write((number, "later", 900 + number))
    state = table.state()
    assert "commit" not in {instant.action for instant in state.instants}
    assert state.last_compaction.threshold_ms == EPOCH_MS + 130_000
    table.holds(901)


def test_deletes_of_every_sort(kind):
    table = kind(options=NO_MDT, schema="id int, p string, v string, ts long, _hoodie_is_deleted boolean")
    table.to_row = lambda key, value, at: (key, partition_of(key), value, at, value == "")
    table.write(*((key, "v0", key) for key in range(9)))
    table.write((1, "v1", 500), (2, "", 501), (3, "v1", 100), (0, "", 50))
    table.write((4, "v2", 502))
    table.sql("DELETE FROM kind WHERE id = 7")
    keys = table.spark.createDataFrame([(6, "a", 0)], "id int, p string, ts long").coalesce(1)
    settings = {**WRITER, **NO_MDT, "hoodie.datasource.write.operation": "delete"}
    keys.write.format("hudi").options(**settings).mode("append").save(str(table.base))
    for key in (0, 2, 6, 7):
        del table.rows[key]
    table.holds()
    assert set(table.view(hoodie__query__as__ro__table="true")) == set(table.rows)
    table.writes_on()


@pytest.mark.extended
def test_commit_time_ordering_compacts_everything(kind):
    unordered = {"hoodie.datasource.write.precombine.field": None, "hoodie.payload.ordering.field": None}
    options = {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING", **unordered, **NO_MDT}
    table = kind(options=options, latest_wins=True)
    table.history()
    table.write((1, "older", 20))
    assert table.plan().tables[0].unknown_log_files == len(list(table.state().log_files))
    table.holds(left=False)
    table.writes_on()


@pytest.mark.extended
def test_stock_inline_compaction_runs_our_plan(kind):
    table = kind(options=NO_MDT)
    table.history()
    plan = table.settled_plan()
    table.publish(plan)
    inline = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "100"}
    table.write((2, "inline", 950), **inline)
    state = FileTableReader().read(str(table.base), table.policy.event_time)
    assert state.own_pending is None
    assert (state.last_compaction.threshold_ms, state.last_compaction.plan_id) == (EPOCH_MS + T * 1000, plan.plan_id)
    table.check_rt()
    table.check_ro(T)
    table.writes_on()


@pytest.mark.extended
def test_tables_without_meta_columns(kind):
    """Hudi compacts them rightly; what compares rows by key has none, and says so before anything is done.

    See facts: no-meta-columns.
    """
    table = kind(options={"hoodie.populate.meta.fields": "false", "hoodie.index.type": "SIMPLE", **NO_MDT})
    table.history()
    refused = table.plan().tables[0]
    assert (refused.action, refused.reason_code) == ("refused", "ETC234")
    table.level = "logs"
    table.holds(left=True)
    table.writes_on()
    assert command_verifies(table, "logs")[1] == "pass"


@pytest.mark.extended
@pytest.mark.parametrize(("kind_of_key", "reason_code"), [("Complex", "unsure_keys"), ("Simple", "ETC234")])
def test_computed_keys_that_are_not_those_of_delete_blocks(kind, kind_of_key, reason_code):
    """Readers of stock Hudi that go by keys show what was deleted (facts: complex-key-computed); simple keys are sure."""
    generator = f"org.apache.hudi.keygen.{kind_of_key}KeyGenerator"
    table = kind(
        options={
            "hoodie.populate.meta.fields": "false",
            "hoodie.datasource.write.keygenerator.class": generator,
            **NO_MDT,
        }
    )
    table.history()
    table.send([table.row(6, "", 700)], "delete")
    assert (6 in table.view(hoodie__merge__use__record__positions="false")) == (reason_code == "unsure_keys")
    refused = table.settled_plan().tables[0]
    assert (refused.action, refused.reason_code) == ("refused", reason_code)


@pytest.mark.extended
def test_tables_of_orc(kind, spark):
    """Hudi on Spark cannot compact them, whoever asks it to (facts: orc-not-compacted)."""
    table = kind(options={"hoodie.table.base.file.format": "ORC", **NO_MDT})
    table.history()
    refused = table.plan().tables[0]
    assert (refused.action, refused.reason_code) == ("refused", "base_file_format")
    options = "hoodie.compact.inline.max.delta.commits=1,hoodie.metadata.enable=false"
    with pytest.raises(Exception, match="Not support write to Orc file"):
        spark.sql(f"CALL run_compaction(op => 'scheduleandexecute', path => '{table.base}', options => '{options}')")


@pytest.mark.extended
def test_rows_written_to_a_deleted_partition_without_locks_are_named(spark, tmp_path):
    """Nobody reads them, and no error says so (apache/hudi 19793): plan and debug do."""
    table = Kind(spark, tmp_path / "t", index="bucket", options={**BUCKETS, **NON_BLOCKING, **NO_MDT})
    table.write((0, "v0", 10), (1, "v0", 11))
    table.write((0, "v1", 20), (1, "v1", 21))
    table.send([table.row(0, "", 0)], "delete_partition", **{"hoodie.datasource.write.partitions.to.delete": "a"})
    table.write((0, "v2", 30), (1, "v2", 31))
    assert table.view() == {1: "v2"}
    (unseen,) = table.state().unseen_files
    assert unseen.startswith("a/")
    (warning,) = table.plan(T).tables[0].warnings
    assert "1 file with rows that no reader sees" in warning


#: Soon archived: each commit takes one before it off the active timeline.
ARCHIVED = {
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.commits.archival.batch": "1",
    "hoodie.metadata.compact.max.delta.commits": "1",
}


@pytest.mark.extended
@pytest.mark.parametrize("has_metadata", [True, False])
def test_files_that_a_rollback_left(spark, tmp_path, has_metadata):
    """A rollback whose markers are gone leaves files (apache/hudi 14200, 18783). Once archiving has passed their instant, readers
    that list the folders show their rows, and those by the metadata table do not.

    See facts: rolled-back-files-shown. So etc refuses a table with such a table, and takes the rows for those of readers without.
    """
    options = {**QUICK, **ARCHIVED, "hoodie.metadata.enable": str(has_metadata).lower()}
    base, second, one, two = tmp_path / "t", 900, 1, 4  # of one partition, and so of one file group
    write_history(spark, base, [HISTORY[0], Write(((one, "v1", 100),)), Write(((two, "rolled back", 150),))], options)
    timeline = base / ".hoodie" / "timeline"
    died = max(timeline.glob("[0-9]*_*.deltacommit"))  # its markers are gone
    died.unlink()
    number = 2
    while min(timeline.glob("[0-9]*_*.deltacommit")) < died:
        number += 1
        write_history(spark, base, [Write(((0, f"v{number}", second + number),))], options, first=number)

    views, bench = Views(spark, base), Bench(spark, base)
    shown = {**Oracle.of(HISTORY[:1]).rt(), one: "v1", 0: f"v{number}"}
    assert views.rt_without_mdt() == {**shown, two: "rolled back"}
    if has_metadata:
        assert views.rt() == shown
        (table,) = bench.plan(second=200).tables
        assert (table.action, table.reason_code) == ("refused", "files_unclear")
        return
    time.sleep(MAX_CLOCK_SKEW_MS / 1000)
    assert bench.apply(bench.plan(second=200)).status == "compacted"
    assert views.rt() == views.rt_without_mdt() == {**shown, two: "rolled back"}


@pytest.mark.extended
@pytest.mark.parametrize("has_metadata", [True, False])
def test_what_a_deleted_savepoint_hides(spark, tmp_path, has_metadata):
    """Archiving went beyond a savepoint, and hides an update that came after it also once the savepoint is deleted.

    A compaction then would leave the update out for good (facts: savepoint-deleted).
    """
    options = {
        **QUICK,
        **ARCHIVED,
        "hoodie.archive.beyond.savepoint": "true",
        "hoodie.metadata.enable": str(has_metadata).lower(),
    }
    base, one, two = tmp_path / "t", 1, 0  # in different file groups
    write_history(spark, base, HISTORY[:1], options)
    timeline = base / ".hoodie" / "timeline"
    (saved,) = (file.name.partition("_")[0] for file in timeline.glob("[0-9]*_*.deltacommit"))
    spark.sql(f"CALL create_savepoint(path => '{base}', commit_time => '{saved}')").collect()
    write_history(spark, base, [Write(((one, "v1", 100),))], options, first=1)
    hidden, second, number = max(timeline.glob("[0-9]*_*.deltacommit")), 900, 1
    while hidden.exists():
        number += 1
        write_history(spark, base, [Write(((two, f"v{number}", second + number),))], options, first=number)
    views, bench, before = Views(spark, base), Bench(spark, base), Oracle.of(HISTORY[:1]).rt()
    assert views.rt_without_mdt()[one] == before[one]
    spark.sql(f"CALL delete_savepoint(path => '{base}', instant_time => '{saved}')").collect()
    assert views.rt_without_mdt()[one] == before[one]
    (table,) = bench.plan(second=2000).tables
    assert (table.action, table.reason_code) == ("refused", "hidden_by_savepoint")

    while min(timeline.glob("[0-9]*_*.deltacommit")).name.startswith(saved):
        number += 1
        write_history(spark, base, [Write(((two, f"v{number}", second + number),))], options, first=number)
    shown = {**before, one: "v1", two: f"v{number}"}
    assert views.rt() == views.rt_without_mdt() == shown
    time.sleep(MAX_CLOCK_SKEW_MS / 1000)
    assert bench.apply(bench.plan(second=2000)).status == "compacted"
    assert views.rt() == views.rt_without_mdt() == views.ro() == shown


@pytest.mark.extended
@pytest.mark.parametrize("has_metadata", [True, False])
def test_a_log_file_that_its_commit_did_not_record(spark, tmp_path, has_metadata):
    """A task that was tried again may leave one: readers that list the folders see its rows, the metadata table has not got it.

    One that is built later has it. So etc refuses a table with such a table, and takes the rows for those of readers without.
    """
    options = {**QUICK, "hoodie.metadata.enable": str(has_metadata).lower()}
    base, other = tmp_path / "t", tmp_path / "other"
    write_history(spark, base, HISTORY[:1], options)
    shutil.copytree(base, other)
    one, two = 1, 4  # of one partition, and so of one file group
    write_history(spark, base, [Write(((one, "recorded", 900),))], options, first=1)
    write_history(spark, other, [Write(((two, "left", 100),))], options, first=1)
    ours, theirs = (next((folder / partition_of(one)).glob(".[!.]*.log.1_*[0-9]")) for folder in (base, other))
    at, then = (file.name.split("_")[1].split(".")[0] for file in (ours, theirs))
    left = ours.with_name(f"{ours.name.rpartition('_')[0]}_9-9-9")
    left.write_bytes(theirs.read_bytes().replace(then.encode(), at.encode()))

    views, bench = Views(spark, base), Bench(spark, base)
    assert views.rt_without_mdt()[two] == "left"
    if has_metadata:
        assert views.rt()[two] == "v0"
        (table,) = bench.plan(second=200).tables
        assert (table.action, table.reason_code) == ("refused", "files_unclear")
        for second, metadata_table in enumerate((NO_MDT, {}), start=901):  # dropped, and built anew from the folders
            write_history(spark, base, [Write(((one, "later", second),))], {**options, **metadata_table}, first=2)
        assert views.rt()[two] == "left"
        return
    time.sleep(MAX_CLOCK_SKEW_MS / 1000)
    assert bench.apply(bench.plan(second=200)).status == "compacted"
    assert views.ro()[two] == "left"
    assert views.rt() == views.rt_without_mdt() == {**Oracle.of(HISTORY[:1]).rt(), one: "recorded", two: "left"}
