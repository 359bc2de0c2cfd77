"""Commits are read by a pattern where there are many, and one by one where there are few: the same comes out."""

import json
import zlib
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from threading import Lock
from time import sleep

import fastavro
import pytest

from etc_policy.errors import TableError
from etc_policy.hudi import commits as hudi_commits
from etc_policy.hudi import metadata_values
from etc_policy.hudi.avro_pattern import MAX_STRING_BYTES
from etc_policy.hudi.commits import WriteStat, decode_commit
from etc_policy.hudi.completed_writes import completed_write
from etc_policy.hudi.table import FileTableReader
from etc_policy.hudi.timeline import read_timeline
from etc_policy.policy.manifest import EventTime
from etc_policy.storage.open_storage import open_reader
from tests.hostile import avro as hostile
from tests.unit.hudi.log_file import zigzag
from tests.unit.hudi.table_folder import (
    COMMIT_SCHEMA,
    REPLACE_SCHEMA,
    TableFolder,
    at,
    avro,
    base,
    commit_metadata,
    log,
)

WRITTEN = (log("f1", 500, rows=7, size=12_345), base("f2", merged=3, partition="q"), log("f3", deletes=2, previous="1"))
RECORD = commit_metadata(at("10:00:00"), WRITTEN, {"a": "b"})
CONTENT = avro(COMMIT_SCHEMA, RECORD)
FLAT = avro(COMMIT_SCHEMA, commit_metadata(at("10:00:00"), (log("f4", 5, partition=""), log("f5", 6, partition=""))))
MANY = 10_000


@pytest.fixture
def slow(monkeypatch):
    """Counts the records that fastavro reads."""
    found = []
    one_by_one = hudi_commits.decode_metadata
    monkeypatch.setattr(
        hudi_commits, "decode_metadata", lambda *arguments: found.append(arguments) or one_by_one(*arguments)
    )
    return found


def test_what_a_commit_says(slow):
    first, second, third = (file.name(at("10:00:00")) for file in WRITTEN)
    said = decode_commit(CONTENT, "x", among=MANY)
    assert list(said.stats) == [
        WriteStat("p", "f1", first, "", 7, 0, 12_345, 500, 0, 0),
        WriteStat("p", "f3", third, "1", 0, 2, 10, None, 0, 0),
        WriteStat("q", "f2", second, "", 0, 0, 100, None, 3, 30),
    ]
    assert (said.extra, said.operation, said.file_ids) == (RECORD["extraMetadata"], "UPSERT", {"f1", "f2", "f3"})
    assert not slow
    assert decode_commit(CONTENT, "x") == decode_commit(json.dumps(RECORD).encode(), "x", among=MANY) == said
    assert len(slow) == 2


def test_what_a_replace_commit_took_away(slow):
    taken = {**RECORD, "partitionToReplaceFileIds": {"p": ["g1", "g2"], "q": ["g1"]}}
    said = decode_commit(avro(REPLACE_SCHEMA, taken), "x", among=MANY)
    assert said.replaced == {("p", "g1"), ("p", "g2"), ("q", "g1")}
    assert said.file_ids == {"f1", "f2", "f3", "g1", "g2"}
    assert not slow
    assert said == decode_commit(avro(REPLACE_SCHEMA, taken), "x")


def test_a_large_commit_is_read_as_one_of_many_is(slow):
    written = tuple(log(f"f{number}", number, partition=f"p{number % 7}") for number in range(20_000))
    content = avro(COMMIT_SCHEMA, commit_metadata(at("10:00:00"), written))
    assert len(decode_commit(content, "x").stats) == 20_000
    assert not slow


def container(record=RECORD, schema=COMMIT_SCHEMA, **options):
    content = BytesIO()
    many = record if isinstance(record, list) else [record]
    fastavro.writer(content, fastavro.parse_schema(dict(schema)), many, **options)
    return content.getvalue()


LATER = {**COMMIT_SCHEMA, "fields": [{"name": "epoch", "type": "int", "default": 0}, *COMMIT_SCHEMA["fields"]]}


@pytest.mark.parametrize(
    "content",
    [
        container(codec="deflate"),
        container([RECORD, RECORD]),
        container([RECORD] * 2, sync_interval=1),
        container({**RECORD, "epoch": 1}, LATER),
        container(commit_metadata(at("10:00:00"), (log("f" * (MAX_STRING_BYTES + 1), 1),))),
    ],
    ids=["compressed", "two records", "two blocks", "another first field", "a long string"],
)
def test_any_other_form_is_read_one_by_one(content, slow):
    assert decode_commit(content, "x", among=MANY) == decode_commit(content, "x")
    assert len(slow) == 2


