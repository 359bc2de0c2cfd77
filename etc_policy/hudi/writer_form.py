"""How a table's writers write it, as far as the table shows it, in options of Hudi: a compaction writes in the same way.

What decides which rows a reader finds (the columns of statistics, the kind of a record index) is in the index definitions. What
decides sizes alone (codec, bloom filter) is in the footers of base files. Neither is a property of the table, and a client that
is not given them takes Hudi's defaults (facts: writers-options-elsewhere).
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from etc_policy.errors import TableError
from etc_policy.errors.codes import Code
from etc_policy.hudi.footers import read_footer
from etc_policy.hudi.values import UNKNOWN_FORM, list_of, load_json, mapping_of, text_of
from etc_policy.storage.port import TableReader
from etc_policy.table.state import WriterOption

#: Which columns have statistics; `column_stats` and `partition_stats` go by it.
COLUMN_LIST = "hoodie.metadata.index.column.stats.column.list"
#: The partitions of the metadata table that hold statistics of columns.
COLUMN_STATISTICS = ("column_stats", "partition_stats")
RECORD_INDEX = "record_index"

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


def options_of_base_file(storage: TableReader, path: str | None) -> Iterator[WriterOption]:
    """What the footer of a base file says of the writers' options; nothing without pyarrow, or where it cannot be read.

    They decide sizes alone, so that a compaction without them is right too.
    """
    footer = read_footer(storage, path) if path is not None and path.endswith(".parquet") else None
    if footer is None:
        return
    codec = footer.row_group(0).column(0).compression if footer.num_row_groups else None
    kept = footer.metadata or {}
    source = f"footer of {path}"
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
