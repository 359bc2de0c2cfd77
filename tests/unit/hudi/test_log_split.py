"""Log files split by event time: every row is on its side with its own bytes, and what is not sure is refused."""

import io
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etc_policy.hudi import blocks
from etc_policy.hudi.block_times import TimesWanted, read_times
from etc_policy.hudi.log_split import NotSplittable, Part, split_log_file
from etc_policy.policy.manifest import EventTime
from tests.unit.hudi.log_file import (
    AVRO,
    IS_PARTIAL,
    LONG,
    MICROS,
    PARQUET,
    SCHEMA,
    avro,
    block,
    deletes,
    parquet,
    record,
    schema,
)

pytestmark = pytest.mark.usefixtures("both_ways")

WANTED = TimesWanted(EventTime(column="ts", unit="ms"), "long", ("ts",))
T = 1_700_000_000_000
WITH_OPERATIONS = {**schema(), "fields": [{"name": "_hoodie_operation", "type": "string"}, *schema()["fields"]]}
WITHOUT_TIME = {**schema(), "fields": schema()["fields"][:2]}
POSITIONS, COMPACTED_TIMES, BASE_INSTANT = 5, 4, 8


def split(content, threshold_ms=T, wanted=WANTED):
    early, late = Part(io.BytesIO()), Part(io.BytesIO())
    split_log_file(io.BytesIO(content), len(content), wanted, threshold_ms, early, late)
    for part in (early, late):
        assert part.size_bytes == len(part.stream.getvalue())
    return early, late


def rows(content):
    """(block's header, the bytes of a row) of each row."""
    found = []
    for one in blocks.read_blocks(io.BytesIO(content), len(content)):
        version, count = struct.unpack_from(">ii", one.content)
        at = 8
        for _ in range(count):
            (length,) = struct.unpack_from(">i", one.content, at)
            found.append((version, dict(one.header), bytes(one.content[at + 4 : at + 4 + length])))
            at += 4 + length
        assert at == len(one.content)
    return found


def plain(*times, **rest):
    return avro(list(times), ts="long", **rest)


@given(st.lists(st.lists(st.integers(T - 3, T + 3), min_size=1, max_size=9), min_size=1, max_size=5), st.data())
def test_every_row_is_on_its_side_in_its_order(times, data):
    content = b"".join(plain(*of_block) for of_block in times)
    threshold_ms = data.draw(st.integers(T - 4, T + 4))
    early, late = split(content, threshold_ms)
    flat = [time for of_block in times for time in of_block]
    whole = rows(content)
    assert rows(early.stream.getvalue()) == [one for one, time in zip(whole, flat, strict=True) if time <= threshold_ms]
    assert rows(late.stream.getvalue()) == [one for one, time in zip(whole, flat, strict=True) if time > threshold_ms]
    assert (early.rows, late.rows) == (sum(t <= threshold_ms for t in flat), sum(t > threshold_ms for t in flat))
    for part, least in ((early, min(flat)), (late, min((t for t in flat if t > threshold_ms), default=None))):
        found = read_times(io.BytesIO(part.stream.getvalue()), part.size_bytes, WANTED)
        assert found.min_ms == (least if part.rows else None)


def test_a_block_that_is_on_one_side_is_as_it_was():
    content = plain(T, T - 1) + plain(T + 1)
    early, late = split(content)
    assert early.stream.getvalue() + late.stream.getvalue() == content


def test_places_of_records_are_left_out_and_other_headers_stay():
    early, late = split(plain(T, T + 1, header={POSITIONS: "x", BASE_INSTANT: "y", IS_PARTIAL: "false"}))
    for part in (early, late):
        ((_, header, _),) = rows(part.stream.getvalue())
        assert header.keys() == {0, SCHEMA, IS_PARTIAL}


def test_the_schema_may_change_between_blocks():
    content = plain(T, T + 1) + avro([T, T + 2], ts="long", nullable=False)
    early, late = split(content)
    assert (early.rows, late.rows) == (2, 2)
    assert {header[SCHEMA] for _, header, _ in rows(late.stream.getvalue())} == {
        json.dumps(schema("long", nullable)).encode() for nullable in (True, False)
    }
    assert split(plain(T, T + 1) + marked(value=False))[0].rows == 2  # a column more


def test_microseconds_are_compared_by_their_millisecond():
    wanted = TimesWanted(EventTime(column="ts"), "timestamp-micros", ("ts",))
    early, late = split(avro([T * 1000 + 999, (T + 1) * 1000]), wanted=wanted)
    assert (early.rows, late.rows) == (1, 1)


def marked(value):
    """A block whose rows may be marked as deleted."""
    text = schema("long")
    text["fields"].append({"name": "_hoodie_is_deleted", "type": "boolean"})
    row = record(T, "long") + (b"\1" if value else b"\0")
    content = struct.pack(">iii", 3, 1, len(row)) + row
    return block(AVRO, content, {SCHEMA: json.dumps(text)})


