"""How a table's writers write it, as far as the table shows it, in options of Hudi: a compaction writes in the same way.

What decides which rows a reader finds (the columns of statistics, the kind of a record index) is in the index definitions. What
decides sizes alone (codec, bloom filter) is in the footers of base files. Whether writers stream to the metadata table shows in
the order in which they made their files. None is a property of the table, and a client that is not given them takes Hudi's
defaults (facts: writers-options-elsewhere, streaming-writers).
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from etc_policy.errors import EngineError, TableError
from etc_policy.errors.codes import Code
from etc_policy.hudi.completion_times import metadata_timeline
from etc_policy.hudi.footers import is_encrypted, read_footer
from etc_policy.hudi.layout import InstantFile
from etc_policy.hudi.log_forms import OPERATION_COLUMN
from etc_policy.hudi.metadata_values import UNKNOWN_FORM, list_of, load_json, mapping_of, text_of
from etc_policy.hudi.properties import metadata_partitions
from etc_policy.hudi.timeline import Timeline, read_timeline
from etc_policy.hudi.zones import table_zone
from etc_policy.policy.hudi_options import OPERATION_OPTION
from etc_policy.storage.port import FileInfo, TableReader
from etc_policy.table.instants import CLOCK_TOLERANCE_MS, instant_to_ms
from etc_policy.table.state import CUT_VERSIONS, WriterOption, path_below

#: Which columns have statistics; `column_stats` and `partition_stats` go by it.
COLUMN_LIST = "hoodie.metadata.index.column.stats.column.list"
#: The partitions of the metadata table that hold statistics of columns.
COLUMN_STATISTICS = ("column_stats", "partition_stats")
RECORD_INDEX = "record_index"
#: Whether a write opens its commit to the metadata table before it writes data (from 1.1 on), or makes it at its end.
STREAMING = "hoodie.metadata.streaming.write.enabled"


_DEFINITIONS, _DEFINITIONS_PATH = ".hoodie/.index_defs/index.json", "hoodie.table.index.defs.path"
_MAX_DEFINITIONS_BYTES = 1 << 20
_SOURCE = "index definitions"
_CONSISTENT_BUCKETS = ".hoodie/.bucket_index/consistent_hashing_metadata"
_GLOBAL_RECORD_INDEX = "hoodie.metadata.record.index.enable"
_PARTITIONED_RECORD_INDEX = "hoodie.metadata.record.level.index.enable"

_BLOOM_FILTERS = (b"org.apache.hudi.bloomfilter", b"com.uber.hoodie.bloomfilter")
#: Hudi names no kind for its simple one.
_BLOOM_TYPE, _UNNAMED_TYPE = b"hoodie_bloom_filter_type_code", b"SIMPLE"
#: Hadoop's `Filter.write`: version, number of hash functions, kind of hash, number of bits.
_FILTER_HEADER = struct.Struct(">iibi")
_FILTER_VERSION = -1


#: The operations that stream where the option is on. Bulk inserts are not asked: they may write as rows of Spark.
_STREAMED = frozenset({"UPSERT", "UPSERT_PREPPED", "INSERT", "INSERT_PREPPED", "DELETE", "DELETE_PREPPED"})
#: So many of the newest writes are asked.
_ASKED = 10


class IndexDefinition(NamedTuple):
    """What is indexed: columns, and further options by name."""

    columns: tuple[str, ...]
    options: Mapping[str, str]


def index_definitions(storage: TableReader, properties: Mapping[str, str]) -> dict[str, IndexDefinition]:
    """Each index's definition, by its partition of the metadata table; none where Hudi keeps none (tables of 0.x).

    Raises:
        TableError: the file is damaged.
        OSError: it cannot be read.

    """
    path = properties.get(_DEFINITIONS_PATH, _DEFINITIONS)
    try:
        content = storage.read(path, _MAX_DEFINITIONS_BYTES)
    except FileNotFoundError:
        return {}
    try:
        found = mapping_of(mapping_of(load_json(content))["indexDefinitions"])
        return {name: _definition(mapping_of(one)) for name, one in found.items()}
    except UNKNOWN_FORM as error:
        message = f"the index definitions of `{storage.location}` cannot be read: `{path}` is damaged"
        hint = "a compaction must know which columns are indexed: run this again, or restore the file from a copy"
        raise TableError(Code.DAMAGED_PROPERTIES, message, hint=hint) from error


def _definition(kept: Mapping[str, Any]) -> IndexDefinition:
    options = mapping_of(kept.get("indexOptions"))
    return IndexDefinition(
        tuple(text_of(column) for column in list_of(kept.get("sourceFields"))),
        {name: text_of(value) for name, value in options.items()},
    )


def indexed_columns(definitions: Mapping[str, IndexDefinition]) -> tuple[str, ...]:
    """The columns of which writers keep statistics, Hudi's own among them; none where no definition says it."""
    return next((definitions[name].columns for name in COLUMN_STATISTICS if name in definitions), ())


