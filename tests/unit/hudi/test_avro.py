"""Avro files that ask for much: refused before they are decoded, in as much memory as the file has bytes."""

import json
import subprocess
import sys
import tracemalloc
import zlib
from io import BytesIO
from random import Random

import fastavro
import pytest

from etc_policy.errors import TableError
from etc_policy.hudi.avro import (
    INFLATED_BYTES,
    INFLATED_TIMES,
    MAX_INFLATED_BYTES,
    MAX_MEMORY,
    MAX_SCHEMA_BYTES,
    BadAvro,
    memory_rate,
    parse_schema,
    read_first_record,
    read_header,
)
from etc_policy.hudi.commits import decode_commit, decode_metadata
from tests.hostile.avro import HOSTILE, array, container, doubling, nested, of_no_bytes, record, recursive
from tests.unit.hudi.log_file import zigzag
from tests.unit.hudi.table_folder import (
    COMMIT_SCHEMA,
    REPLACE_SCHEMA,
    ROLLBACK_SCHEMA,
    at,
    avro,
    commit_metadata,
    log,
)


@pytest.mark.parametrize("seed", range(12))
def test_a_schema_that_holds_itself_is_refused(seed):
    with pytest.raises(BadAvro):
        parse_schema(recursive(Random(seed)))


@pytest.mark.parametrize("seed", range(12))
def test_items_of_no_bytes_are_refused(seed):
    with pytest.raises(BadAvro, match="items of no bytes"):
        parse_schema(record("r", array(of_no_bytes(Random(seed)))))


@pytest.mark.parametrize(
    "schema",
    [
        nested(33),
        nested(400),
        doubling(24, "null"),
        array(array(array(record("r", *["null"] * 9)))),
        array(record("r", "boolean", *["null"] * 9)),
        array(nested(4)),
        {"type": "map", "values": record("r", "null", "null")},
        record("r", *["null"] * 2_000),
        array({"type": "fixed", "name": "f", "size": -1}),
    ],
)
def test_many_values_of_few_bytes_are_refused(schema):
    with pytest.raises((BadAvro, RecursionError)):
        parse_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        COMMIT_SCHEMA,
        REPLACE_SCHEMA,
        ROLLBACK_SCHEMA,
        record("r", "null", "long"),
        record("r", record("s", "long"), array("s"), ["null", "s"]),
        record("r", {"type": "enum", "name": "e", "symbols": ["A"]}, array("e"), {"type": "map", "values": "null"}),
        {**record("r", {**record("s", "long"), "namespace": "a.b"}, "a.b.s"), "namespace": "c"},
        array({"type": "fixed", "name": "f", "size": 3}),
    ],
)
def test_what_hudi_writes_is_not_refused(schema):
    assert parse_schema(schema)


def test_a_name_that_is_not_there_is_refused():
    with pytest.raises(Exception, match="gone"):
        parse_schema(record("r", "gone"))


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_the_first_record_is_that_of_fastavro(codec):
    buffer = BytesIO()
    records = [commit_metadata(at("10:00:00"), (log("f1", 5),)), commit_metadata(at("11:00:00"), ())]
    fastavro.writer(buffer, fastavro.parse_schema(dict(COMMIT_SCHEMA)), records, codec=codec)
    assert read_first_record(buffer.getvalue()) == next(fastavro.reader(BytesIO(buffer.getvalue())))


def test_what_inflates_far_beyond_the_file_is_refused():
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = deflater.compress(bytes(INFLATED_BYTES + 1)) + deflater.flush()
    with pytest.raises(BadAvro, match="inflated"):
        read_first_record(container(record("r", "bytes"), bomb, codec="deflate"))


def test_what_inflates_to_more_than_may_be_decoded_is_refused():
    """610 KB took 1 GB: a list of values of a byte each, and what cannot be compressed beside it."""
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    noise = Random(1).randbytes(700_000)
    values = b"\0" * (MAX_INFLATED_BYTES - len(noise))
    schema = record("r", "bytes", array(record("w", "boolean")))
    content = zigzag(len(noise)) + noise + zigzag(len(values)) + values + b"\0"
    block = deflater.compress(content) + deflater.flush()
    assert len(content) < INFLATED_TIMES * len(block)
    with pytest.raises(BadAvro, match="inflated"):
        read_first_record(container(schema, block, codec="deflate"))


_MANY = 100_000
_OF_MAP = {"type": "map", "values": "boolean"}


@pytest.mark.parametrize(
    ("items", "each"),
    [
        (record("w", "boolean"), b"\0"),
        (record("w", *["boolean"] * 6), bytes(6)),
        (record("w", *[["null", "long"]] * 11), bytes(11)),
        (record("w", array("boolean"), array("boolean")), bytes(2)),
        (array("boolean"), b"\0"),
        (_OF_MAP, b"\0"),
        ({"type": "map", "values": _OF_MAP}, b"\2\2a\2\2b\0\0\0"),
        ("boolean", b"\0"),
        ("long", b"\x7f"),
        ("string", b"\4ab"),
        ("string", b"\4\xc3\xa9"),
        ("bytes", b"\4ab"),
        ("float", bytes(4)),
        ({"type": "fixed", "name": "x", "size": 1}, b"\0"),
        (["null", record("w", "boolean")], b"\2\0"),
    ],
)
def test_values_take_no_more_memory_than_their_schema_says(items, each):
    named = {}
    rate = memory_rate(schema := parse_schema(record("r", array(items)), named), named)
    content = zigzag(_MANY) + each * _MANY + b"\0"
    tracemalloc.start()
    try:
        assert len(fastavro.schemaless_reader(BytesIO(content), schema, None)["f0"]) == _MANY
        assert tracemalloc.get_traced_memory()[1] <= rate * len(content) + MAX_SCHEMA_BYTES
    finally:
        tracemalloc.stop()


