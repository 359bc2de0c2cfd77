"""What a table shows of its writers' options: index definitions, and footers of base files."""

import base64
import json
import math
import os
import struct
from datetime import UTC

import pytest

from etc_policy.errors import TableError
from etc_policy.hudi import log_forms
from etc_policy.hudi.commits import CommitFacts
from etc_policy.hudi.log_forms import is_metadata_of_1_0
from etc_policy.hudi.properties import read_properties
from etc_policy.hudi.table import FileTableReader
from etc_policy.hudi.writer_options import (
    COLUMN_LIST,
    STREAMING,
    has_consistent_buckets,
    index_definitions,
    indexed_columns,
    option_of_metadata_commits,
    options_of_base_file,
    options_of_indexes,
)
from etc_policy.storage import local
from etc_policy.storage.local import LocalStorage
from etc_policy.storage.object_cache import ObjectCache
from etc_policy.table.instants import instant_to_ms
from tests.unit.hudi.log_file import HFILE, SCHEMA, block
from tests.unit.hudi.reading import TS, read
from tests.unit.hudi.table_folder import TableFolder, at, base, log


def definitions_of(folder, definitions, path=".hoodie/.index_defs/index.json"):
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(definitions if isinstance(definitions, str) else json.dumps({"indexDefinitions": definitions}))
    return index_definitions(LocalStorage(folder), {"hoodie.table.index.defs.path": path})


COLUMNS = {"sourceFields": ["_hoodie_record_key", "c44", "s.x"], "indexOptions": {}}


def test_buckets_of_consistent_hashing_are_seen_by_what_writers_keep_of_them(tmp_path):
    assert not has_consistent_buckets(LocalStorage(tmp_path))
    kept = tmp_path / ".hoodie" / ".bucket_index" / "consistent_hashing_metadata" / "p" / "00000000000000.hashing_meta"
    kept.parent.mkdir(parents=True)
    kept.write_text("{}")
    assert has_consistent_buckets(LocalStorage(tmp_path))


def test_columns_of_statistics(tmp_path):
    found = definitions_of(tmp_path, {"column_stats": COLUMNS})
    assert indexed_columns(found) == ("_hoodie_record_key", "c44", "s.x")
    assert [tuple(one) for one in options_of_indexes(found)] == [
        (COLUMN_LIST, "_hoodie_record_key,c44,s.x", "index definitions")
    ]


def test_the_definitions_may_lie_elsewhere(tmp_path):
    assert indexed_columns(definitions_of(tmp_path, {"partition_stats": COLUMNS}, ".hoodie/other.json"))[1:] == (
        "c44",
        "s.x",
    )


def test_a_table_without_definitions_says_nothing(tmp_path):
    assert index_definitions(LocalStorage(tmp_path), {}) == {}
    assert list(options_of_indexes({})) == []


@pytest.mark.parametrize(("partitioned", "options"), [("true", 2), ("false", 0)])
def test_a_record_index_by_partition(tmp_path, partitioned, options):
    found = definitions_of(tmp_path, {"record_index": {"indexOptions": {"isPartitioned": partitioned}}})
    assert len(list(options_of_indexes(found))) == options


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"indexDefinitions": 3}', '{"indexDefinitions": {"a": {"sourceFields": "c"}}}']
)
def test_damaged_definitions_are_an_error(tmp_path, text):
    with pytest.raises(TableError) as error:
        definitions_of(tmp_path, text)
    assert error.value.code == "ETC215"
    assert ".index_defs/index.json` is damaged" in error.value.message


def write_parquet(file, kept, **options):
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"id": [1]}).replace_schema_metadata(kept), file, **options)


def filter_of(keys, rate):
    """A filter as Hudi keeps it in a footer."""
    bits = math.ceil(keys * -math.log(rate) / math.log(2) ** 2)
    hashes = math.ceil(math.log(2) * bits / keys)
    return bits, hashes, base64.b64encode(struct.pack(">iibi", -1, hashes, 1, bits) + bytes(64))


@pytest.mark.parametrize(("keys", "rate"), [(60_000, 1e-9), (1_000, 1e-9), (5_000, 0.01)])
@pytest.mark.parametrize("kind", [b"DYNAMIC_V0", None])
def test_a_base_file_names_codec_and_bloom_filter(tmp_path, keys, rate, kind):
    bits, hashes, content = filter_of(keys, rate)
    kept = {b"org.apache.hudi.bloomfilter": content, **({b"hoodie_bloom_filter_type_code": kind} if kind else {})}
    write_parquet(tmp_path / "f.parquet", kept, compression="zstd")
    found = {one.option: one.value for one in options_of_base_file(LocalStorage(tmp_path), "f.parquet")}
    assert found["hoodie.parquet.compression.codec"] == "zstd"
    assert found["hoodie.bloom.index.filter.type"] == ("DYNAMIC_V0" if kind else "SIMPLE")
    of_options = filter_of(int(found["hoodie.index.bloom.num_entries"]), float(found["hoodie.index.bloom.fpp"]))
    assert of_options[:2] == (bits, hashes)


