"""The smallest event time of log files that are made by hand; what is not understood is unknown."""

import datetime as dt
import io
import json
import struct

import fastavro
import pyarrow  # noqa: TID253 - the cases are Arrow arrays
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from etc_policy.hudi.block_times import LogTimes, TimesWanted, read_times
from etc_policy.policy.manifest import EventTime
from tests.unit.hudi import log_file as log
from tests.unit.hudi.log_file import avro, block, deletes, parquet

pytestmark = pytest.mark.usefixtures("both_ways")

MS = 1_711_846_800_123
US = MS * 1000
UNKNOWN = LogTimes(None)


def read(data, column_type="timestamp-micros", ordering=("ts",), size=None, **event_time):
    wanted = TimesWanted(EventTime(column="ts", **event_time), column_type, ordering)
    return read_times(io.BytesIO(data), len(data) if size is None else size, wanted)


def test_the_smallest_over_all_blocks():
    data = avro([US + 5000, US + 9000]) + avro([US + 2999, US + 8000]) + avro([US + 4000])
    assert read(data) == LogTimes(MS + 2)


@pytest.mark.parametrize(
    ("ts", "column_type", "settings", "values", "expected"),
    [
        (log.MICROS, "timestamp-micros", {}, [US + 999, -1], -1),
        ({"type": "long", "logicalType": "timestamp-millis"}, "timestamp-millis", {}, [MS, MS + 1], MS),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, "local-timestamp-micros", {}, [US], MS),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, "local-timestamp-millis", {}, [MS], MS),
        ({"type": "int", "logicalType": "date"}, "date", {}, [19_813, -1], -86_400_000),
        (log.MICROS, "timestamp-micros", {}, [2**62], 2**62 // 1000),  # no year that Python could print
        ("long", "long", {}, [MS, 1_711_846_800, US], MS - 123),
        ("int", "long", {}, [1_711_846_800], MS - 123),
        ("long", "long", {}, [MS, 20240331], None),
        ("long", "long", {"unit": "s"}, [7, 2**62], None),
        ("long", "long", {"unit": "us"}, [-1], -1),
        ("string", "string", {}, ["2024-03-31T03:00:00.123+02:00", "2025-01-01"], MS),
        ("string", "string", {}, ["2024-03-31", ""], None),
        ("string", "string", {"format": "dd.MM.yyyy HH:mm"}, ["31.03.2024 01:00"], MS - 123),
        ("string", "string", {"format": "EEE yyyy"}, ["Sun 2024"], None),
        ("double", None, {}, [1.5], None),
        ({"type": "long", "logicalType": "time-micros"}, None, {}, [US], None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("nullable", [True, False])
def test_every_type_that_holds_times(ts, column_type, settings, values, expected, nullable):
    assert read(avro(values, ts, nullable=nullable), column_type, **settings) == LogTimes(expected)
    assert read(avro(values, ts, nullable=nullable), None, **settings) == LogTimes(expected)


def test_rows_without_event_time_are_outside_the_promise():
    assert read(avro([None, US]) + avro([None])) == LogTimes(MS, null_rows=2)
    assert read(avro([None])) == LogTimes(None, null_rows=1)
    assert read(avro([])) == UNKNOWN


INNER = {
    "type": "record",
    "name": "b",
    "fields": [{"name": "ts", "type": ["null", "long"]}, {"name": "x", "type": "int"}],
}
OUTER = {"type": "record", "name": "a", "fields": [{"name": "b", "type": [INNER, "null"]}]}
ID = {"name": "id", "type": "int"}
IN_STRUCTS = {"type": "record", "name": "r", "fields": [ID, {"name": "a", "type": ["null", OUTER]}]}


def in_structs(values):
    """An Avro block whose event time is at `a.b.ts`, in structs that may be null."""
    content = struct.pack(">ii", 3, len(values))
    for value in values:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, fastavro.parse_schema(IN_STRUCTS), {"id": 1, "a": value})
        content += struct.pack(">i", len(stream.getvalue())) + stream.getvalue()
    return block(log.AVRO, content, {log.SCHEMA: json.dumps(IN_STRUCTS)})


def read_nested(data, column="a.b.ts", ordering=()):
    wanted = TimesWanted(EventTime(column=column, unit="ms"), "long", ordering)
    return read_times(io.BytesIO(data), len(data), wanted)


def test_an_event_time_inside_structs():
    rows = [{"b": {"ts": MS + 5, "x": 1}}, {"b": {"ts": MS, "x": 2}}]
    assert read_nested(in_structs(rows)) == LogTimes(MS)
    for null in (None, {"b": None}, {"b": {"ts": None, "x": 1}}):
        assert read_nested(in_structs([null, *rows])) == LogTimes(MS, null_rows=1)
    for column in ("a.b", "a.b.y", "a.b.ts.z", "b.ts", "a.", "."):
        assert read_nested(in_structs(rows), column) == UNKNOWN


def test_an_event_time_inside_structs_of_a_parquet_block():
    rows = [{"b": {"ts": MS + 5, "x": 1}}, {"b": {"ts": MS, "x": 2}}]
    for nulls in ([], [None], [{"b": None}], [{"b": {"ts": None, "x": 1}}]):
        buffer = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.table({"id": [1] * len(rows + nulls), "a": rows + nulls}), buffer)
        data = block(log.PARQUET, buffer.getvalue(), {log.SCHEMA: json.dumps(IN_STRUCTS)})
        assert read_nested(data) == LogTimes(MS, null_rows=len(nulls))
        assert read_nested(data, "a.b.y") == UNKNOWN