def test_a_record_that_takes_far_more_memory_than_it_has_bytes_is_not_decoded():
    """64 MiB of zeros, which are a few KB in a repository, took 13 GB."""
    many = MAX_MEMORY // 200
    with pytest.raises(BadAvro, match="times as much memory"):
        read_first_record(container(record("r", array(record("w", "boolean"))), zigzag(many) + bytes(many) + b"\0"))
    assert (
        len(read_first_record(container(record("r", array("boolean")), zigzag(many) + bytes(many) + b"\0"))["f0"])
        == many
    )


@pytest.mark.parametrize("codec", ["snappy", "bzip2", "xz"])
def test_a_compression_that_hudi_does_not_use_is_refused(codec):
    with pytest.raises(BadAvro, match=codec):
        read_first_record(container(record("r", "long"), b"\x02", codec=codec))


def test_a_decimal_is_left_as_bytes():
    schema = record("r", {"type": "bytes", "logicalType": "decimal", "precision": 10**6, "scale": 2})
    assert read_first_record(container(schema, zigzag(3) + b"\1\2\3")) == {"f0": b"\1\2\3"}


def test_a_file_that_is_cut_anywhere_is_one_error():
    whole = avro(COMMIT_SCHEMA, commit_metadata(at("10:00:00"), (log("f1", 5),)))
    for end in range(4, len(whole)):
        with pytest.raises(TableError) as error:
            decode_metadata(whole[:end], "t")
        assert error.value.code == "ETC208"


def test_a_header_has_a_schema():
    with pytest.raises(BadAvro, match="schema is missing"):
        read_header(b"Obj\x01\0" + bytes(16))


_ALL = """
import resource, sys
from random import Random
sys.path.insert(0, ".")
from etc_policy.hudi.commits import decode_commit
from etc_policy.errors import TableError
from tests.hostile.avro import HOSTILE
decode_commit(b"{}", "t")
files = [(make.__name__, make(Random(seed))) for make in HOSTILE for seed in range(2)]
limit = 600 << 20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
for name, content in files:
    print(name, len(content), flush=True)
    for among in (1, 1000):
        try:
            decode_commit(content, "t", among=among)
        except TableError as error:
            assert error.code in ("ETC208", "ETC216"), error.code
print("survived")
"""


def test_no_file_ends_the_process_or_takes_its_memory():
    done = subprocess.run([sys.executable, "-c", _ALL], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()[-1]) == (0, "survived"), done.stdout[-200:] + done.stderr[-500:]
    assert done.stdout.count("\n") == 2 * len(HOSTILE) + 1


def test_json_that_no_serializer_writes_is_one_error():
    for value in ("Infinity", "NaN", "1" * 5_000, "[" * 5_000):
        with pytest.raises(TableError) as error:
            decode_commit(b'{"a": ' + value.encode() + b"}", "t")
        assert error.value.code == "ETC208"


@pytest.mark.parametrize("field", ["numWrites", "numDeletes", "fileSizeInBytes", "totalLogFilesCompacted"])
@pytest.mark.parametrize("value", [2**63, 1.5, "many", True, [1], -(2**64)])
def test_a_number_is_a_whole_number_of_64_bits(field, value):
    content = json.dumps({"partitionToWriteStats": {"p": [{"fileId": "f1", field: value}]}}).encode()
    with pytest.raises(TableError, match="not in a form") as error:
        decode_commit(content, "t/1.deltacommit")
    assert error.value.code == "ETC216"
    assert "where a whole number is expected" in error.value.hint
    assert "t/1.deltacommit" in error.value.message


def test_a_number_of_400_digits_is_not_read():
    content = json.dumps({"partitionToWriteStats": {"p": [{"fileId": "f1", "numWrites": 10**400}]}}).encode()
    with pytest.raises(TableError, match="a number that is too large") as error:
        decode_commit(content, "t/1.deltacommit")
    assert error.value.code == "ETC208"


def test_a_decimal_in_statistics_of_columns_is_read():
    stats = {"fileId": "f1", "path": "p/f", "recordsStats": {"val": {"d": {"maxValue": int("9" * 38)}}}}
    assert decode_commit(json.dumps({"partitionToWriteStats": {"p": [stats]}}).encode(), "t") is not None


@pytest.mark.parametrize("value", [5, ["a"], "\ud800", {}])
def test_a_text_is_a_text_that_can_be_written(value):
    for record_ in (
        {"partitionToWriteStats": {"p": [{"fileId": value or [1]}]}},
        {"extraMetadata": {"k": value or [1]}},
        {"partitionToReplaceFileIds": {"p": [value or [1]]}},
        {"operationType": value or [1]},
    ):
        with pytest.raises(TableError) as error:
            decode_commit(json.dumps(record_).encode(), "t")
        assert error.value.code == "ETC216"
