"""What reading log files for their event times costs: row by row, by columns, by all cores, and from the cache of a later run.

    python -m benchmarks.log_reading
    python -m benchmarks.log_reading --commits 100 --file-groups 10 --rows 1000 10000
    python -m benchmarks.log_reading --commits 8 --file-groups 8 --rows 250000    (4 GiB)

The table is that of `benchmarks.metadata_verification`; each log file has one Avro block of so many rows of some 270 bytes and 21
columns, the event time the fifteenth. Row by row only a part of the files is read. Prints each figure as it comes, and ratios.
Then one such file is split at the time of half of its rows, which are in no order.
"""

from __future__ import annotations

import argparse
import io
import json
import struct
import tempfile
import time
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from random import Random
from statistics import median
from unittest.mock import patch

import fastavro

from benchmarks.figures import add_json, write_figures
from benchmarks.metadata_verification import write_table
from etc_policy.hudi import avro_rows
from etc_policy.hudi.block_times import TimesWanted
from etc_policy.hudi.log_split import Part, split_log_file
from etc_policy.hudi.log_times import read_all_logs
from etc_policy.hudi.table import FileTableReader
from etc_policy.policy.manifest import EventTime, Policy, Strategy
from etc_policy.storage import by_cores
from etc_policy.storage.object_cache import ObjectCache
from etc_policy.table.state import TableState

_TEXTS = [f"c{n}" for n in range(18)]
_FIELDS = [
    ("id", "long"),
    *((name, "string") for name in _TEXTS[:13]),
    ("ts", "long"),
    *((name, "string") for name in _TEXTS[13:]),
    ("amount", "double"),
]
SCHEMA = {"type": "record", "name": "r", "fields": [{"name": n, "type": ["null", t]} for n, t in _FIELDS]}
ROW_BY_ROW, BY_COLUMNS, BY_CORES = "row by row, one core", "by columns, one core", "by columns, all cores"
_INSTANT_HEADER, _SCHEMA_HEADER, _AVRO, _CONTENT_VERSION = 0, 2, 3, 3
FIRST_MS = 1_767_225_600_000


def log_block(rows: int, first_ms: int, random: Random | None = None) -> bytes:
    """An Avro data block as Hudi lays it out, with its rows in the order of their times, or in any."""
    parsed, content = fastavro.parse_schema(SCHEMA), io.BytesIO()
    content.write(struct.pack(">ii", _CONTENT_VERSION, rows))
    for number in range(rows):
        row = {
            "id": number,
            "ts": first_ms + (random.randrange(rows) if random else number),
            "amount": number / 7,
            **{name: f"{name} {number:09d}" for name in _TEXTS},
        }
        record = io.BytesIO()
        fastavro.schemaless_writer(record, parsed, row)
        content.write(struct.pack(">i", record.tell()) + record.getvalue())
    headers = {_INSTANT_HEADER: b"20260101000000000", _SCHEMA_HEADER: json.dumps(SCHEMA).encode()}
    pairs = (struct.pack(">ii", key, len(value)) + value for key, value in headers.items())
    body = struct.pack(">iii", 1, _AVRO, len(headers)) + b"".join(pairs)
    body += struct.pack(">q", content.tell()) + content.getvalue() + struct.pack(">i", 0)
    return b"#HUDI#" + struct.pack(">q", len(body) + 8) + body + struct.pack(">q", len(body) + 14)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=100)
    parser.add_argument("--file-groups", type=int, default=10)
    parser.add_argument("--rows", type=int, nargs="+", default=[100, 10_000], help="of a block, one table for each")
    parser.add_argument("--row-by-row", type=int, default=64, help="so many MiB at most are read row by row")
    parser.add_argument("--runs", type=int, default=3, help="how often each is done, in turn")
    add_json(parser)
    given = parser.parse_args()
    found = {}
    for rows in given.rows:
        with tempfile.TemporaryDirectory() as folder:
            base = Path(folder) / "t"
            write_table(base, given.commits, given.file_groups)
            content = log_block(rows, FIRST_MS)
            for path in base.glob("p*/.*.log.*"):
                path.write_bytes(content)
            time.sleep(2.5)  # what was written a moment ago is not kept
            print(f"blocks of {rows:,} rows of {len(content) / rows:.0f} bytes")
            cache = ObjectCache(Path(folder) / "cache")
            found[f"{rows} rows"] = measure(base, cache, given.row_by_row * 2**20, given.runs)
        found[f"{rows} rows"]["split"] = measure_split(rows, given.runs)
    write_figures(given.json, found)