def has_consistent_buckets(storage: TableReader) -> bool:
    """Whether writers keep buckets by consistent hashing, whose numbers no name of a file group shows.

    Raises:
        OSError: the folder cannot be read.

    """
    try:
        return bool(storage.names(_CONSISTENT_BUCKETS))
    except FileNotFoundError:
        return False


def options_of_indexes(definitions: Mapping[str, IndexDefinition]) -> Iterator[WriterOption]:
    """What the index definitions say of the writers' options."""
    columns = indexed_columns(definitions)
    if columns:
        yield WriterOption(COLUMN_LIST, ",".join(columns), _SOURCE)
    record_index = definitions.get(RECORD_INDEX)
    if record_index is not None and record_index.options.get("isPartitioned") == "true":
        yield WriterOption(_GLOBAL_RECORD_INDEX, "false", _SOURCE)
        yield WriterOption(_PARTITIONED_RECORD_INDEX, "true", _SOURCE)


#: By which Parquet encrypts, among Hadoop's settings; that factory of Parquet's own does by keys that others name.
_FACTORY, _BY_KEYS = "parquet.crypto.factory.class", ".PropertiesDrivenCryptoFactory"
_KEYS = tuple(f"parquet.encryption.{key}" for key in ("footer.key", "column.keys", "uniform.key"))


def require_encrypting(storage: TableReader, path: str | None, setting: Callable[[str], str | None]) -> None:
    """Return if base files written under Hadoop's settings are encrypted where the one at a path is.

    Raises:
        EngineError: they would be plain.
        OSError: the file cannot be read.

    """
    if path is None or not path.endswith(".parquet") or not is_encrypted(storage, path):
        return
    factory = setting(_FACTORY) or ""
    if any(map(setting, _KEYS)) if factory.endswith(_BY_KEYS) else factory:
        return
    message = (
        f"the base file `{path}` of `{storage.location}` is encrypted, and a compaction by this session would not be"
    )
    hint = (
        f"set `spark.hadoop.{_FACTORY}` and its keys in `spark_confs` of the target, as the table's writers have them"
    )
    raise EngineError(Code.NOT_ENCRYPTED, message, hint=hint)


def options_of_base_file(storage: TableReader, path: str | None) -> Iterator[WriterOption]:
    """What the footer of a base file says of the writers' options; nothing without pyarrow, or where it cannot be read.

    They decide sizes and whether the column of operations stays, so that rows are right without them too: what deletes is in log
    files.
    """
    footer = read_footer(storage, path) if path is not None and path.endswith(".parquet") else None
    if footer is None:
        return
    codec = footer.row_group(0).column(0).compression if footer.num_row_groups else None
    kept = footer.metadata or {}
    source = f"footer of {path}"
    if any(footer.schema.column(number).path == OPERATION_COLUMN for number in range(footer.num_columns)):
        yield WriterOption(OPERATION_OPTION, "true", source)
    if codec is not None:
        yield WriterOption("hoodie.parquet.compression.codec", codec.lower(), source)
    yield from _options_of_filter(kept, source)