def parquet_rows(content):
    """The ids and times of each block, and what its footer says beside."""
    from pyarrow import parquet as files

    read = [files.ParquetFile(io.BytesIO(one.content)) for one in blocks.read_blocks(io.BytesIO(content), len(content))]
    return [(one.read().to_pydict(), one.metadata.metadata, one.schema.to_arrow_schema()) for one in read]


class TestParquet:
    def content(self, *times, kind="int64", **rest):
        import pyarrow

        return parquet(pyarrow.array(times, pyarrow.type_for_alias(kind)), **{"ts": "long", **rest})

    @pytest.mark.parametrize(("kind", "ts", "scale"), [("int64", "long", 1), ("timestamp[us]", MICROS, 1000)])
    def test_every_row_is_on_its_side_in_its_order(self, kind, ts, scale):
        content = self.content(*(scale * time for time in (T + 5, T, T - 1, T + 1)), kind=kind, ts=ts)
        column_type = "long" if ts == "long" else "timestamp-micros"
        wanted = TimesWanted(EventTime(column="ts", unit="ms" if ts == "long" else None), column_type, ("ts",))
        early, late = split(content, wanted=wanted)
        ((whole, pairs, columns),) = parquet_rows(content)
        for part, places in ((early, (1, 2)), (late, (0, 3))):
            ((found, kept, schema_of),) = parquet_rows(part.stream.getvalue())
            assert found == {name: [values[place] for place in places] for name, values in whole.items()}
            assert (kept, schema_of, part.rows) == (pairs, columns, 2)

    def test_a_block_that_is_on_one_side_is_as_it_was(self):
        content = self.content(T, T - 1) + plain(T + 1) + self.content(T + 2)
        early, late = split(content)
        assert early.stream.getvalue() + late.stream.getvalue() == content

    @pytest.mark.parametrize(
        ("column", "ts", "why"),
        [("other", "long", "damaged: no Parquet file, or one without the column"), ("ts", MICROS, "Hudi would repair")],
    )
    def test_one_that_says_something_else_is_refused(self, column, ts, why):
        with pytest.raises(NotSplittable, match=why):
            split(self.content(T, T + 1, column=column, ts=ts))

    def test_one_with_a_row_without_an_event_time_is_refused(self):
        with pytest.raises(NotSplittable, match="it holds a row without an event time"):
            split(self.content(T, None, T + 1))

    def test_one_whose_rows_may_be_marked_as_deleted_is_refused(self):
        with_mark = schema("long")
        with_mark["fields"].append({"name": "_hoodie_is_deleted", "type": "boolean"})
        with pytest.raises(NotSplittable, match="a Parquet block that may"):
            split(self.content(T, header={SCHEMA: json.dumps(with_mark)}))


def test_rows_that_are_not_marked_as_deleted_are_split():
    assert split(marked(value=False))[0].rows == 1


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (deletes((LONG, T), ts="long"), "a delete block"),
        (marked(value=True), "a deleted row"),
        (block(PARQUET, b"PAR1", {SCHEMA: json.dumps(schema("long"))}), "damaged: no Parquet file"),
        (block(0), "a command block"),
        (block(2), "a corrupt block"),
        (block(4), "a HFile block"),
        (block(6), "a change data capture block"),
        (block(9), "an unknown block|a unknown block"),
        (plain(T, header={IS_PARTIAL: "true"}), "a partial update"),
        (plain(T, header={COMPACTED_TIMES: "1"}), "a log compaction wrote it"),
        (plain(T, header={SCHEMA: json.dumps(WITH_OPERATIONS)}), "its rows carry their operation"),
        (plain(T, None), "a row without an event time"),
        (plain(T, version=9), "another version of data block"),
        (avro(["x"], ts="string"), "it holds a block whose column Hudi would repair"),
        (
            avro([T], header={SCHEMA: json.dumps(WITHOUT_TIME)}),
            "it holds a block without the column",
        ),
        (plain(T)[:-1], "damaged"),
        (plain(T)[:30], "damaged"),
        (b"no log file", "damaged"),
        (b"PAR1" + bytes(40), "Parquet rows without blocks"),
        (block(AVRO, b"\0" * 8, version=2), "damaged: another format version"),
        (block(AVRO, struct.pack(">ii", 3, 2) + b"\0" * 4, {SCHEMA: json.dumps(schema("long"))}), "damaged"),
        (
            block(AVRO, b"", {SCHEMA: json.dumps(schema("long"))}, footer=struct.pack(">iii", 1, 0, 1) + b"x"),
            "a footer",
        ),
    ],
)
def test_what_is_not_sure_is_refused(content, why):
    with pytest.raises(NotSplittable, match=why):
        split(content)


@given(st.data())
def test_damaged_bytes_are_split_rightly_or_refused(data):
    content = bytearray(plain(T - 1, T + 1, T))
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] = data.draw(st.integers(0, 255))
    try:
        early, late = split(bytes(content))
    except NotSplittable:
        return
    assert (early.rows + late.rows) == 3


def test_a_larger_log_file_than_hudi_writes_is_refused():
    with pytest.raises(NotSplittable, match="larger than 2 GiB"):
        split_log_file(io.BytesIO(), 3 << 30, WANTED, T, Part(io.BytesIO()), Part(io.BytesIO()))
