"""Log files that ask for much: their times are unknown, at once and in little memory."""

import io
import json
import struct
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from random import Random
from types import SimpleNamespace

import pyarrow  # noqa: TID253 - the cases are Arrow arrays
import pytest
from pyarrow import parquet  # noqa: TID253 - as above

from etc_policy.hudi.block_times import LogTimes, TimesWanted, read_times
from etc_policy.hudi.blocks import MAX_BLOCK_BYTES, BadLogFile, read_headers
from etc_policy.hudi.footers import MAX_FOOTER_BYTES, _inflated, open_parquet, require_modest
from etc_policy.hudi.parquet import stored_values
from etc_policy.policy.manifest import EventTime
from tests.hostile.avro import array, nested, record, recursive
from tests.nightly import nightly
from tests.unit.hudi import log_file as log
from tests.unit.hudi.log_file import zigzag

UNKNOWN = LogTimes(None)
WANTED = TimesWanted(EventTime(column="ts", unit="ms"), "long", ("ts",))
FIXED = {"type": "fixed", "name": "x", "size": 3}


def read(content, wanted=WANTED):
    tracemalloc.start()
    try:
        return read_times(io.BytesIO(content), len(content), wanted)
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 20 * len(content) + (4 << 20)


def block(other, content, count=1):
    schema = {**record("r", other), "fields": [*record("r", other)["fields"], {"name": "ts", "type": ["null", "long"]}]}
    body = struct.pack(">iii", 3, count, len(content)) + content
    return log.block(log.AVRO, body, {log.SCHEMA: json.dumps(schema)})


def test_the_blocks_of_these_tests_are_read():
    assert read(block("long", b"\2" + b"\2" + zigzag(70))) == LogTimes(70)
    assert read(block(array("double"), b"\2" + bytes(8) + b"\0" + b"\2" + zigzag(70))) == LogTimes(70)


@pytest.mark.parametrize("other", [*(recursive(Random(seed)) for seed in range(6)), nested(60), array("null"), "gone"])
def test_a_schema_that_makes_much_of_little_is_unknown(other):
    assert read(block(other, b"\2" * 5_000)) == UNKNOWN


@pytest.mark.parametrize("items", ["long", "boolean", "double", "string", FIXED, record("s", "float")])
@pytest.mark.parametrize("many", [2**29, 2**62, -(2**40)])
def test_a_list_that_claims_more_than_is_there_is_unknown(items, many):
    assert read(block(array(items), zigzag(many) + b"\2" + bytes(50))) == UNKNOWN


@pytest.mark.parametrize("count", [2**31 - 1, 2**20])
def test_more_records_than_there_are_is_unknown(count):
    assert read(block("long", b"\2\2\2", count)) == UNKNOWN


def test_many_rows_of_few_bytes_are_in_memory_in_parts():
    row = struct.pack(">i", 2) + b"\0\0"
    schema = {**record("r", "int"), "fields": [*record("r", "int")["fields"], {"name": "ts", "type": ["null", "long"]}]}
    content = struct.pack(">ii", 3, 200_000) + row * 200_000
    assert read(log.block(log.AVRO, content, {log.SCHEMA: json.dumps(schema)})) == LogTimes(None, null_rows=200_000)


def test_a_row_that_takes_far_more_memory_than_it_has_bytes_is_unknown():
    """One of 20 MB of zeros took 4 GB."""
    many = 9_000_000
    assert read(block(array(record("s", "boolean")), zigzag(many) + bytes(many) + b"\0\2\2")) == UNKNOWN


@pytest.mark.parametrize("kind", [0, *nightly(1, 12)])
def test_a_delete_of_more_values_than_a_key_has_is_unknown(kind):
    """Each of its bytes was more than a hundred."""
    many = 2_200_000 if kind == 0 else 1_100_000
    values = zigzag(1) + zigzag(many) + (zigzag(kind) + bytes(bool(kind))) * many + b"\0"
    content = zigzag(1) + b"\2\2k\2\2p" + zigzag(log.ARRAY) + values + b"\0"
    header = {log.SCHEMA: json.dumps(log.schema("long"))}
    data = log.block(log.DELETE, struct.pack(">ii", 3, len(content)) + content, header)
    tracemalloc.start()
    try:
        assert read_times(io.BytesIO(data), len(data), replace(WANTED, ordering_fields=("ts", "id"))).min_ms is None
        assert tracemalloc.get_traced_memory()[1] < 400 << 20
    finally:
        tracemalloc.stop()