@pytest.mark.parametrize(("column", "is_kept"), [("_hoodie_operation", True), ("operation", False)])
def test_a_base_file_with_the_column_of_operations_keeps_it(tmp_path, column, is_kept):
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"id": [1], column: ["I"]}), tmp_path / "f.parquet")
    found = {one.option: one.value for one in options_of_base_file(LocalStorage(tmp_path), "f.parquet")}
    assert found.get("hoodie.allow.operation.metadata.field") == ("true" if is_kept else None)


@pytest.mark.parametrize(
    "kept", [{}, {b"org.apache.hudi.bloomfilter": b"!"}, {b"org.apache.hudi.bloomfilter": b"AAAA"}]
)
def test_a_filter_that_cannot_be_read_is_left_to_hudi(tmp_path, kept):
    write_parquet(tmp_path / "f.parquet", kept)
    found = {one.option for one in options_of_base_file(LocalStorage(tmp_path), "f.parquet")}
    assert "hoodie.index.bloom.num_entries" not in found


def test_a_file_that_is_no_parquet_says_nothing(tmp_path):
    (tmp_path / "f.parquet").write_bytes(b"no")
    assert list(options_of_base_file(LocalStorage(tmp_path), "f.parquet")) == []
    assert list(options_of_base_file(LocalStorage(tmp_path), "gone.parquet")) == []
    assert list(options_of_base_file(LocalStorage(tmp_path), None)) == []


class TestCommitsToTheMetadataTable:
    """Whether they are opened before the data is written shows in the times of files, of which the storage's clock is one."""

    @pytest.fixture
    def written(self, tmp_path):
        """Writes that stream (s) or do not (n), each as its files say: `written("sn")`."""

        def make(writes, *, copied_ms=0, operation="UPSERT", **kinds):
            table = TableFolder(tmp_path / "t", properties={"hoodie.table.metadata.partitions": "files"}, **kinds)
            made = [(at(f"10:0{number}:00"), at(f"10:0{number}:09"), streams) for number, streams in enumerate(writes)]
            table.metadata_table(*((requested, completed) for requested, completed, _ in made))
            for requested, completed, streams in made:
                table.commit(requested, completed, log("f1", partition="p"), kind=operation)
                metadata = table.meta / "metadata" / ".hoodie" / "timeline"
                times = {
                    table.base / "p" / log("f1").name(requested): 5_000,
                    metadata / f"{requested}.deltacommit.requested": 3_000 if streams == "s" else 7_000,
                    metadata / f"{requested}_{completed}.deltacommit": 9_000,
                }
                for path, after_ms in times.items():
                    moment = (instant_to_ms(requested, UTC) + after_ms + copied_ms) / 1000
                    os.utime(path, (moment, moment))
            return table

        return make

    def shown(self, table):
        storage = LocalStorage(table.base)
        return [(one.option, one.value) for one in option_of_metadata_commits(storage, read_properties(storage))]

    @pytest.mark.parametrize(
        ("writes", "value"), [("s", "true"), ("sss", "true"), ("n", "false"), ("sns", "false"), ("nss", "false")]
    )
    def test_one_writer_that_does_not_stream_is_enough(self, written, writes, value):
        assert self.shown(written(writes)) == [(STREAMING, value)]

    def test_of_the_last_ten_writes(self, written):
        assert self.shown(written("n" + "s" * 9)) == [(STREAMING, "false")]

    def test_a_copy_of_a_table_does_not_show_it(self, written):
        assert self.shown(written("ssn", copied_ms=3_600_000)) == []

    def test_nor_do_files_of_one_moment(self, written):
        table = written("s")
        for path in (*table.base.glob("p/.f1*"), *table.meta.glob("metadata/.hoodie/timeline/*.requested")):
            os.utime(path, (1_767_261_604, 1_767_261_604))
        assert self.shown(table) == []

    def test_nor_does_a_write_whose_file_was_cleaned(self, written):
        table = written("s")
        for path in table.base.glob("p/.f1*"):
            path.unlink()
        assert self.shown(table) == []

    def test_nor_does_a_bulk_insert_which_may_write_as_spark_does(self, written):
        assert self.shown(written("s", operation="BULK_INSERT")) == []

    def test_before_table_version_8_nobody_streams(self, written):
        assert self.shown(written("", version=6)) == []


