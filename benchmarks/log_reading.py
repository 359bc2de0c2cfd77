"""What level `logs` costs: event times read from log files once, and from the cache in every later run.

    python -m benchmarks.log_reading
    python -m benchmarks.log_reading --commits 100 --file-groups 10 --rows 1000

The table is that of `benchmarks.metadata_verification`; each log file has one Avro block of so many rows of some 200 bytes.
"""

from __future__ import annotations

import argparse
import io
import json
import struct
import tempfile
import time
from pathlib import Path

import fastavro

from benchmarks.metadata_verification import write_table
from etc_policy.hudi.log_times import read_all_logs
from etc_policy.hudi.table import FileTableReader
from etc_policy.policy.manifest import EventTime, Policy, Strategy
from etc_policy.storage.object_cache import ObjectCache

_FIELDS = [("id", "long"), ("ts", "long"), *((f"c{n}", "string") for n in range(8)), ("amount", "double")]
SCHEMA = {"type": "record", "name": "r", "fields": [{"name": n, "type": ["null", t]} for n, t in _FIELDS]}
_SCHEMA_HEADER, _AVRO, _CONTENT_VERSION = 2, 3, 3


def log_block(rows: int, first_ms: int) -> bytes:
    """An Avro data block as Hudi lays it out."""
    parsed, content = fastavro.parse_schema(SCHEMA), io.BytesIO()
    content.write(struct.pack(">ii", _CONTENT_VERSION, rows))
    for number in range(rows):
        row = {
            "id": number,
            "ts": first_ms + number,
            "amount": number / 7,
            **{f"c{n}": f"value {n:015d}" for n in range(8)},
        }
        record = io.BytesIO()
        fastavro.schemaless_writer(record, parsed, row)
        content.write(struct.pack(">i", record.tell()) + record.getvalue())
    header = json.dumps(SCHEMA).encode()
    body = struct.pack(">iiiii", 1, _AVRO, 1, _SCHEMA_HEADER, len(header)) + header
    body += struct.pack(">q", content.tell()) + content.getvalue() + struct.pack(">i", 0)
    return b"#HUDI#" + struct.pack(">q", len(body) + 8) + body + struct.pack(">q", len(body) + 14)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=100)
    parser.add_argument("--file-groups", type=int, default=10)
    parser.add_argument("--rows", type=int, default=1000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "t"
        write_table(base, given.commits, given.file_groups)
        content = log_block(given.rows, 1_767_225_600_000)
        for path in base.glob("p*/.*.log.*"):
            path.write_bytes(content)
        time.sleep(2.5)  # what was written a moment ago is not kept
        measure(base, ObjectCache(Path(folder) / "cache"), given.rows)


def measure(base: Path, cache: ObjectCache, rows: int) -> None:
    """Prints what the first run costs, and a second one."""
    policy = Policy(
        name="t",
        table=str(base),
        event_time=EventTime(column="ts", unit="ms"),
        data_latency_ms=0,
        strategy=Strategy(granularity="log_file"),
    )
    state = FileTableReader().read(str(base), policy.event_time)
    files = list(state.log_files)
    for run in ("read", "from the cache"):
        began = time.perf_counter()
        found = read_all_logs(state, policy, cache)
        seconds = time.perf_counter() - began
        assert found.witnesses is not None
        assert all(one.found_ms is not None for one in found.witnesses)
        mib = sum(f.size_bytes for _, f in files) / 2**20
        print(
            f"{run}: {len(files):,} log files, {mib:.0f} MiB, {len(files) * rows:,} rows in {seconds:.2f} s "
            f"({mib / seconds:.0f} MiB/s)"
        )


if __name__ == "__main__":
    main()