def test_a_commit_that_wrote_nothing(slow):
    nullable = [{**COMMIT_SCHEMA["fields"][0], "type": ["null", COMMIT_SCHEMA["fields"][0]["type"]]}]
    schema = {**COMMIT_SCHEMA, "fields": [*nullable, *COMMIT_SCHEMA["fields"][1:]]}
    for stats in (None, {}, {"p": []}, RECORD["partitionToWriteStats"]):
        content = container({**RECORD, "partitionToWriteStats": stats}, schema)
        assert decode_commit(content, "x", among=MANY).extra == RECORD["extraMetadata"]
        assert not slow
        assert decode_commit(content, "x", among=MANY) == decode_commit(content, "x")
        slow.clear()


def said_of(content, among):
    try:
        return decode_commit(content, "x", among=among)
    except TableError as error:
        return error.code


@pytest.mark.parametrize("flip", [0x01, 0x02, 0x0D, 0x20, 0x80, 0xFF])
@pytest.mark.parametrize("content", [CONTENT, FLAT], ids=["commit", "flat"])
def test_a_flipped_byte_is_the_same_for_both_ways_or_lies_in_what_is_not_asked_for(flip, content):
    whole = decode_commit(content, "x")
    for position in range(len(content)):
        broken = bytearray(content)
        broken[position] ^= flip
        one, many = said_of(bytes(broken), 1), said_of(bytes(broken), MANY)
        assert many in (one, whole), position


def long(value):
    content = BytesIO()
    fastavro.schemaless_writer(content, "long", value)
    return content.getvalue()


def test_a_block_that_tells_its_size_is_read_one_by_one(slow):
    """Avro allows it: a negative count, and the block's bytes. Hudi does not write it."""
    schema = fastavro.parse_schema(COMMIT_SCHEMA)
    content = BytesIO()
    fastavro.schemaless_writer(content, schema, {**RECORD, "partitionToWriteStats": {"p": []}})
    stat = BytesIO()
    item = fastavro.parse_schema(COMMIT_SCHEMA["fields"][0]["type"]["values"]["items"])
    fastavro.schemaless_writer(stat, item, RECORD["partitionToWriteStats"]["q"][0])
    empty = long(1) + long(1) + b"p" + long(0) + long(0)
    assert content.getvalue().startswith(empty)
    block = long(-1) + long(len(stat.getvalue())) + stat.getvalue() + long(0)
    record = long(1) + long(1) + b"p" + block + long(0) + content.getvalue()[len(empty) :]
    sync, start = CONTENT[-16:], CONTENT.index(CONTENT[-16:]) + 16
    sized = CONTENT[:start] + long(1) + long(len(record)) + record + sync
    said = decode_commit(sized, "x", among=MANY)
    assert [(one.partition, one.file_id) for one in said.stats] == [("p", "f2")]
    assert len(slow) == 1


def test_a_file_cut_short_anywhere_is_the_same_error_for_both():
    for length in range(len(CONTENT)):
        assert said_of(CONTENT[:length], MANY) == said_of(CONTENT[:length], 1)


@pytest.mark.parametrize("among", [1, 1000])
@pytest.mark.parametrize("form", ["avro", "json"])
@pytest.mark.parametrize("key", ["partitionToWriteStats", "partitionToReplaceFileIds"])
def test_a_long_path_of_a_partition_is_not_that_of_many_files(key, form, among):
    """A path of 400,000 characters before the names of thousands of files is gigabytes."""
    long = "p" * 400_000
    metadata = {**commit_metadata(at("10:00:00"), (log("f1", 5),)), "partitionToReplaceFileIds": {"p": ["f2"]}}
    metadata[key] = {long: next(iter(metadata[key].values()))}
    content = avro(REPLACE_SCHEMA, metadata) if form == "avro" else json.dumps(metadata).encode()
    with pytest.raises(TableError, match="not in a form") as error:
        decode_commit(content, "t", among=among)
    assert "400,000 characters" in (error.value.hint or "")


@pytest.mark.parametrize("key", ["fileId", "path", "prevCommit"])
def test_a_name_that_no_storage_has_is_not_kept(key):
    metadata = commit_metadata(at("10:00:00"), (log("f1", 5),))
    metadata["partitionToWriteStats"]["p"][0][key] = "x" * 8_001
    with pytest.raises(TableError, match="not in a form") as error:
        decode_commit(avro(COMMIT_SCHEMA, metadata), "t")
    assert "8,001 characters" in (error.value.hint or "")


