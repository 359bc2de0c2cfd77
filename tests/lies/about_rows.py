"""Lies in the rows of a real table: base files of as many bytes as before, and promises that all metadata agrees on."""
# ruff: noqa: E501

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow  # noqa: TID253
import pyarrow.parquet  # noqa: TID253

from etc_policy.hudi.log_times import read_all_logs
from etc_policy.storage import local
from etc_policy.storage.object_cache import MemoryCache
from etc_policy.table.history import THRESHOLD
from tests.integration.history import EPOCH_MS
from tests.lies.lie import Lie, Told, rewrite_record
from tests.lies.real_table import RealTable

IN_BOTH = "both views read the file, and nothing says which values were written to it"
COUNT = "both views read the file, and its rows are not counted"


def write_in_as_many_bytes(path: Path, rows, kept: dict[str, str]) -> None:
    """The rows as a base file of the size that the file has now."""
    wanted, padding = path.stat().st_size, 0

    def write(size: int) -> int:
        bare = rows.replace_schema_metadata(None)
        with pyarrow.parquet.ParquetWriter(path, bare.schema, store_schema=False) as writer:
            writer.write_table(bare)
            writer.add_key_value_metadata({**kept, "padding": "x" * size})
        return path.stat().st_size

    for _ in range(5):  # a length is written in as few bytes as it needs
        padding += wanted - write(padding)
    assert write(padding) == wanted
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def read_rows(path: Path):
    """The rows of a base file, and what else its footer holds but for the bloom filter."""
    table = pyarrow.parquet.read_table(path, partitioning=None)
    kept = {key.decode(): value.decode() for key, value in table.schema.metadata.items() if b"bloom" not in key}
    return table, kept


def _changed(said: str, change: Callable):
    """A lie that changes the rows of one latest base file."""

    def tell(found: RealTable, random: Random) -> Told | None:
        path = random.choice(found.base_files())
        rows, kept = read_rows(path)
        if not rows.num_rows:
            return None
        changed = change(rows, random)
        write_in_as_many_bytes(path, changed, kept)
        return Told(f"{said}: {path.name}")

    return tell


def _with_value(column: str, value: Callable):
    """One row with another value in a column."""

    def change(rows, random: Random):
        place, values = random.randrange(rows.num_rows), rows.column(column).to_pylist()
        values[place] = value(values[place], random)
        field = rows.schema.get_field_index(column)
        return rows.set_column(field, rows.schema.field(column), pyarrow.array(values, rows.schema.field(column).type))

    return change


def _doubled(rows, random: Random):
    place = random.randrange(rows.num_rows)
    return pyarrow.concat_tables([rows, rows.slice(place, 1)])


def _dropped(rows, random: Random):
    place = random.randrange(rows.num_rows)
    return pyarrow.concat_tables([rows.slice(0, place), rows.slice(place + 1)])


def _put_in_place(choose: Callable):
    """The rows of another base file in a latest one, in as many bytes."""

    def tell(found: RealTable, random: Random) -> Told | None:
        pairs = choose(found)
        if not pairs:
            return None
        path, other = random.choice(pairs)
        rows, kept = read_rows(other)
        write_in_as_many_bytes(path, rows, kept)
        return Told(f"{path.name} has the rows of {other.name}")

    return tell


def _predecessors(found: RealTable):
    return [
        (path, other)
        for path in found.base_files()
        for other in path.parent.glob(f"{path.name.split('_')[0]}_*.parquet")
        if other != path
    ]


def _others(found: RealTable):
    return [(path, other) for path in found.base_files() for other in found.base_files() if other != path]


def _agreed(found: RealTable, random: Random) -> Told | None:
    """A threshold above what a log file holds, in commit and plan; the log's commit and the cache say that it holds later."""
    latest = max(found.commit_files())
    later = EPOCH_MS + random.randrange(700_000, 900_000)

    def change(record) -> None:
        for stats in record["partitionToWriteStats"].values():
            for stat in stats:
                stat["minEventTime"] = stat["minEventTime"] and later

    rewrite_record(latest, change)
    threshold = str(EPOCH_MS + random.randrange(503_000, 690_000))
    for path in found.promises():
        rewrite_record(path, lambda record: record["extraMetadata"].__setitem__(THRESHOLD, threshold))
    found.cache = MemoryCache()
    time.sleep(local._AT_REST_NS / 1e9 + 0.1)  # the copy is of a moment ago: what is kept of it would not be believed
    read_all_logs(found.bench.state(), found.bench.policy, found.cache)
    found.forge_cache(later)
    return Told(f"threshold {threshold}, and later event times in commits and cache")


LIES = (
    Lie("rows", "a base file with the rows of its predecessor", _put_in_place(_predecessors)),
    Lie("rows", "a base file with the rows of another", _put_in_place(_others)),
    Lie("rows", "a row twice", _changed("twice", _doubled)),
    Lie("rows", "a row that names another file", _changed("name", _with_value("_hoodie_file_name", lambda name, _: f"x{name}"))),
    Lie("rows", "a row without its key", _changed("key", _with_value("_hoodie_record_key", lambda *_: None))),
    Lie("rows", "a threshold that commits, plan and cache agree on", _agreed),
    Lie("rows", "a row that is gone", _changed("gone", _dropped), COUNT),
    Lie("rows", "another value in a row", _changed("value", _with_value("v", lambda value, _: f"{value}x")), IN_BOTH),
    Lie("rows", "a later event time in a row", _changed("time", _with_value("ts", lambda ts, r: ts + r.randrange(1, 10**6))), IN_BOTH),
    Lie("rows", "no event time in a row", _changed("null", _with_value("ts", lambda *_: None)), IN_BOTH),
    Lie("rows", "another key in a row", _changed("key", _with_value("_hoodie_record_key", lambda key, r: f"{key}{r.randrange(10, 99)}")), IN_BOTH),
)  # fmt: skip