@pytest.mark.parametrize(
    "stranger",
    [
        pytest.param(block(log.HFILE), id="hfile"),
        pytest.param(block(log.CORRUPT), id="corrupt"),
        pytest.param(block(12), id="a kind of tomorrow"),
        pytest.param(block(log.COMMAND, version=2), id="another log format"),
        pytest.param(avro([US], header={log.IS_PARTIAL: "true"}), id="partial update"),
        pytest.param(avro([US], header={log.SCHEMA: '{"fields": []}'}), id="without the column"),
        pytest.param(avro([US], header={log.SCHEMA: "{"}), id="schema is no json"),
        pytest.param(avro([US], version=0), id="another data block version"),
        pytest.param(avro([MS], {"type": "long", "logicalType": "timestamp-millis"}), id="Hudi would repair the type"),
        pytest.param(avro([US], "long"), id="the block lost the logical type"),
        pytest.param(deletes((log.NULL,)), id="delete without ordering value"),
        pytest.param(deletes((log.INT, 0)), id="delete by key"),
        pytest.param(deletes((log.LONG, US), (log.INT, 0)), id="one of two deletes by key"),
        pytest.param(deletes((log.LONG, US), version=2), id="serialized Java objects"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"#HUDI#", id="what a failed append leaves"),
        pytest.param(b"\0" * 64, id="zeros"),
    ],
)
def test_one_block_that_is_not_understood_makes_the_file_unknown(stranger):
    data = avro([US])
    if stranger:
        assert read(data + stranger) == UNKNOWN
        assert read(stranger + data) == UNKNOWN
    assert read(stranger) == UNKNOWN
    assert read(data) == LogTimes(MS)


def test_lengths_that_do_not_agree_make_the_file_unknown():
    header = {log.SCHEMA: json.dumps(log.schema())}
    record = log.record(US, log.MICROS)
    head, length = struct.pack(">ii", 3, 1), struct.pack(">i", len(record))
    longer = struct.pack(">i", len(record) + 1)
    assert read(block(log.AVRO, head + length + record, header)) == LogTimes(MS)
    assert read(block(log.AVRO, head + longer + record + b"x", header)) == UNKNOWN
    assert read(block(log.AVRO, head + length + record + length + record, header)) == UNKNOWN
    assert read(block(log.AVRO, struct.pack(">ii", 3, 2) + length + record, header)) == UNKNOWN
    delete = log.delete_list((log.LONG, US))
    for stated, rest, expected in ((0, b"", MS), (1, b"x", None), (0, b"x", None), (-1, b"", None)):
        content = struct.pack(">ii", 3, len(delete) + stated) + delete + rest
        assert read(block(log.DELETE, content, header)) == LogTimes(expected)


def test_a_frame_that_is_not_whole_makes_the_file_unknown():
    data = avro([US])
    assert read(data, size=len(data) - 1) == UNKNOWN
    assert read(data + avro([US]).replace(b"#HUDI#", b"#hudi#")) == UNKNOWN
    assert read(data[:-8] + struct.pack(">q", len(data) - 1)) == UNKNOWN
    assert read(block(log.AVRO)[:-8] + b"????????") == UNKNOWN
    longer, trailer = struct.pack(">q", len(data) - 14 + 1), struct.pack(">q", len(data) - 8 + 1)
    assert read(data[:6] + longer + data[14:-8] + b"\0" + trailer) == UNKNOWN
    assert read(data[:6] + longer + data[14:-8] + trailer + b"\0") == UNKNOWN


