"""How long the proof from metadata takes on a table of many log files, beside the reading of the table that it needs.

    python -m benchmarks.metadata_verification
    python -m benchmarks.metadata_verification --commits 100 --file-groups 100 --runs 9

The table is a folder laid out as stock Hudi lays it out, its commits with every field that Hudi 1.2 writes; the log files
have their sizes and no content. Prints the medians of some runs, each in a process of its own, in seconds; beside them
what it takes to decode the commits' Avro and nothing else.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import fastavro

from benchmarks.figures import add_json, write_figures
from etc_policy.hudi.table import FileTableReader
from etc_policy.policy.files import read_suite
from etc_policy.policy.manifest import EventTime, Policy, Strategy
from etc_policy.verify.evidence import Claim, Evidence
from etc_policy.verify.ports import DataVerifier
from etc_policy.verify.prover import verify_table
from etc_policy.verify.suites import parse_suite

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
PARTITIONS = 10
PROPERTIES = {
    "hoodie.table.name": "t",
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.table.version": "9",
    "hoodie.table.initial.version": "9",
    "hoodie.timeline.layout.version": "2",
    "hoodie.table.timeline.timezone": "UTC",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.partition.fields": "p",
    "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
}
_PAYLOAD = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
_TEXTS = ("fileId", "path", "prevCommit", "partitionPath", "baseFile", "prevBaseFile", "tempPath")
_LONGS = (
    *("numWrites", "numDeletes", "numUpdateWrites", "totalWriteBytes", "totalWriteErrors", "totalLogRecords"),
    *("totalUpdatedRecordsCompacted", "numInserts", "totalLogBlocks", "totalCorruptLogBlock", "totalRollbackBlocks"),
    *("fileSizeInBytes", "logOffset", "minEventTime", "maxEventTime", "totalLogFilesCompacted"),
    *("totalLogReadTimeMs", "totalLogSizeCompacted", "numUpdates", "totalLogFiles"),
)
_TIMES = [{"name": name, "type": ["null", "long"]} for name in ("totalScanTime", "totalCreateTime", "totalUpsertTime")]
_STAT = {
    "type": "record",
    "name": "HoodieWriteStat",
    "fields": [
        *({"name": name, "type": ["null", "string"]} for name in _TEXTS),
        *({"name": name, "type": ["null", "long"]} for name in _LONGS),
        {"name": "logVersion", "type": ["null", "int"]},
        {"name": "logFiles", "type": ["null", {"type": "array", "items": "string"}]},
        {"name": "cdcStats", "type": ["null", {"type": "map", "values": "long"}]},
        {"name": "runtimeStats", "type": ["null", {"type": "record", "name": "HoodieRuntimeStats", "fields": _TIMES}]},
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


class Layout(NamedTuple):
    """A table's version, and what its log files hold, by the number of their commit.

    Without contents log files have their sizes alone, and commits record their event times.
    """

    version: int = 9
    content: Callable[[int], bytes] | None = None

    def properties(self) -> dict[str, str]:
        """Those of the table."""
        found = {**PROPERTIES, "hoodie.timeline.layout.version": "1" if self.version < 8 else "2"}
        found |= dict.fromkeys(("hoodie.table.version", "hoodie.table.initial.version"), str(self.version))
        if self.version < 9:
            found |= {"hoodie.table.precombine.field": "ts", "hoodie.compaction.payload.class": _PAYLOAD}
        if self.version < 8:
            del found["hoodie.record.merge.mode"]
        return found


#: Commits record their event times.
RECORDED = Layout()


def write_table(
    base: Path, commits: int, file_groups: int, partitions: int = PARTITIONS, layout: Layout = RECORDED
) -> None:
    """A first commit of base files, then `commits` that write a log file to every file group, a minute apart."""
    (base / ".hoodie" / "timeline").mkdir(parents=True)
    (base / ".hoodie" / "hoodie.properties").write_text("".join(f"{k}={v}\n" for k, v in layout.properties().items()))
    for number in range(partitions):
        (base / f"p{number}").mkdir()
        (base / f"p{number}" / ".hoodie_partition_metadata").touch()
    for number in range(commits + 1):
        write_commit(base, number, file_groups, partitions, layout)


def write_commit(base: Path, number: int, file_groups: int, partitions: int, layout: Layout) -> None:
    """One commit of `write_table`."""
    begun = FIRST + timedelta(minutes=number)
    requested = instant(begun)
    of_slice = requested if layout.version >= 8 else instant(FIRST)
    content = layout.content(number) if number and layout.content else b""
    stats: dict[str, list[dict[str, object]]] = {}
    for group in range(file_groups):
        file_id, partition = f"d8f18d50-ea72-4740-9c26-{group:012x}-0", f"p{group % partitions}"
        log = f".{file_id}_{of_slice}.log.{1 if layout.version >= 8 else number}_{group}-{number}-{group}"
        name = log if number else f"{file_id}_0-1-0_{requested}.parquet"
        size = len(content) or 9_000 + 37 * group + number
        with (base / partition / name).open("wb") as file:
            file.write(content)
            file.truncate(size)
        time_ms = int(begun.timestamp() * 1000) - 60_000 + 7 * group
        times = {} if layout.content else {"minEventTime": time_ms, "maxEventTime": time_ms + 30_000}
        stats.setdefault(partition, []).append({
            **dict.fromkeys(_LONGS, 0), "fileId": file_id, "path": f"{partition}/{name}", "partitionPath": partition,
            "prevCommit": of_slice, "numWrites": 40 + group, "totalWriteBytes": size, "fileSizeInBytes": size,
            "minEventTime": None, "maxEventTime": None, **times, "logFiles": [name] if number else None,
            "logVersion": 1, "runtimeStats": {time["name"]: group for time in _TIMES},
        })  # fmt: skip
    record = {"partitionToWriteStats": stats, "extraMetadata": {"schema": _COLUMNS}, "operationType": "UPSERT"}
    _write_instant(base / ".hoodie", begun, record, layout)


def _write_instant(meta: Path, begun: datetime, record: dict[str, object], layout: Layout) -> None:
    """The files of a delta commit: Avro, before table version 8 JSON."""
    requested, completed = instant(begun), instant(begun + timedelta(seconds=5))
    timeline = meta / "timeline" if layout.version >= 8 else meta
    for state in ("requested", "inflight"):
        (timeline / f"{requested}.deltacommit.{state}").touch()
    if layout.version < 8:
        (timeline / f"{requested}.deltacommit").write_text(json.dumps(record))
        return
    content = BytesIO()
    fastavro.writer(content, _COMMIT, [record], codec="null")
    (timeline / f"{requested}_{completed}.deltacommit").write_bytes(content.getvalue())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=1000)
    parser.add_argument("--file-groups", type=int, default=100)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    add_json(parser)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure)))
        return
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "t"
        write_table(base, given.commits, given.file_groups)
        runs = [measure_apart(base) for _ in range(given.runs)]
        report(runs)
        write_figures(given.json, runs)


def measure_apart(base: Path) -> dict[str, Any]:
    """One measurement in a new process, where nothing is warm but the disk."""
    command = [sys.executable, "-m", "benchmarks.metadata_verification", "--measure", str(base)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def report(runs: list[dict[str, Any]]) -> None:
    """The medians, and the verdicts."""
    read, proved, whole, decoded = (
        median(run[name] for run in runs) for name in ("read", "proved", "whole", "decoded")
    )
    print(f"{runs[0]['log_files']:,} log files, medians of {len(runs)} runs: verified in {whole:.2f} s")
    print(
        f"  the table read in {read:.2f} s, the proof in {proved:.2f} s; best run {min(r['whole'] for r in runs):.2f} s"
    )
    print(
        f"  fastavro decodes the commits alone in {decoded:.2f} s: verifying takes {whole / decoded:.2f} times as long"
    )
    for name, status in runs[0]["verdicts"]:
        print(f"  {status:<5} {name}")


def no_rows() -> DataVerifier:
    """Level `metadata` reads none."""
    raise AssertionError("rows are not to be read")


def measure(base: Path) -> dict[str, Any]:
    """Seconds of one run. The claim is the strongest that holds: every log file holds later events only."""
    policy = Policy(
        name="t",
        table=str(base),
        event_time=EventTime(column="ts", unit="ms"),
        data_latency_ms=0,
        strategy=Strategy(granularity="log_file"),
    )
    suite = parse_suite(*reversed(read_suite("ro_complete", base)))
    began = time.perf_counter()
    state, history = FileTableReader().read_with_history(str(base), policy.event_time)[:2]
    read = time.perf_counter()
    claim = Claim(int(FIRST.timestamp() * 1000) - 60_001, state.last_completed or "")
    found = verify_table(Evidence(policy, state, history, claim, claim.threshold_ms), suite, "metadata", no_rows)
    proved = time.perf_counter()
    return {
        "log_files": sum(1 for _ in state.log_files),
        "read": read - began,
        "proved": proved - read,
        "whole": proved - began,
        "decoded": decode_alone(base),
        "verdicts": [(result.expectation, result.status) for result in found.expectations],
    }


def decode_alone(base: Path) -> float:
    """Seconds that fastavro takes for the commits' content."""
    contents = [path.read_bytes() for path in (base / ".hoodie" / "timeline").glob("*.deltacommit")]
    began = time.perf_counter()
    for content in contents:
        next(iter(fastavro.reader(BytesIO(content))))
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
