import ast
import inspect
import json
import os
import time
from dataclasses import fields

import pytest

from etc_policy.errors import RetryableError, TableError
from etc_policy.hudi import stable_reading as attempts
from etc_policy.hudi import table as hudi_table
from etc_policy.hudi import table_commits
from etc_policy.hudi.pending_writes import HEARTBEAT_EXPIRY_MS
from etc_policy.hudi.table import FileTableReader
from etc_policy.policy.manifest import EventTime
from etc_policy.table.state import TableState
from tests.unit.hudi.reading import OURS, TS, read, slices
from tests.unit.hudi.table_folder import TableFolder, at, base, log, operation


def schema_with(kind):
    """The extra metadata of a commit whose column `ts` is of this Avro type."""
    return {"schema": json.dumps({"type": "record", "name": "r", "fields": [{"name": "ts", "type": kind}]})}


def test_what_the_properties_and_the_timeline_say(table):
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    table.clean(at("10:00:02"), at("10:00:03"), at("10:00:00"))
    table.start(at("10:00:04"))
    table.metadata_table((at("10:00:00"), at("10:00:00.900")), (at("10:00:05"), at("10:00:06")))

    state = read(table)

    assert (state.base_path, state.table_version) == (str(table.base), 9)
    assert state.timezone == "UTC"
    assert state.event_time_type == "long"
    assert state.earliest_commit_to_retain == at("10:00:00")
    assert [(i.requested, i.action, i.state, i.completed) for i in state.instants] == [
        (at("10:00:00"), "deltacommit", "completed", at("10:00:01")),
        (at("10:00:02"), "clean", "completed", at("10:00:03")),
        (at("10:00:04"), "deltacommit", "inflight", None),
    ]
    assert state.metadata_instants == {at("10:00:00"), at("10:00:00.900"), at("10:00:05"), at("10:00:06")}
    assert state.last_completed == at("10:00:03")
    assert state == read(table)


def test_every_fact_of_a_state_is_read_or_comes_from_log_files():
    filled = ast.walk(ast.parse(inspect.getsource(hudi_table._state)))
    (made,) = (node for node in filled if isinstance(node, ast.Call) and ast.unparse(node.func) == "TableState")
    named = {keyword.arg for keyword in made.keywords}
    assert {field.name for field in fields(TableState)} - named == {
        "base_times",
        "left_times",
        "unreadable_time",
        "witnesses",
        "apply_state",
        "release",
    }


@pytest.mark.parametrize(
    ("properties", "found"),
    [
        ({}, (False, "parquet")),
        ({"hoodie.populate.meta.fields": "true", "hoodie.table.base.file.format": "PARQUET"}, (False, "parquet")),
        ({"hoodie.populate.meta.fields": "false"}, (True, "parquet")),
        ({"hoodie.table.base.file.format": "ORC"}, (False, "orc")),
    ],
)
def test_whether_rows_carry_their_keys_and_what_base_files_are(tmp_path, properties, found):
    state = read(TableFolder(tmp_path / "t", properties=properties))
    assert (state.lacks_meta_columns, state.base_file_format) == found


@pytest.mark.parametrize(
    ("kind", "base_kind", "has_log", "found"),
    [
        ("time-millis", "time32[ms]", True, ("at", "time-millis")),
        ("time-micros", "time64[us]", True, ("at", "time-micros")),
        ("time-millis", "time32[ms]", False, None),
        ("time-millis", "int32", True, None),
        ("date", "date32", True, None),
    ],
)
def test_a_time_of_day_is_read_from_no_base_file_that_says_it(table, kind, base_kind, has_log, found):
    """What Spark has written of log files alone, as Flink makes them, says that it is a number."""
    of_ts, of_at = ({"name": "ts", "type": "long"}, {"name": "at", "type": {"type": "long", "logicalType": kind}})
    extra = {"schema": json.dumps({"type": "record", "name": "r", "fields": [of_ts, of_at]})}
    rows = ((at("10:00:00"), {"at": 0}),)
    table.commit(at("10:00:00"), at("10:00:01"), base("f1", left=rows, kinds={"at": base_kind}), extra=extra)
    table.commit(at("10:00:02"), at("10:00:03"), log("f1" if has_log else "f2"), extra=extra)
    assert read(table).unworkable == found