def test_what_commits_and_plans_carry_has_a_bound_and_is_kept_once(table, monkeypatch):
    """40 commits of 50 MB of one letter each, which are a few KB in a repository, were 2 GB as long as the table was read."""
    monkeypatch.setattr(metadata_values, "MAX_TEXTS", 20_000)
    for clock in ("10:00", "11:00"):
        table.compaction(
            at(f"{clock}:00"), at(f"{clock}:01"), base("f1"), extra={"x": "y" * 9_000}, plan_extra={"x": "y" * 9_000}
        )
    first, second = table_commits(table)
    assert first.extra["x"] is second.extra["x"]
    table.compaction(at("12:00:00"), at("12:00:01"), base("f1"), plan_extra={"z": "w" * 12_000})
    with pytest.raises(TableError, match="not in a form") as error:
        table_commits(table)
    assert "more than 20,000 characters" in (error.value.hint or "")


def table_commits(table):
    timeline = read_timeline(open_reader(str(table.base)), {"hoodie.timeline.layout.version": "2"})
    return [completed_write(timeline, one) for one in sorted(timeline.written)]


_SHORT = {"type": "record", "name": "S", "fields": [{"name": "fileId", "type": ["null", "string"]}]}
_NOTHING = {"name": "extraMetadata", "type": ["null", "string"]}


@pytest.mark.parametrize("count", [2_000, 200_000])
@pytest.mark.parametrize("codec", ["null", "deflate"])
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("among", [1, 1_000])
def test_a_commit_of_few_bytes_names_few_files(among, is_first, codec, count):
    """1,343 bytes were a million write stats, which are kept while the table is read; 250 MB of zeros were as many."""
    stats = {"name": "partitionToWriteStats", "type": {"type": "map", "values": {"type": "array", "items": _SHORT}}}
    fields = [stats, _NOTHING] if is_first else [_NOTHING, stats]
    content = (b"\2\2p" + zigzag(count) + bytes(count) + b"\0\0", b"\0")
    block = b"".join(content if is_first else reversed(content))
    if codec == "deflate":
        deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
        block = deflater.compress(block) + deflater.flush()
    file = hostile.container({"type": "record", "name": "C", "fields": fields}, block, codec=codec)
    with pytest.raises(TableError) as error:
        decode_commit(file, "t", among=among)
    assert error.value.code in ("ETC216", "ETC208")


@pytest.mark.parametrize("decode", [decode_commit, hudi_commits.decode_metadata])
@pytest.mark.parametrize(("size", "most"), [(100, 4), (1 << 18, 1), (2 << 20, 1)])
def test_large_contents_are_decoded_one_at_a_time(monkeypatch, decode, size, most):
    """Four tables are read side by side, and each may make nearly 2 GiB of a file."""
    at_once, found, lock = [0], [], Lock()

    def slowly(content):
        with lock:
            at_once[0] += 1
            found.append(at_once[0])
        sleep(0.1)
        with lock:
            at_once[0] -= 1
        return {}

    monkeypatch.setattr(hudi_commits, "load_json", slowly)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: decode(b"{" + b" " * size, "t"), range(4)))
    assert max(found) == most


def test_whoever_writes_another_schema_into_each_commit_gets_no_more_patterns(monkeypatch):
    """Each took up to three seconds to make, and its header stayed in memory, which may be as long as the file."""
    monkeypatch.setattr(hudi_commits, "_FORMS", {})
    for number in range(hudi_commits._MOST_FORMS + 5):
        schema = {**COMMIT_SCHEMA, "doc": str(number)}
        assert decode_commit(container(RECORD, schema), "x", among=MANY).operation == "UPSERT"
    assert len(hudi_commits._FORMS) == hudi_commits._MOST_FORMS
    monkeypatch.setattr(hudi_commits, "_FORMS", {})
    with pytest.raises(TableError):
        decode_commit(bytes(2 << 20) + b"0123456789abcdef", "x")
    assert not hudi_commits._FORMS


@pytest.mark.parametrize("partition", ["file:/lake/other/p", "hour:10", "a-b:c", "file:x/y", "::p", "ab:cd:/x"])
@pytest.mark.parametrize("fast", [False, True])
def test_a_partition_in_another_table_is_refused(tmp_path, monkeypatch, fast, partition):
    """To Hudi a path that begins with a scheme lies below nothing: a file in `hour:10` is one of the root folder."""
    monkeypatch.setattr(hudi_commits, "_MANY", 1 if fast else MANY)
    table = TableFolder(tmp_path / "t")
    table.commit(at("10:00:00"), at("10:00:05"), base("f1", partition=partition))
    table.commit(at("10:10:00"), at("10:10:05"), log("f1", 5, partition=partition))
    with pytest.raises(TableError, match="not in a form") as error:
        FileTableReader().read(str(table.base), EventTime(column="ts", unit="ms"))
    assert "the path of a partition begins with a scheme" in error.value.hint