#: What is told of a table that Hudi 1.0 has made.
MADE_BY_1_0 = {
    "hoodie.table.metadata.partitions": "files",
    "hoodie.table.ordering.fields": None,
    "hoodie.table.precombine.field": "ts",
}


class TestMetadataTableOfHudi1:
    """Each commit to it leaves a log file there, with the schema of its records (facts: later-metadata-schema)."""

    OLD, LATER = (
        block(HFILE, b"", {SCHEMA: '{"name": "isTightBound"}'}),
        block(HFILE, b"", {SCHEMA: '{"name": "valueType"}'}),
    )

    def is_of_1_0(self, tmp_path, *commits, version=8, **properties):
        """Whether a table with these commits to its metadata table is, oldest first."""
        table = TableFolder(tmp_path / "t", version=version, properties={**MADE_BY_1_0, **properties})
        folder = table.meta / "metadata" / "files"
        folder.mkdir(parents=True)
        for number, content in enumerate(commits):
            (folder / f".files-0000-0_{at(f'10:{number:02}:00')}.log.1_0-1-2").write_bytes(content)
        (folder / "files-0000-0_0-5-4_00000000000000000.hfile").write_bytes(b"base")
        table.metadata_table((at("10:00:00"), at("10:00:01")))
        table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
        storage = LocalStorage(table.base)
        found = is_metadata_of_1_0(storage, read_properties(storage), CommitFacts())
        assert read(table).metadata_of_1_0 is found
        return found

    def test_a_log_file_is_opened_once_while_it_is_the_same(self, tmp_path, monkeypatch):
        monkeypatch.setattr(local, "_AT_REST_NS", 0)
        assert self.is_of_1_0(tmp_path, self.OLD, self.OLD)
        opened, read_headers = [], log_forms.read_headers
        monkeypatch.setattr(log_forms, "read_headers", lambda *given: opened.append(given) or read_headers(*given))
        for _ in range(2):
            reader, table = FileTableReader(ObjectCache(tmp_path / "cache")), str(tmp_path / "t")
            assert reader.read(table, TS).metadata_of_1_0
            assert len(opened) == 2
        logs = sorted((tmp_path / "t" / ".hoodie" / "metadata" / "files").glob("*.log.1_*"))
        logs[0].write_bytes(self.LATER)
        for gone, is_of_1_0, count in ((), False, 3), ((logs[0],), True, 3), (logs, False, 3):
            for path in gone:
                path.unlink(missing_ok=True)
            reader = FileTableReader(ObjectCache(tmp_path / "cache"))
            assert (reader.read(table, TS).metadata_of_1_0, len(opened)) == (is_of_1_0, count)

    def test_its_last_commits_say_it(self, tmp_path):
        assert self.is_of_1_0(tmp_path, self.OLD, self.OLD)

    @pytest.mark.parametrize("later", [0, 1])
    def test_one_of_a_later_release_is_enough(self, tmp_path, later):
        commits = [self.OLD, self.OLD]
        commits[later] = self.LATER
        assert not self.is_of_1_0(tmp_path, *commits)

    def test_of_the_last_ten(self, tmp_path):
        assert self.is_of_1_0(tmp_path, self.LATER, *[self.OLD] * 10)

    @pytest.mark.parametrize(
        "commits", [(), (b"",), (b"no log file at all, and long enough for one",), (OLD, OLD[:20])]
    )
    def test_it_is_not_where_none_says_it_or_one_is_damaged(self, tmp_path, commits):
        assert not self.is_of_1_0(tmp_path, *commits)

    @pytest.mark.parametrize(
        ("key", "value"),
        [("hoodie.table.metadata.partitions", None), ("hoodie.table.precombine.field", None)],
    )
    def test_nor_is_that_of_a_table_of_other_releases_nor_one_that_is_not_used(self, tmp_path, key, value):
        assert not self.is_of_1_0(tmp_path, self.OLD, **{key: value})

    def test_nor_on_table_version_6_where_nobody_has_tried_it(self, tmp_path):
        strategy = {"hoodie.record.merge.strategy.id": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"}
        assert not self.is_of_1_0(tmp_path, self.OLD, version=6, **strategy)

    def test_nor_where_there_is_none(self, tmp_path):
        table = TableFolder(tmp_path / "t", version=8, properties=MADE_BY_1_0)
        storage = LocalStorage(table.base)
        assert not is_metadata_of_1_0(storage, read_properties(storage), CommitFacts())