@pytest.mark.parametrize(
    ("meta_columns", "generator", "fields", "found"),
    [
        ("false", {"type": "COMPLEX"}, "id", True),
        ("false", {"type": "COMPLEX_AVRO"}, "id", True),
        ("false", {"class": "org.apache.hudi.keygen.ComplexKeyGenerator"}, "id", True),
        ("false", {"type": "COMPLEX"}, "id,region", False),
        ("false", {"type": "SIMPLE"}, "id", False),
        ("true", {"type": "COMPLEX"}, "id", False),
        ("false", {"type": "SIMPLE"}, "day", True),
        ("false", {"type": "COMPLEX"}, "id,day", True),
        ("false", {"type": "NON_PARTITION"}, "id,when", True),
        ("false", {"type": "SIMPLE"}, "hash", True),
        ("false", {"type": "SIMPLE"}, "clock", False),
        ("false", {"type": "SIMPLE"}, "amount", False),
        ("true", {"type": "SIMPLE"}, "day", False),
    ],
)
def test_whether_computed_keys_are_those_of_delete_blocks(tmp_path, meta_columns, generator, fields, found):
    """See facts: complex-key-computed, time-in-computed-key."""
    named = {f"hoodie.table.keygenerator.{name}": value for name, value in generator.items()}
    properties = {"hoodie.populate.meta.fields": meta_columns, "hoodie.table.recordkey.fields": fields, **named}
    table = TableFolder(tmp_path / "t", properties=properties)
    logical = {
        "when": ("long", "timestamp-micros"),
        "clock": ("long", "local-timestamp-micros"),
        "amount": ("bytes", "decimal"),
    }
    kinds = {"id": "string", "region": "string", "ts": "long", "hash": "bytes"}
    kinds |= {name: {"type": kind, "logicalType": named} for name, (kind, named) in logical.items()}
    kinds["day"] = ["null", {"type": "int", "logicalType": "date"}]
    columns = [{"name": name, "type": kind} for name, kind in kinds.items()]
    extra = {"schema": json.dumps({"type": "record", "name": "r", "fields": columns})}
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"), extra=extra)
    assert read(table).has_unsure_keys is found


class TestPendingPlan:
    def test_ours(self, table):
        table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
        table.plan(at("10:00:02"), OURS)
        state = read(table)
        assert state.own_pending == at("10:00:02")
        assert [(i.requested, i.action, i.state) for i in state.pending] == [
            (at("10:00:02"), "compaction", "requested")
        ]

    def test_ours_while_it_runs(self, table):
        table.plan(at("10:00:02"), OURS)
        table.file(at("10:00:02"), ".compaction.inflight")
        state = read(table)
        assert (state.own_pending, state.pending[0].state) == (at("10:00:02"), "inflight")

    def test_somebody_elses(self, table):
        table.plan(at("10:00:02"), {"other": "1"})
        assert read(table).own_pending is None

    def test_once_completed_it_pends_no_more(self, table):
        table.compaction(at("10:00:06"), at("10:00:30"), base("f1"), extra=OURS, plan_extra=OURS)
        assert (read(table).own_pending, read(table).pending) == (None, ())

    def test_a_bare_inflight_file_is_a_commits(self, table):
        table.file(at("10:00:02"), ".inflight")
        assert [(i.action, i.state) for i in read(table).pending] == [("commit", "inflight")]


