"""Writes the folder of a Hudi table the way stock Hudi lays it out: enough of it for every reader that needs no JVM."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro

from etc_policy.hudi.plan_file import encode_plan
from etc_policy.plan.model import Operation
from tests.unit.hudi import log_file

COLUMNS = ("id", "p", "ts")
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}

_STRING = {"type": "string", "avro.java.string": "String"}
_STAT = {
    "type": "record",
    "name": "HoodieWriteStat",
    "fields": [
        {"name": "fileId", "type": ["null", _STRING]},
        {"name": "path", "type": ["null", _STRING]},
        {"name": "numDeletes", "type": ["null", "long"]},
        {"name": "fileSizeInBytes", "type": ["null", "long"]},
        {"name": "minEventTime", "type": ["null", "long"]},
        {"name": "maxEventTime", "type": ["null", "long"], "default": None},
        {"name": "numWrites", "type": ["null", "long"], "default": None},
        {"name": "prevCommit", "type": ["null", _STRING], "default": None},
        {"name": "totalLogFilesCompacted", "type": ["null", "long"], "default": None},
        {"name": "totalLogSizeCompacted", "type": ["null", "long"], "default": None},
    ],
}
_STATS = {"name": "partitionToWriteStats", "type": {"type": "map", "values": {"type": "array", "items": _STAT}}}
_EXTRA = {"name": "extraMetadata", "type": ["null", {"type": "map", "values": _STRING}]}
_KIND = {"name": "operationType", "type": ["null", _STRING]}
_FILE_IDS = {"type": "map", "values": {"type": "array", "items": _STRING}}
COMMIT_SCHEMA = {"type": "record", "name": "HoodieCommitMetadata", "fields": [_STATS, _EXTRA, _KIND]}
REPLACE_SCHEMA = {
    "type": "record",
    "name": "HoodieReplaceCommitMetadata",
    "fields": [_STATS, {"name": "partitionToReplaceFileIds", "type": ["null", _FILE_IDS]}, _EXTRA, _KIND],
}
ROLLBACK_SCHEMA = {
    "type": "record",
    "name": "HoodieRollbackMetadata",
    "fields": [{"name": "successDeleteFiles", "type": _FILE_IDS}],
}
ROLLBACK_PLAN = {
    "type": "record",
    "name": "HoodieRollbackPlan",
    "fields": [
        {"name": "instantToRollback", "type": {"type": "map", "values": "string"}},
        {
            "name": "RollbackRequests",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "HoodieRollbackRequest",
                    "fields": [
                        {"name": "partitionPath", "type": "string", "default": ""},
                        {"name": "fileId", "type": ["null", "string"], "default": None},
                        {"name": "latestBaseInstant", "type": ["null", "string"], "default": None},
                        {"name": "filesToBeDeleted", "type": {"type": "array", "items": "string"}},
                        {
                            "name": "logBlocksToBeDeleted",
                            "type": ["null", {"type": "map", "values": "long"}],
                            "default": None,
                        },
                    ],
                },
            },
        },
    ],
}
CLEAN_PLAN = {
    "type": "record",
    "name": "HoodieCleanerPlan",
    "fields": [
        {"name": "policy", "type": "string"},
        {
            "name": "filePathsToBeDeletedPerPartition",
            "type": {
                "type": "map",
                "values": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "HoodieCleanFileInfo",
                        "fields": [{"name": "filePath", "type": ["null", "string", "bytes"]}],
                    },
                },
            },
        },
        {"name": "partitionsToBeDeleted", "type": {"type": "array", "items": "string"}},
    ],
}
CLEAN_SCHEMA = {
    "type": "record",
    "name": "HoodieCleanMetadata",
    "fields": [{"name": "earliestCommitToRetain", "type": _STRING}],
}


#: What the properties of a table of Hudi 0.x say of merging.
OF_HUDI_0: Mapping[str, str | None] = {
    "hoodie.record.merge.mode": None,
    "hoodie.compaction.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
}


def at(clock: str) -> str:
    """The instant of `hh:mm:ss[.mmm]` on 2026-01-01."""
    whole, _, fraction = clock.partition(".")
    return f"20260101{whole.replace(':', '')}{fraction or '000'}"


def avro(schema: Mapping[str, Any], record: Mapping[str, Any]) -> bytes:
    """An Avro file with one record, as Hudi writes metadata from timeline layout 2 on."""
    buffer = BytesIO()
    fastavro.writer(buffer, fastavro.parse_schema(dict(schema)), [dict(record)])
    return buffer.getvalue()


@dataclass(frozen=True)
class Written:
    """A data file of a commit and what its write stats say; `base_instant` names a log file before version 8.

    `merged` counts the log files that a compaction read, of ten bytes each without `merged_bytes`.
    `previous` is the instant of the slice before. A log file with `columns` is a block of such rows, of `values` in
    milliseconds, of numbers where there are `kinds`, others are no blocks. A base
    file with `left` is Parquet of the rows of commits, by their instants, of `kinds`.
    """

    file_id: str
    log: bool = True
    partition: str = "p"
    min_event: int | None = None
    deletes: int = 0
    size: int = 10
    version: int = 1
    base_instant: str | None = None
    on_disk: bool = True
    merged: int = 0
    merged_bytes: int | None = None
    previous: str | None = None
    rows: int | None = None
    token: str = "0-1-0"
    max_event: int | None = None
    columns: tuple[str, ...] | None = None
    values: tuple[tuple[int, ...], ...] = ()
    left: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    kinds: Mapping[str, str] | None = None

    @property
    def content(self) -> bytes:
        if self.left:
            return base_rows(self.left, self.kinds)
        if self.columns is None:
            return b"x" * self.size
        kind = MILLIS if self.values and not self.kinds else "long"
        schema = {"type": "record", "name": "r", "fields": [{"name": name, "type": kind} for name in self.columns]}
        rows = (b"".join(map(log_file.zigzag, row)) for row in self.values)
        content = struct.pack(">ii", 3, len(self.values)) + b"".join(struct.pack(">i", len(row)) + row for row in rows)
        return log_file.block(log_file.AVRO, content, {log_file.SCHEMA: json.dumps(schema)})

    def name(self, instant: str) -> str:
        if self.log:
            return f".{self.file_id}_{self.base_instant or instant}.log.{self.version}_{self.token}"
        return f"{self.file_id}_0-1-0_{instant}.parquet"

    def stat(self, instant: str) -> dict[str, Any]:
        return {
            "fileId": self.file_id,
            "prevCommit": self.base_instant or self.previous,
            "totalLogFilesCompacted": self.merged,
            "numWrites": self.rows,
            "totalLogSizeCompacted": self.merged * 10 if self.merged_bytes is None else self.merged_bytes,
            "path": f"{self.partition}/{self.name(instant)}".lstrip("/"),
            "numDeletes": self.deletes,
            "fileSizeInBytes": len(self.content),
            "minEventTime": self.min_event,
            "maxEventTime": self.max_event,
        }


def base_rows(
    left: Sequence[tuple[str, Mapping[str, Any]]], kinds: Mapping[str, str] | None = None, **options: Any
) -> bytes:
    """A base file with a row of each instant; what is of no other kind are timestamps as integers of milliseconds."""
    import pyarrow
    from pyarrow import parquet

    columns: dict[str, Any] = {"_hoodie_commit_time": [instant for instant, _ in left]}
    for name in left[0][1]:
        kind = pyarrow.type_for_alias(kinds[name]) if kinds and name in kinds else pyarrow.timestamp("ms", "UTC")
        columns[name] = pyarrow.array([row[name] for _, row in left], kind)
    written = BytesIO()
    parquet.write_table(pyarrow.table(columns), written, **options)
    return written.getvalue()


def log(file_id: str, min_event: int | None = None, **rest: Any) -> Written:
    return Written(file_id, log=True, min_event=min_event, **rest)


def base(file_id: str, **rest: Any) -> Written:
    return Written(file_id, log=False, size=100, **rest)


def operation(file_id: str, base_file: str | None, *log_files: str, partition: str = "p") -> Operation:
    return Operation(
        partition=partition,
        file_id=file_id,
        base_instant=at("00:00:00"),
        base_file=base_file,
        log_files_compacted=log_files,
        log_files_remaining=(),
        bytes_read=0,
        bytes_written_estimate=0,
        log_bytes_compacted=7,
    )


def commit_metadata(
    instant: str, written: tuple[Written, ...], extra: Mapping[str, str] | None = None, kind: str | None = "UPSERT"
) -> dict[str, Any]:
    """A commit's metadata; its schema has the columns of COLUMNS."""
    schema = {"type": "record", "name": "r", "fields": [{"name": name, "type": ["null", "long"]} for name in COLUMNS]}
    stats: dict[str, list[dict[str, Any]]] = {}
    for file in written:
        stats.setdefault(file.partition, []).append(file.stat(instant))
    pairs = {"schema": json.dumps(schema), **(extra or {})}
    return {"partitionToWriteStats": stats, "extraMetadata": pairs, "operationType": kind}