def test_deletes_beyond_what_is_read_at_once_are_read_to_the_last():
    every = [(log.LONG, 1_000_000 + number) for number in range(150_000)]
    found = read_times(io.BytesIO(content := log.deletes(*every, ts="long")), len(content), WANTED)
    assert (found.min_ms, found.max_ms, len(content) > 3 << 19) == (1_000_000, 1_149_999, True)


@pytest.mark.parametrize("kind", [log.DELETE, log.COMMAND])
def test_an_instant_longer_than_hudi_writes_is_not_kept(kind):
    """One of 250 MB for each block was kept as long as the table was read."""
    key = log.TARGET if kind == log.COMMAND else log.INSTANT
    found = read(log.avro([70], ts="long") + log.block(kind, b"", {key: "1" * 101}))
    assert (found.damaged, found.seen_ms, found.instants) == (True, 70, frozenset({"20260101000000000"}))


@pytest.mark.parametrize("many", [2**31 - 1, 65, -1])
def test_more_headers_than_hudi_writes_is_unknown(many):
    pairs = b"".join(struct.pack(">ii", number, 0) for number in range(min(many, 100_000)))
    body = struct.pack(">iii", 1, log.COMMAND, many) + pairs + struct.pack(">q", 0) + struct.pack(">i", 0)
    data = b"#HUDI#" + struct.pack(">q", len(body) + 8) + body + struct.pack(">q", len(body) + 14)
    assert read(data) == UNKNOWN


def test_a_block_longer_than_hudi_writes_is_not_read():
    class Endless(io.BytesIO):
        asked = 0

        def read(self, size=-1, /):
            Endless.asked = max(Endless.asked, size)
            return super().read(size)

    head = b"#HUDI#" + struct.pack(">q", MAX_BLOCK_BYTES + 1)
    assert read_times(Endless(head + bytes(100)), 6 << 30, WANTED) == UNKNOWN
    assert Endless.asked < 100


@pytest.mark.parametrize("many", [2**29, 2**62, -(2**40)])
def test_deletes_are_read_one_by_one(many):
    content = zigzag(many) + b"\2" + b"\0\0\0" * 40_000
    header = {log.SCHEMA: json.dumps(log.schema("long"))}
    assert read(log.block(log.DELETE, struct.pack(">ii", 3, len(content)) + content, header)) == UNKNOWN


def parquet_block(rows, value, compression="zstd"):
    column = pyarrow.DictionaryArray.from_arrays(
        pyarrow.repeat(pyarrow.scalar(0, pyarrow.int8()), rows), pyarrow.array([value])
    )
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table({"ts": column}), buffer, compression=compression, store_schema=False)
    kind = "long" if isinstance(value, int) else "string"
    return log.block(log.PARQUET, buffer.getvalue(), {log.SCHEMA: json.dumps(log.schema(kind))})


def test_parquet_rows_that_take_no_bytes_are_not_read():
    few, many = parquet_block(1_000, 70), parquet_block(1_000_000, 70)
    assert len(many) < 1_000_000 / 64
    assert read(few) == LogTimes(70)
    assert read(many) == UNKNOWN


def test_equal_texts_of_parquet_are_in_memory_once():
    wanted = TimesWanted(EventTime(column="ts", unit="ms"), "string", ())
    text = "70" + " " * 1_000_000
    content = parquet_block(20_000, text, "none")
    before = pyarrow.default_memory_pool().max_memory()
    assert read(content, wanted) == LogTimes(70)
    assert pyarrow.default_memory_pool().max_memory() - before < 64 << 20


TEXTS = TimesWanted(EventTime(column="ts", unit="ms"), "string", ())


def text_block(texts, change=lambda content: content, **options):
    buffer = io.BytesIO()
    options = {"compression": "zstd", "use_dictionary": False, "write_statistics": False, **options}
    parquet.write_table(pyarrow.table({"ts": texts}), buffer, store_schema=False, **options)
    return log.block(log.PARQUET, change(buffer.getvalue()), {log.SCHEMA: json.dumps(log.schema("string"))})