def test_a_union_of_several_types_is_unknown():
    assert read(avro([US], ["null", "long", "string"], nullable=False), None, unit="us") == UNKNOWN
    assert read(avro([US], ["long", "null"], nullable=False), None, unit="us") == LogTimes(MS)


def test_blocks_without_rows_tell_nothing():
    compacted = avro([US], header={4: "20260101000000000,20260101000001000"})
    assert read(block(log.COMMAND) + compacted + block(log.CDC, b"anything")) == LogTimes(MS)
    assert read(avro([US]) + block(log.COMMAND, footer=b"\0\0\0\1\0\0\0\0\0\0\0\2ab")) == LogTimes(MS)


@pytest.mark.parametrize(
    ("ordering", "ts", "delete", "expected"),
    [
        (("ts",), log.MICROS, (log.LONG, US - 1), MS - 1),
        (("ts",), log.MICROS, (log.TIMESTAMP, US - 1), MS - 1),
        (("ts",), {"type": "long", "logicalType": "timestamp-millis"}, (log.LONG, MS - 1), None),  # ms or us: not sure
        (("ts",), {"type": "int", "logicalType": "date"}, (log.DATE, 1), 86_400_000),
        (("ts",), "long", (log.LONG, MS - 1), MS - 1),
        (("ts",), "long", (log.TIMESTAMP, US), None),
        (("ts",), "string", (log.STRING, "1970-01-02"), 86_400_000),
        (("ts",), "string", (log.STRING, ""), None),
        (("version",), log.MICROS, (log.LONG, 1), None),
        ((), log.MICROS, (log.LONG, US - 1), None),
        (("version", "ts"), log.MICROS, (log.ARRAY, [(log.INT, 0), (log.LONG, US - 1)]), MS - 1),
        (("ts", "version"), log.MICROS, (log.ARRAY, [(log.INT, 0), (log.LONG, US - 1)]), None),
        (("version", "ts"), log.MICROS, (log.ARRAY, [(log.LONG, US)]), None),
        (("version", "ts"), log.MICROS, (log.ARRAY, [(log.INT, 0), (log.LONG, US), (log.INT, 0)]), None),
        (("version", "ts"), log.MICROS, (log.INT, 0), None),
    ],
)  # fmt: skip
def test_a_delete_has_an_event_time_where_the_table_orders_by_it(ordering, ts, delete, expected):
    assert read(deletes(delete, delete, ts=ts), None, ordering) == LogTimes(expected)


@pytest.mark.parametrize(
    ("values", "settings", "sample"),
    [
        (["22/11/2026 02:10", "2024-03-31"], {}, "22/11/2026 02:10"),
        (["x" * 99], {}, "x" * 60),
        (["2024-03-31", "22/11/2026 02:10"], {}, None),
        ([" ", "22/11/2026 02:10"], {}, None),
        (["22/11/2026 02:10"], {"format": "dd/MM/yyyy HH:mm"}, None),
        (["22.11.2026"], {"format": "dd/MM/yyyy"}, "22.11.2026"),
        (["22.11.2026"], {"format": "d/M/yyyy"}, None),
    ],
)
def test_a_text_that_is_no_time_is_shown_where_spark_reads_it_no_better(values, settings, sample):
    """One that follows a good one is an odd value, and some patterns only Spark can read."""
    assert read(avro(values, "string"), "string", **settings).unreadable == sample


@pytest.mark.parametrize(
    ("values", "settings", "sample"),
    [
        ([60, 61], {}, "60"),
        ([None, 7_000], {}, "7000"),
        ([-5, 60], {}, "-5"),
        ([1_711_846_800_123, 60], {}, None),
        ([60], {"unit": "s"}, None),
        ([None], {}, None),
    ],
)
def test_a_number_that_is_no_time_by_its_digits_is_shown_where_no_unit_is_said(values, settings, sample):
    assert read(avro(values, "long"), "long", **settings).unreadable == sample
    assert read(parquet(pyarrow.array(values, pyarrow.int64()), "long"), "long", **settings).unreadable == sample


WALL = dt.datetime(2024, 3, 31, 1, 0, 0, 123_999)  # noqa: DTZ001 - a wall clock
STAMPS = [WALL + dt.timedelta(hours=1), None, WALL]


