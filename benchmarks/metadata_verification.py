"""How long the proof from metadata takes on a table of many log files, beside the reading of the table that it needs.

    python -m benchmarks.metadata_verification
    python -m benchmarks.metadata_verification --commits 100 --file-groups 100

The table is a folder laid out as stock Hudi lays it out, its commits with every field that Hudi 1.2 writes; the log files
themselves are empty. Prints seconds and ratios of one run.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path

import fastavro

from etc_policy.adapters.hudi_table import FileTableReader
from etc_policy.compile.manifest import EventTime, Policy
from etc_policy.declare.suites import read_suite
from etc_policy.verify.metadata_checks import Claim, Evidence
from etc_policy.verify.ports import DataVerifier
from etc_policy.verify.prover import verify_table
from etc_policy.verify.suites import parse_suite

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
PARTITIONS = 10
PROPERTIES = {
    "hoodie.table.name": "t",
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.table.version": "9",
    "hoodie.timeline.layout.version": "2",
    "hoodie.table.timeline.timezone": "UTC",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.partition.fields": "p",
    "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
}
_TEXTS = ("fileId", "path", "prevCommit", "partitionPath", "baseFile", "prevBaseFile", "tempPath")
_LONGS = (
    *(
        "numWrites",
        "numDeletes",
        "numUpdateWrites",
        "totalWriteBytes",
        "totalWriteErrors",
        "totalLogRecords",
        "totalLogFiles",
    ),
    *("totalUpdatedRecordsCompacted", "numInserts", "totalLogBlocks", "totalCorruptLogBlock", "totalRollbackBlocks"),
    *("fileSizeInBytes", "logVersion", "logOffset", "minEventTime", "maxEventTime", "totalLogFilesCompacted"),
    *("totalLogReadTimeMs", "totalLogSizeCompacted", "numUpdates"),
)
_STAT = {
    "type": "record",
    "name": "HoodieWriteStat",
    "fields": [
        *({"name": name, "type": ["null", "string"]} for name in _TEXTS),
        *({"name": name, "type": ["null", "long"]} for name in _LONGS),
        {"name": "logFiles", "type": ["null", {"type": "array", "items": "string"}]},
    ],
}
_COMMIT = fastavro.parse_schema({
    "type": "record",
    "name": "HoodieCommitMetadata",
    "fields": [
        {"name": "partitionToWriteStats", "type": {"type": "map", "values": {"type": "array", "items": _STAT}}},
        {"name": "extraMetadata", "type": ["null", {"type": "map", "values": "string"}]},
        {"name": "operationType", "type": ["null", "string"]},
    ],
})  # fmt: skip
_COLUMNS = json.dumps({"type": "record", "name": "r", "fields": [{"name": n, "type": "long"} for n in ("id", "ts")]})


def instant(moment: datetime) -> str:
    return moment.strftime("%Y%m%d%H%M%S%f")[:17]


def write_table(base: Path, commits: int, file_groups: int) -> None:
    """A first commit of base files, then `commits` that write a log file to every file group, a minute apart."""
    timeline = base / ".hoodie" / "timeline"
    timeline.mkdir(parents=True)
    (base / ".hoodie" / "hoodie.properties").write_text("".join(f"{k}={v}\n" for k, v in PROPERTIES.items()))
    for number in range(PARTITIONS):
        (base / f"p{number}").mkdir()
        (base / f"p{number}" / ".hoodie_partition_metadata").touch()
    for number in range(commits + 1):
        write_commit(base, timeline, number, file_groups)


def write_commit(base: Path, timeline: Path, number: int, file_groups: int) -> None:
    begun = FIRST + timedelta(minutes=number)
    requested, completed = instant(begun), instant(begun + timedelta(seconds=5))
    stats: dict[str, list[dict[str, object]]] = {}
    for group in range(file_groups):
        file_id, partition = f"d8f18d50-ea72-4740-9c26-{group:012x}-0", f"p{group % PARTITIONS}"
        log = f".{file_id}_{requested}.log.1_{group}-{number}-{group}"
        name = log if number else f"{file_id}_0-1-0_{requested}.parquet"
        (base / partition / name).touch()
        stats.setdefault(partition, []).append({
            **dict.fromkeys(_LONGS, 1), "fileId": file_id, "path": f"{partition}/{name}", "partitionPath": partition,
            "numDeletes": 0, "fileSizeInBytes": 0, "minEventTime": int(begun.timestamp() * 1000) - 60_000,
            "logFiles": [name] if number else None,
        })  # fmt: skip
    record = {"partitionToWriteStats": stats, "extraMetadata": {"schema": _COLUMNS}, "operationType": "UPSERT"}
    content = BytesIO()
    fastavro.writer(content, _COMMIT, [record], codec="null")
    (timeline / f"{requested}_{completed}.deltacommit").write_bytes(content.getvalue())
    for state in ("requested", "inflight"):
        (timeline / f"{requested}.deltacommit.{state}").touch()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=1000)
    parser.add_argument("--file-groups", type=int, default=100)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "t"
        write_table(base, given.commits, given.file_groups)
        measure(base)


def no_rows() -> DataVerifier:
    """Level `metadata` reads none."""
    raise AssertionError("rows are not to be read")


def measure(base: Path) -> None:
    """The claim is the strongest that holds: every log file is looked at, and each holds later events only."""
    policy = Policy(name="t", table=str(base), event_time=EventTime(column="ts", unit="ms"), data_latency_ms=0)
    began = time.perf_counter()
    state, history = FileTableReader().read_with_history(str(base), policy.event_time)
    read = time.perf_counter() - began
    suite = parse_suite(*reversed(read_suite("ro_complete", base))).items
    claim = Claim(int(FIRST.timestamp() * 1000) - 1, state.last_completed or "")
    began = time.perf_counter()
    evidence = Evidence(policy, state, history, claim, claim.threshold_ms)
    found = verify_table(evidence, suite, "metadata", no_rows)
    proved = time.perf_counter() - began
    log_files = sum(1 for _ in state.log_files)
    print(
        f"{log_files:,} log files: read in {read:.2f} s, proved in {proved:.2f} s ({proved / read:.0%} of the reading)"
    )
    for result in found.expectations:
        print(f"  {result.status:<5} {result.expectation}")


if __name__ == "__main__":
    main()