class TestRefused:
    @pytest.mark.parametrize(
        ("properties", "code"),
        [
            ({"hoodie.table.type": "COPY_ON_WRITE"}, "ETC203"),
            ({"hoodie.table.type": None}, "ETC203"),
            ({"hoodie.bootstrap.base.path": "/old"}, "ETC204"),
            ({"hoodie.bootstrap.base.path": ""}, "ETC204"),
            ({"hoodie.table.format": "iceberg"}, "ETC206"),
            ({"hoodie.table.version": None}, "ETC205"),
            ({"hoodie.table.version": "nine"}, "ETC205"),
            ({"hoodie.table.version": "10"}, "ETC205"),
            ({"hoodie.timeline.layout.version": "7"}, "ETC206"),
        ],
    )
    def test_tables_of_a_kind_that_is_not_handled(self, tmp_path, properties, code):
        table = TableFolder(tmp_path / "t", properties=properties)
        with pytest.raises(TableError) as error:
            read(table)
        assert error.value.code == code
        assert str(table.base) in error.value.message

    def test_a_folder_that_is_not_there(self, tmp_path):
        with pytest.raises(TableError, match="does not exist") as error:
            FileTableReader().read(str(tmp_path / "none"), TS)
        assert error.value.code == "ETC201"

    def test_a_file_is_no_table(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(TableError, match="this is a file") as error:
            FileTableReader().read(str(tmp_path / "file"), TS)
        assert error.value.code == "ETC201"

    def test_a_folder_that_is_no_table(self, tmp_path):
        with pytest.raises(TableError, match="not a Hudi table") as error:
            FileTableReader().read(str(tmp_path), TS)
        assert error.value.code == "ETC202"
        assert "the folder that has `.hoodie` in it" in error.value.hint

    def test_a_table_without_its_timeline(self, table):
        table.timeline.rmdir()
        with pytest.raises(TableError, match="there is no timeline at") as error:
            read(table)
        assert error.value.code == "ETC208"

    def test_a_file_that_cannot_be_read(self, table, monkeypatch):
        def denied(*_):
            raise PermissionError(13, "Permission denied")

        table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
        monkeypatch.setattr(table_commits, "read_timeline", denied)
        with pytest.raises(TableError, match="cannot read the table at") as error:
            read(table)
        assert (error.value.code, error.value.exit_code) == ("ETC213", 3)
        assert "Permission denied" in error.value.cause

    def test_a_column_that_the_table_does_not_have(self, table):
        table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
        with pytest.raises(TableError, match="no column `when`") as error:
            read(table, EventTime(column="when"))
        assert (error.value.code, error.value.hint) == ("ETC209", "its columns are id, p, ts")

    @pytest.mark.parametrize(
        ("kind", "said", "key"),
        [
            ({"type": "long", "logicalType": "timestamp-micros"}, {"unit": "ms"}, "unit"),
            ({"type": "int", "logicalType": "date"}, {"unit": "s"}, "unit"),
            ({"type": "long", "logicalType": "timestamp-micros"}, {"format": "yyyy-MM-dd"}, "format"),
            ("long", {"format": "yyyy-MM-dd"}, "format"),
        ],
    )
    def test_a_key_that_does_not_go_with_the_type_of_the_column(self, table, kind, said, key):
        table.commit(at("10:00:00"), at("10:00:01"), base("f1"), extra=schema_with(kind))
        with pytest.raises(TableError, match=f"`{key}` is for columns of type") as error:
            read(table, EventTime(column="ts", **said))
        assert (error.value.code, error.value.hint) == ("ETC212", f"remove `{key}` from `event_time_column`")

    def test_a_column_inside_structs(self, table):
        inner = {"type": "record", "name": "e", "fields": [{"name": "ts", "type": ["null", "long"]}]}
        table.commit(at("10:00:00"), at("10:00:01"), base("f1"), extra=schema_with(["null", inner]))
        assert read(table, EventTime(column="ts.ts", unit="ms")).event_time_type == "long"
        for missing in ("ts.when", "ts.ts.ts", "id.ts"):
            with pytest.raises(TableError, match="no column"):
                read(table, EventTime(column=missing))

    @pytest.mark.parametrize(
        "kind",
        [
            *("boolean", "double", {"type": "array", "items": "long"}, {"type": "bytes"}, "null", ["null"]),
            *({"type": "int", "logicalType": "time-millis"}, {"type": "long", "logicalType": "time-micros"}),
        ],
    )
    def test_a_column_that_cannot_hold_times(self, table, kind):
        table.commit(at("10:00:00"), at("10:00:01"), base("f1"), extra=schema_with(kind))
        with pytest.raises(TableError, match="cannot be read as a time") as error:
            read(table)
        assert error.value.code == "ETC212"

    def test_the_newest_schema_counts(self, table):
        table.commit(at("10:00:00"), at("10:00:01"), base("f1"), extra=schema_with("boolean"))
        table.commit(at("10:00:02"), at("10:00:03"), base("f1"), extra=schema_with("long"))
        table.commit(at("10:00:04"), at("10:00:05"), base("f1"), extra={"schema": ""})
        table.commit(at("10:00:06"), at("10:00:07"), extra={"schema": '"null"'})
        assert read(table).event_time_type == "long"


class TestChangesWhileRead:
    @pytest.mark.parametrize("times", [1, attempts.ATTEMPTS - 1])
    def test_a_file_that_vanishes_is_read_again(self, table, monkeypatch, times):
        """Archiving takes a commit off the timeline between the listing and the reading."""
        gone = table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
        table.commit(at("10:00:02"), at("10:00:03"), log("f1", 2))
        content, read_timeline, listings = gone.read_bytes(), table_commits.read_timeline, []

        def listed(*asked):
            gone.write_bytes(content)
            timeline = read_timeline(*asked)
            listings.append(asked)
            if len(listings) <= times:
                gone.unlink()
            return timeline

        monkeypatch.setattr(table_commits, "read_timeline", listed)
        assert slices(table) == {"f1": (at("10:00:00"), [(at("10:00:02"), at("10:00:03"), 2, False)])}
        assert len(listings) == times + 1

    def test_what_never_stands_still_is_for_another_run(self, table, monkeypatch):
        gone, read_timeline = table.commit(at("10:00:00"), at("10:00:01"), base("f1")), table_commits.read_timeline

        def listed(*asked):
            gone.touch()
            timeline = read_timeline(*asked)
            gone.unlink()
            return timeline

        monkeypatch.setattr(table_commits, "read_timeline", listed)
        with pytest.raises(RetryableError) as error:
            read(table)
        assert (error.value.code, error.value.exit_code) == ("ETC401", 4)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("long", "long"),
        (["null", "int"], "int"),
        ({"type": "long", "logicalType": "timestamp-micros"}, "timestamp-micros"),
        (["null", {"type": "long", "logicalType": "timestamp-millis"}], "timestamp-millis"),
        ([{"type": "string", "avro.java.string": "String"}, "null"], "string"),
    ],
)
def test_the_type_of_the_event_time_column(table, kind, name):
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"), extra=schema_with(kind))
    assert read(table).event_time_type == name