@pytest.mark.parametrize(
    ("ts", "array", "expected"),
    [
        (log.MICROS, pyarrow.array(STAMPS, pyarrow.timestamp("us", "UTC")), MS),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, pyarrow.array(STAMPS, pyarrow.timestamp("us")), MS),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, pyarrow.array([None, US], pyarrow.int64()), MS),
        ({"type": "int", "logicalType": "date"}, pyarrow.array([WALL.date(), None]), MS - 3_600_123),
        ("int", pyarrow.array([1_711_846_800, None], pyarrow.int32()), MS - 123),
        ("string", pyarrow.array([None, "2024-03-31 01:00:00.123Z"]), MS),
        (log.MICROS, pyarrow.array([None, MS], pyarrow.timestamp("ms", "UTC")), None),
        (log.MICROS, pyarrow.array([None, "x"]), None),
        ("string", pyarrow.array([None, b"2024-03-31"]), None),
        ("string", pyarrow.array([None, "x"]), None),
    ],
)  # fmt: skip
def test_parquet_blocks(ts, array, expected):
    found = read(parquet(array, ts), None)
    assert (found.min_ms, found.has_nulls) == (expected, expected is not None)


def test_each_row_of_a_parquet_block_without_an_event_time_is_counted():
    stamps = pyarrow.array([None, US, None, US, None], pyarrow.timestamp("us", "UTC"))
    assert read(parquet(stamps) + avro([None])) == LogTimes(MS, null_rows=4)
    texts = pyarrow.array([None, "2024-03-31 01:00:00.123Z", None])
    assert read(parquet(texts, "string"), None) == LogTimes(MS, null_rows=2)
    rows = [None, {"b": None}, {"b": {"ts": None, "x": 1}}, {"b": {"ts": MS, "x": 1}}]
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"id": [1] * 4, "a": rows}), buffer)
    assert read_nested(block(log.PARQUET, buffer.getvalue(), {log.SCHEMA: json.dumps(IN_STRUCTS)})).null_rows == 3


def test_a_log_file_of_parquet_rows_alone_is_not_taken_for_a_damaged_one():
    """As Hudi writes them on table version 10."""
    found = read(b"PAR1" + bytes(40) + b"PAR1")
    assert (found.min_ms, found.why, found.damaged) == (None, "Parquet rows without blocks, which are not read", False)


def test_parquet_blocks_that_cannot_be_read(monkeypatch):
    array = pyarrow.array([US])
    good = parquet(array)
    assert read(good) == LogTimes(MS)
    assert read(parquet(array, column="other")) == UNKNOWN
    assert read(parquet(array, header={log.IS_PARTIAL: "true"})) == UNKNOWN
    assert read(block(log.PARQUET, b"PAR1 no", {log.SCHEMA: "{}"})) == UNKNOWN
    assert read(good.replace(b"PAR1", b"PAR2")) == UNKNOWN
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    assert read(good) == UNKNOWN


BLOCKS = st.lists(
    st.one_of(
        st.lists(st.integers(1, 10**6), max_size=4).map(lambda times: (times, avro([US + t * 1000 for t in times]))),
        st.lists(st.integers(1, 10**6), min_size=1, max_size=3).map(
            lambda times: (times, deletes(*((log.LONG, US + t * 1000) for t in times)))
        ),
        st.just(([], block(log.COMMAND))),
    ),
    min_size=1,
    max_size=4,
)


def times_of(blocks):
    return LogTimes(min((MS + time for times, _ in blocks for time in times), default=None))


@given(BLOCKS, st.integers(0))
def test_a_file_that_was_cut_is_unknown_or_what_is_left_is_read(blocks, where):
    data = b"".join(part for _, part in blocks)
    assert read(data) == times_of(blocks)
    cut = data[: where % len(data)]
    assert read(cut, size=len(data)) == UNKNOWN
    whole = [n for n in range(len(blocks) + 1) if sum(len(part) for _, part in blocks[:n]) == len(cut)]
    assert read(cut) == (times_of(blocks[: whole[0]]) if whole else UNKNOWN)


@given(BLOCKS, st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=3))
@example([([1], parquet(pyarrow.array([US])))], [(700, 0)])
def test_bytes_that_were_changed_never_raise(blocks, changes):
    data = bytearray(b"".join(part for _, part in blocks))
    for place, value in changes:
        data[place % len(data)] = value
    assert isinstance(read(bytes(data)), LogTimes)


@given(st.integers(0), st.integers(0, 255))
def test_a_parquet_block_that_was_changed_never_raises(place, value):
    data = bytearray(parquet(pyarrow.array([US, US + 1])))
    data[place % len(data)] = value
    assert isinstance(read(bytes(data)), LogTimes)


def test_a_file_that_the_disk_does_not_give_is_not_taken_for_unknown():
    class Broken(io.BytesIO):
        def read(self, *_):
            raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        read_times(Broken(), 10, TimesWanted(EventTime(column="ts")))