@pytest.mark.parametrize("change", [lambda content: content, log.with_small_footer])
@pytest.mark.parametrize("pages", [1, 20])
def test_a_page_of_parquet_that_becomes_far_larger_is_not_read(pages, change):
    """Whatever the footer says: 47 KB took 7 GB."""
    texts = ["70" + " " * (80_000_000 // pages) + str(n) for n in range(pages)]
    content = text_block(texts, change, data_page_size=1_000)
    assert len(content) < 100_000
    before = pyarrow.default_memory_pool().max_memory()
    found = read(content, TEXTS)
    assert (found.min_ms, found.damaged) == (None, True)
    assert pyarrow.default_memory_pool().max_memory() - before < 64 << 20
    assert read(text_block([text[:100] for text in texts], change), TEXTS).damaged is False


def test_texts_that_are_made_of_the_one_before_are_not_read():
    """Each takes a byte or two, and is as long as the first."""
    texts = ["70" + " " * 1_000 + str(n) for n in range(2_000)]
    options = {"compression": "none", "column_encoding": {"ts": "DELTA_BYTE_ARRAY"}}
    assert read(text_block(texts, **options), TEXTS).damaged is True


def test_the_pages_of_a_file_are_what_its_footer_says():
    """Of each codec and version that Hudi's writers and pyarrow have, so that no honest file is refused."""
    table = pyarrow.table({"ts": [str(n) for n in range(5_000)], "n": list(range(5_000)), "empty": [None] * 5_000})
    for codec in ("none", "snappy", "gzip", "zstd"):
        for options in ({"data_page_version": "2.0"}, {"use_dictionary": False}, {"write_page_checksum": True}, {}):
            buffer = io.BytesIO()
            parquet.write_table(table, buffer, compression=codec, data_page_size=4_000, row_group_size=2_000, **options)
            metadata = parquet.read_metadata(buffer)
            require_modest(buffer, metadata, range(metadata.num_row_groups))
            for group in map(metadata.row_group, range(metadata.num_row_groups)):
                for column in map(group.column, range(group.num_columns)):
                    pages = _inflated(buffer, column)
                    assert 0 <= column.total_uncompressed_size - pages < column.total_uncompressed_size / 3 + 200


def test_a_schema_of_parquet_that_is_too_deep_is_not_read(monkeypatch):
    """Each group of the schema is in the one before: releases of pyarrow before 26 take stack for each."""
    group, leaf = b"\x35\x02\x18\x01a\x15\x02\x00", b"\x15\x04\x25\x02\x18\x01x\x00"
    deep = 29_999  # and the leaf: Thrift counts without a sign
    footer = b"\x15\x02\x19\xfc" + zigzag((deep + 1) // 2) + group * deep + leaf + b"\x16\x00\x19\x0c\x00"
    content = io.BytesIO(b"PAR1" + footer + struct.pack("<i", len(footer)) + b"PAR1")
    with pytest.raises(OSError, match="too deeply nested"):
        open_parquet(content)
    monkeypatch.setattr(pyarrow, "__version__", "25.0.0")
    with pytest.raises(OSError, match="older than 26"):
        open_parquet(content)


def test_a_text_that_claims_what_is_behind_its_row_is_not_made_for_each_row():
    """Decoded side by side each of them was, before its row's end was looked at: 240 KB took 1.9 GB."""
    row = zigzag(100_000)
    rows = (struct.pack(">i", len(row)) + row) * 2_000 + bytes(100_000)
    schema = {"type": "record", "name": "r", "fields": [{"name": "ts", "type": "string"}]}
    content = struct.pack(">ii", 3, 2_000) + rows
    assert read(log.block(log.AVRO, content, {log.SCHEMA: json.dumps(schema)}), TEXTS) == UNKNOWN


def test_rows_of_parquet_without_a_value_are_counted_and_not_made():
    """Sixty and more of them are in a byte."""
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table({"ts": pyarrow.nulls(400_000, pyarrow.int64())}), buffer, store_schema=False)
    values = list(stored_values(memoryview(_padded(buffer.getvalue(), 8_000)), ("ts",), "number"))
    assert sum(values) == 400_000
    assert len(values) < 50


def _padded(content, size):
    """The same file with so many bytes between its pages and its footer."""
    footer = struct.unpack("<i", content[-8:-4])[0] + 8
    return content[:-footer] + bytes(size) + content[-footer:]


class Asked(io.BytesIO):
    """Notes the most that it is asked for at once."""

    most = 0

    def read(self, size=-1, /):
        self.most = max(self.most, size)
        return super().read(size)


def test_of_a_header_no_more_is_read_than_what_says_how_rows_are_written():
    """64 of them, of 300 MiB each in a sparse file, were 19 GB for whoever looks how a commit wrote its rows."""
    content = log.block(log.AVRO, b"x", {log.SCHEMA: "{}", 99: "y" * 5_000})
    found = Asked(content)
    assert list(read_headers(found, len(content))) == [{log.SCHEMA: b"{}"}]
    assert found.most < 100
    long = log.block(log.AVRO, b"x", {log.SCHEMA: " " * (1 << 20) + "{}"})
    with pytest.raises(BadLogFile, match="larger than Hudi"):
        list(read_headers(Asked(long), len(long)))
    assert read_times(io.BytesIO(long), len(long), WANTED).why == "a schema larger than Hudi writes"


def test_a_column_that_claims_more_than_is_read_is_not_read():
    """A file with a hole has as many bytes as somebody likes, and takes none."""
    column = SimpleNamespace(
        data_page_offset=4,
        dictionary_page_offset=None,
        has_dictionary_page=False,
        total_compressed_size=(256 << 20) + 1,
    )
    with pytest.raises(OSError, match="larger than what is read"):
        _inflated(io.BytesIO(), column)


def test_a_footer_that_claims_to_be_long_is_not_read():
    content = b"PAR1" + bytes(MAX_FOOTER_BYTES + 100) + struct.pack("<i", MAX_FOOTER_BYTES + 1) + b"PAR1"
    found = Asked(content)
    with pytest.raises(OSError, match="a footer of"):
        open_parquet(found)
    assert found.most < 100


def _column(kind=2, codec=0, statistics=b"", sizes=b""):
    """What a footer says of the column `ts`, in Thrift's compact form; `kind` is the type's number, 2 a long."""
    names, paths = b"\x19\x15\x00", b"\x19\x18\x02ts"
    numbers = b"\x16\x02\x16\x3c\x16\x3c\x26\x08"  # of values and bytes, and where its page begins
    found = b"\x15" + zigzag(kind) + names + paths + b"\x15" + zigzag(codec) + numbers
    found += b"\x3c" + statistics + b"\x00" if statistics else b""
    found += (b"\x4c" if statistics else b"\x7c") + sizes + b"\x00" if sizes else b""
    return found + b"\x00"


def _file(column):
    """A Parquet file whose only column is a long, and said to be this one; its pages are zeros."""
    schema = b"\x19\x2c" + b"\x48\x06schema\x15\x02\x00" + b"\x15\x04\x25\x00\x18\x02ts\x00"
    group = b"\x19\x1c" + b"\x26\x08\x1c" + column + b"\x00" + b"\x16\x3c\x16\x02\x00"
    footer = b"\x15\x02" + schema + b"\x16\x02" + b"\x19\x1c" + group + b"\x00"
    return b"PAR1" + bytes(30) + footer + struct.pack("<i", len(footer)) + b"PAR1"


LEAST = b"\x68" + bytes([8]) + bytes(8)  # of eight bytes


@pytest.mark.parametrize(
    ("column", "is_sound"),
    [
        (_column(), True),
        (_column(statistics=LEAST), True),
        (_column(statistics=b"\x68\x03abc"), False),
        (_column(kind=6), False),
        (_column(kind=99), False),
        (_column(kind=-1), False),
        (_column(codec=99), False),
        (_column(sizes=b"\x39\x16\x02"), True),
        (_column(sizes=b"\x39\x26\x02\x02"), False),
        (_column(sizes=b"\x16\x08"), False),
        (b"\x00", False),
    ],
)
def test_a_footer_that_pyarrow_would_end_the_process_over_is_not_read(column, is_sound):
    """pyarrow ends the process over such a column: one byte that was changed ended the work on all tables."""
    script = (
        "import io, sys; from etc_policy.hudi.footers import open_parquet\n"
        "try: found = open_parquet(io.BytesIO(sys.stdin.buffer.read())).metadata.row_group(0).column(0)\n"
        "except OSError as error: sys.exit(str(error))\n"
        "print(found.statistics, found.compression)"
    )
    run = subprocess.run([sys.executable, "-c", script], input=_file(column), capture_output=True, check=False)
    assert (run.returncode, bool(run.stderr)) == (int(not is_sound), not is_sound)  # and no signal


def test_footers_of_any_type_are_read():
    kinds = [
        pyarrow.int32(),
        pyarrow.float32(),
        pyarrow.float64(),
        pyarrow.bool_(),
        pyarrow.string(),
        pyarrow.binary(3),
    ]
    kinds += [
        pyarrow.decimal128(30, 2),
        pyarrow.list_(pyarrow.int64()),
        pyarrow.timestamp("us", "UTC"),
        pyarrow.date32(),
    ]
    columns = {f"c{n}": pyarrow.nulls(5, kind) for n, kind in enumerate(kinds)}
    columns |= {
        "x": list(range(5)),
        "y": ["a"] * 5,
        "z": [{"a": [1.5]}] * 5,
        "f": pyarrow.array([b"abc"] * 5, kinds[5]),
    }
    for options in ({}, {"compression": "zstd"}, {"write_statistics": False}, {"write_page_index": True}):
        buffer = io.BytesIO()
        parquet.write_table(pyarrow.table(columns), buffer, row_group_size=2, **options)
        assert open_parquet(buffer).metadata.num_rows == 5