def test_event_times_of_commits_that_are_not_to_be_trusted(table):
    table.commit(at("10:00:00"), at("10:00:01"), log("f1", 5))
    assert slices(table)["f1"][1] == [(at("10:00:00"), at("10:00:01"), 5, False)]
    distrusted = EventTime(column="ts", unit="ms", trust_commit_metadata=False)
    assert slices(table, distrusted)["f1"][1] == [(at("10:00:00"), at("10:00:01"), None, False)]


@pytest.mark.parametrize("kind", ["timestamp-micros", "local-timestamp-micros", "timestamp-nanos"])
def test_what_commits_record_of_finer_columns_is_misread(table, kind):
    """3,600,000,000 us is an hour after 1970 began, and the writer takes its ten digits for seconds: a time in 2084."""
    schema = schema_with({"type": "long", "logicalType": kind})
    table.commit(at("10:00:00"), at("10:00:01"), log("f1", 3_600_000_000_000), extra=schema)
    assert slices(table)["f1"][1] == [(at("10:00:00"), at("10:00:01"), None, False)]


class TestLivingWriters:
    """Pending writes with a fresh heartbeat; Hudi takes a writer for dead after three minutes by default."""

    @pytest.fixture
    def beats(self, table):
        def beat(requested, age_seconds):
            path = table.meta / ".heartbeat" / requested
            path.parent.mkdir(exist_ok=True)
            path.touch()
            moment = time.time() - age_seconds
            os.utime(path, (moment, moment))

        return beat

    def test_pending_and_beating(self, table, beats):
        table.start(at("10:00:00"))
        beats(at("10:00:00"), 60)
        assert read(table).living_writers == {at("10:00:00")}

    def test_without_a_heartbeat_or_with_an_old_one(self, table, beats):
        table.start(at("10:00:00"))
        table.start(at("10:00:02"))
        beats(at("10:00:02"), HEARTBEAT_EXPIRY_MS // 1000 + 5)
        assert read(table).living_writers == frozenset()

    def test_a_commit_that_completed_or_a_compaction_is_none(self, table, beats):
        table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
        table.plan(at("10:00:02"), OURS)
        beats(at("10:00:00"), 1)
        beats(at("10:00:02"), 1)
        assert read(table).living_writers == frozenset()


@pytest.mark.parametrize(
    ("told", "fields"), [("p", ("p",)), ("region:simple,day:TIMESTAMP", ("region", "day")), (None, ()), ("", ())]
)
def test_the_partition_columns(tmp_path, told, fields):
    """A custom key generator writes the kind of each beside it."""
    table = TableFolder(tmp_path / "t", properties={"hoodie.table.partition.fields": told})
    assert read(table).partition_fields == fields


@pytest.mark.parametrize(
    ("generator", "told", "fields"),
    [
        ({"class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator"}, "day", ("day",)),
        ({"type": "TIMESTAMP_AVRO"}, "day", ("day",)),
        ({"type": "CUSTOM"}, "region:simple,day:TIMESTAMP", ("day",)),
        ({"class": "org.apache.hudi.keygen.CustomKeyGenerator"}, "region,day", ("region", "day")),
        ({"type": "SIMPLE"}, "day", ()),
        ({}, None, ()),
    ],
)
def test_partition_columns_whose_times_a_key_generator_writes_in_its_own_form(tmp_path, generator, told, fields):
    """A custom one of older tables says the kind of none: it may be any of them."""
    named = {f"hoodie.table.keygenerator.{name}": value for name, value in generator.items()}
    table = TableFolder(tmp_path / "t", properties={**named, "hoodie.table.partition.fields": told})
    assert read(table).time_partition_fields == fields


def test_a_service_of_the_metadata_table_may_have_a_longer_instant_and_cross_ten_minutes(table):
    """Three digits behind the time say which service it was; only such a pair of times is ever computed with."""
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    long = f"{at('10:09:59')}006"
    table.metadata_table((long, at("10:10:01")))
    assert long in read(table).metadata_instants


class TestWriteGrowth:
    """What compactions by etc wrote: 100 bytes each, as their commits record it."""

    def compact(self, table, second, completed, *operations, extra=OURS):
        written = (base(one.file_id) for one in operations)
        table.compaction(at(f"10:00:0{second}"), at(f"10:00:{completed}"), *written, extra=extra)
        table.plan(at(f"10:00:0{second}"), extra, *operations)

    def onto(self, file_id, base_bytes, log_bytes):
        sizes = {"bytes_read": base_bytes + log_bytes, "log_bytes_compacted": log_bytes}
        return operation(file_id, "x.parquet" if base_bytes else None).model_copy(update=sizes)

    def test_of_base_files_that_grew_and_of_new_ones(self, table):
        self.compact(table, 6, 20, self.onto("f1", 80, 40), self.onto("f2", 0, 400))
        self.compact(table, 7, 21, self.onto("f1", 100, 60))
        growth = read(table).write_growth
        assert (growth.compactions, growth.onto_base, growth.without_base) == (2, 0.2, 0.25)

    def test_none_yet(self, table):
        table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
        assert read(table).write_growth is None

    def test_of_the_last_to_complete_and_of_etc_alone(self, table):
        self.compact(table, 0, 31, self.onto("f1", 80, 10))
        for second in range(1, 7):
            self.compact(table, second, 20 + second, self.onto("f1", 90, 10 if second > 2 else 1))
        self.compact(table, 9, 40, self.onto("f1", 1, 1), extra={})
        growth = read(table).write_growth
        assert (growth.compactions, growth.onto_base) == (5, 1.2)