def _options_of_filter(kept: Mapping[bytes, bytes], source: str) -> Iterator[WriterOption]:
    """The bloom filter's kind and size. Hudi makes bits and hash functions of a number of keys and a rate of false hits."""
    kind = kept.get(_BLOOM_TYPE, _UNNAMED_TYPE)
    content = next((kept[name] for name in _BLOOM_FILTERS if name in kept), None)
    if content is None:
        return
    yield WriterOption("hoodie.bloom.index.filter.type", kind.decode("ascii", "replace"), source)
    try:
        head = base64.b64decode(content[:24])[: _FILTER_HEADER.size]
        version, hashes, _, bits = _FILTER_HEADER.unpack(head)
    except (binascii.Error, struct.error):
        return
    if version == _FILTER_VERSION and hashes > 0 and bits > 0:
        # Hudi rounds both up, so that half less of each gives the same again.
        keys = max(1, round(bits * math.log(2) / (hashes - 0.5)))
        rate = math.exp(-(bits - 0.5) * math.log(2) ** 2 / keys)
        yield WriterOption("hoodie.index.bloom.num_entries", str(keys), source)
        yield WriterOption("hoodie.index.bloom.fpp", repr(rate), source)


def option_of_metadata_commits(storage: TableReader, properties: Mapping[str, str]) -> Iterator[WriterOption]:
    """Whether the table's writers stream to its metadata table; nothing where no write shows it.

    A client that does not stream rolls back every commit there that is open, be its writer alive or not. So one writer that
    does not is enough: beside it nobody else can stream.

    Raises:
        TableError: a timeline is damaged.
        OSError: it cannot be read.

    """
    if not metadata_partitions(properties) or int(properties["hoodie.table.version"]) not in CUT_VERSIONS:
        return
    metadata = metadata_timeline(storage)
    if metadata is None:
        return
    timeline, zone = read_timeline(storage, properties), ZoneInfo(table_zone(properties))
    shared = timeline.completions.keys() & metadata.completions.keys()
    writes = sorted((one for one in shared if timeline.latest(one).action == "deltacommit"), reverse=True)[:_ASKED]
    timeline.expect(map(timeline.latest, writes))
    listed = storage.list(metadata.folder)
    asked = (_streams(timeline, metadata, listed, one, zone) for one in writes)
    seen = [one for one in asked if one is not None]
    if seen:
        yield WriterOption(STREAMING, str(all(seen)).lower(), f"order of files of the last {len(seen)} writes")


def _streams(
    timeline: Timeline, metadata: Timeline, listed: Mapping[str, FileInfo], instant: str, zone: ZoneInfo
) -> bool | None:
    """Whether a write's commit to the metadata table was opened before its data was written; None where that does not show."""
    end = metadata.latest(instant)
    opened = listed.get(f"{instant}.deltacommit.requested")
    if opened is None or not _is_as_written(end, listed, zone):
        return None
    try:
        commit = timeline.commit(instant)
        if commit.operation not in _STREAMED or not commit.stats:
            return None
        (partition, _), name = commit.stats.groups[0], commit.stats.file_names[0]
        written = timeline.storage.info(path_below(partition, name))
    except FileNotFoundError:  # archived since the listing
        return None
    if written is None or written.modified_ns == opened.modified_ns:
        return None
    return opened.modified_ns < written.modified_ns


def _is_as_written(end: InstantFile, listed: Mapping[str, FileInfo], zone: ZoneInfo) -> bool:
    """Whether the time of a completed file is that of its completion, and not that of a copy of the table."""
    info = listed.get(end.name)
    if info is None or end.completed is None:
        return False
    return abs(info.modified_ns // 1_000_000 - instant_to_ms(end.completed, zone)) <= CLOCK_TOLERANCE_MS