def measure(base: Path, cache: ObjectCache, row_by_row_bytes: int, runs: int) -> dict[str, float]:
    """Prints the medians in MiB/s, and those of the ratios within each turn, which it returns."""
    policy = Policy(
        name="t",
        table=str(base),
        event_time=EventTime(column="ts", unit="ms"),
        data_latency_ms=0,
        strategy=Strategy(granularity="log_file"),
    )
    state = FileTableReader().read(str(base), policy.event_time)
    sizes = accumulate(sum(f.size_bytes for f in one.log_files) for one in state.slices)
    part = replace(state, slices=state.slices[: max(1, sum(size <= row_by_row_bytes for size in sizes))])
    one_core, no_numpy = patch.object(by_cores, "SHARED_BYTES", 2**62), patch.object(avro_rows, "_numpy", lambda: None)
    speeds: dict[str, list[float]] = {name: [] for name in (ROW_BY_ROW, BY_COLUMNS, BY_CORES)}
    for _ in range(runs):
        with one_core, no_numpy:
            speeds[ROW_BY_ROW].append(speed_of(part, policy, None))
        with one_core:
            speeds[BY_COLUMNS].append(speed_of(state, policy, None))
        speeds[BY_CORES].append(speed_of(state, policy, None))
    mib = sum(f.size_bytes for _, f in state.log_files) / 2**20
    print(f"  {len(list(state.log_files)):,} log files, {mib:,.0f} MiB")
    ratios = {
        name: median(one / slow for one, slow in zip(found, speeds[ROW_BY_ROW], strict=True))
        for name, found in speeds.items()
    }
    for name, found in speeds.items():
        print(f"  {name:<24}  {median(found):6.0f} MiB/s  {ratios[name]:5.1f} times row by row", flush=True)
    speed_of(state, policy, cache)
    print(f"  {'from the cache':<24}  {mib / speed_of(state, policy, cache):6.2f} s")
    return ratios


def measure_split(rows: int, runs: int) -> float:
    """Prints how fast a log file of ten blocks or more is split, and how many times that is row by row, which it returns."""
    content = log_block(rows, FIRST_MS, Random(1)) * (10 + 100_000 // rows)
    wanted = TimesWanted(EventTime(column="ts", unit="ms"), "long")

    def seconds() -> float:
        began, parts = time.perf_counter(), (Part(io.BytesIO()), Part(io.BytesIO()))
        split_log_file(io.BytesIO(content), len(content), wanted, FIRST_MS + rows // 2, *parts)
        assert all(part.rows for part in parts)
        return time.perf_counter() - began

    ratios, mib = [], len(content) / 2**20
    for _ in range(runs):
        fast = seconds()
        with patch.object(avro_rows, "_numpy", lambda: None):
            ratios.append(seconds() / fast)
    print(f"  {'split, one core':<24}  {mib / fast:6.0f} MiB/s  {median(ratios):5.1f} times row by row", flush=True)
    return median(ratios)


def speed_of(state: TableState, policy: Policy, cache: ObjectCache | None) -> float:
    """MiB/s of reading all log files of the state."""
    began = time.perf_counter()
    found = read_all_logs(state, policy, cache)
    seconds = time.perf_counter() - began
    assert found.witnesses is not None
    assert all(one.found_ms is not None for one in found.witnesses)
    return sum(f.size_bytes for _, f in state.log_files) / 2**20 / seconds


if __name__ == "__main__":
    main()