class TableFolder:
    """A table on disk; `properties` are added to those of a stock merge-on-read table, None takes one away."""

    def __init__(self, folder: Path, *, version: int = 9, properties: Mapping[str, str | None] | None = None) -> None:
        self.base, self.layout = folder, 2 if version >= 8 else 1
        self.meta = folder / ".hoodie"
        self.timeline = self.meta / "timeline" if self.layout == 2 else self.meta
        self.timeline.mkdir(parents=True)
        self.archived: list[dict[str, Any]] = []
        pairs: dict[str, str | None] = {
            "hoodie.table.name": "orders",
            "hoodie.table.type": "MERGE_ON_READ",
            "hoodie.table.version": str(version),
            "hoodie.timeline.layout.version": str(self.layout),
            "hoodie.table.timeline.timezone": "UTC",
            "hoodie.table.recordkey.fields": "id",
            "hoodie.table.partition.fields": "p",
            "hoodie.table.ordering.fields": "ts",
            "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
            **(properties or {}),
        }
        text = "".join(f"{key}={value}\n" for key, value in pairs.items() if value is not None)
        (self.meta / "hoodie.properties").write_text(f"#Updated\n{text}")

    def file(self, instant: str, suffix: str, content: bytes = b"") -> Path:
        """A file on the timeline, named `<instant><suffix>`."""
        path = self.timeline / f"{instant}{suffix}"
        path.write_bytes(content)
        return path

    def data(self, instant: str, *written: Written) -> None:
        """Data files in their partitions."""
        for file in written:
            folder = self.base / file.partition
            folder.mkdir(parents=True, exist_ok=True)
            (folder / ".hoodie_partition_metadata").write_text("partitionDepth=1\n")
            if file.on_disk:
                (folder / file.name(instant)).write_bytes(file.content)

    def start(self, instant: str, *written: Written, action: str = "deltacommit") -> None:
        """A commit that is under way; its files are there already."""
        self.file(instant, f".{action}.requested")
        bare = self.layout == 1 and action == "commit"
        self.file(instant, ".inflight" if bare else f".{action}.inflight")
        self.data(instant, *written)

    def complete(self, instant: str, completed: str, action: str, schema: Mapping[str, Any], record: Any) -> Path:
        """The completed file of an instant: Avro, or JSON on layout 1."""
        if self.layout == 1:
            return self.file(instant, f".{action}", json.dumps(record).encode())
        return self.file(instant, f"_{completed}.{action}", avro(schema, record))

    def commit(
        self,
        instant: str,
        completed: str,
        *written: Written,
        action: str = "deltacommit",
        extra: Mapping[str, str] | None = None,
        kind: str | None = "UPSERT",
    ) -> Path:
        """A completed commit with its data files."""
        self.start(instant, *written, action=action)
        return self.complete(instant, completed, action, COMMIT_SCHEMA, commit_metadata(instant, written, extra, kind))

    def compaction(
        self,
        instant: str,
        completed: str,
        *written: Written,
        extra: Mapping[str, str] | None = None,
        plan_extra: Mapping[str, str] | None = None,
    ) -> Path:
        """A completed compaction: its plan, an empty one unless there is one, and the commit that it became."""
        if not (self.timeline / f"{instant}.compaction.requested").exists():
            self.plan(instant, plan_extra or {})
        self.file(instant, ".compaction.inflight")
        self.data(instant, *written)
        record = commit_metadata(instant, written, extra, "COMPACT")
        return self.complete(instant, completed, "commit", COMMIT_SCHEMA, record)

    def log_compaction(self, instant: str, completed: str | None, *written: Written) -> None:
        """A log compaction, pending where it has no completion time: it ends as a delta commit."""
        self.file(instant, ".logcompaction.requested")
        self.file(instant, ".logcompaction.inflight")
        if completed is not None:
            self.data(instant, *written)
            record = commit_metadata(instant, written, kind="LOG_COMPACT")
            self.complete(instant, completed, "deltacommit", COMMIT_SCHEMA, record)

    def plan(self, instant: str, extra: Mapping[str, str], *operations: Operation) -> Path:
        """A requested compaction."""
        return self.file(instant, ".compaction.requested", encode_plan(operations, extra))

    def replace(
        self, instant: str, completed: str, *written: Written, replaced: Mapping[str, list[str]], kind: str = "CLUSTER"
    ) -> Path:
        """A completed clustering, or a write that replaces file groups."""
        self.file(instant, ".clustering.requested" if kind == "CLUSTER" else ".replacecommit.requested")
        self.data(instant, *written)
        record = {**commit_metadata(instant, written, kind=kind), "partitionToReplaceFileIds": dict(replaced)}
        return self.complete(instant, completed, "replacecommit", REPLACE_SCHEMA, record)

    def rollback(self, instant: str, completed: str, *deleted: str) -> Path:
        """A completed rollback that deleted these files of partition `p`."""
        record = {"successDeleteFiles": {"p": [f"{self.base}/p/{name}" for name in deleted]}}
        return self.complete(instant, completed, "rollback", ROLLBACK_SCHEMA, record)

    def savepoint(self, instant: str, completed: str) -> None:
        """A savepoint, which bears the time of its commit."""
        self.file(instant, ".savepoint.inflight")
        self.file(instant, f"_{completed}.savepoint" if self.layout == 2 else ".savepoint")

    def clean(self, instant: str, completed: str, retained: str) -> Path:
        """A completed clean."""
        return self.complete(instant, completed, "clean", CLEAN_SCHEMA, {"earliestCommitToRetain": retained})

    def archive(self, *rows: Mapping[str, Any], manifest: int = 1) -> Path:
        """The archived timeline: each row has instantTime, completionTime, action, and metadata or plan as bytes."""
        import pyarrow
        import pyarrow.parquet

        history = self.timeline / "history"
        history.mkdir(exist_ok=True)
        kinds = {"instantTime": "string", "completionTime": "string", "action": "string"}
        kinds |= {"metadata": "binary", "plan": "binary"}
        schema = pyarrow.schema([(name, pyarrow.type_for_alias(kind)) for name, kind in kinds.items()])
        whole = [{**dict.fromkeys(kinds), **row} for row in rows]
        path = history / f"{rows[0]['instantTime']}_{rows[-1]['instantTime']}_0.parquet"
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(whole, schema=schema), path)
        (history / f"manifest_{manifest}").write_text(json.dumps({"files": [{"fileName": path.name, "fileLen": 1}]}))
        (history / "_version_").write_text(str(manifest))
        return path

    def archive_to_log(self, number: int, *instants: str) -> Path:
        """A file of the archive before table version 8: log blocks whose records say of what instant they are."""
        instant = {"name": "commitTime", "type": ["null", _STRING], "default": None}
        other = {"name": "hoodieCommitMetadata", "type": ["null", COMMIT_SCHEMA], "default": None}
        schema = {"type": "record", "name": "HoodieArchivedMetaEntry", "fields": [other, instant]}
        content = struct.pack(">ii", 3, len(instants))
        for one in instants:
            buffer = BytesIO()
            entry = {"commitTime": one, "hoodieCommitMetadata": commit_metadata(one, (log("f9", 5),))}
            fastavro.schemaless_writer(buffer, fastavro.parse_schema(schema), entry)
            content += struct.pack(">i", buffer.tell()) + buffer.getvalue()
        path = self.meta / "archived" / f".commits_.archive.{number}_1-0-1"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(log_file.block(log_file.AVRO, content, {log_file.SCHEMA: json.dumps(schema)}))
        return path

    def archive_first(self, count: int) -> None:
        """Moves so many completed instants, the first of the timeline, to the archive, as Hudi does (facts: restores-stay)."""
        done = (path for path in self.timeline.glob("*_*.*") if path.is_file() and path.suffix != ".restore")
        ends = sorted((path.name.split("_")[0], path) for path in done)
        rows = []
        for instant, path in ends[:count]:
            completed, action = path.name.split("_")[1].split(".")
            plan = self.timeline / f"{instant}.compaction.requested"
            row = {"instantTime": instant, "completionTime": completed, "action": action, "metadata": path.read_bytes()}
            rows.append(row | ({"plan": plan.read_bytes()} if plan.exists() else {}))
            for left in self.timeline.glob(f"{instant}*"):
                left.unlink()
        if rows:
            self.archived = [*self.archived, *rows]
            self.archive(*self.archived)

    def metadata_table(self, *instants: tuple[str, str]) -> None:
        """A metadata table whose timeline has these (requested, completed) delta commits."""
        table = TableFolder(self.meta / "metadata")
        for requested, completed in instants:
            table.file(requested, ".deltacommit.requested")
            table.file(requested, f"_{completed}.deltacommit")


def archived(instant: str, completed: str | None, *written: Written, **rest: Any) -> dict[str, Any]:
    """The archived row of a delta commit."""
    metadata = avro(COMMIT_SCHEMA, commit_metadata(instant, written, rest.pop("extra", None)))
    return {"instantTime": instant, "completionTime": completed, "action": "deltacommit", "metadata": metadata, **rest}
