"""The compaction plan as Hudi stores it: one Avro record of `HoodieCompactionPlan`, version 2."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from io import BytesIO
from math import isfinite
from typing import Any

from etc_policy.errors import TableError
from etc_policy.errors.codes import Code
from etc_policy.hudi.avro import is_readable
from etc_policy.hudi.layout import is_change_log
from etc_policy.hudi.metadata_values import (
    list_of,
    mapping_of,
    name_of,
    pairs_of,
    partition_of,
    size_of,
    text_of,
    unknown_form,
)
from etc_policy.plan.carry import carried_in
from etc_policy.plan.model import CarriedFile, Operation
from etc_policy.plan.split import merged_paths, with_split
from etc_policy.table.formats import count_of, format_bytes

_PLAN_VERSION = 2
_MEBIBYTE = 1024 * 1024


def encode_plan(
    operations: tuple[Operation, ...], extra_metadata: Mapping[str, str], partitions_with_logs: tuple[str, ...] = ()
) -> bytes:
    """The Avro file of a plan; each operation carries the five metrics that the stock executor reads (facts: plan-file-form).

    Where the next compaction is planned by stock Hudi, it looks only at partitions with commits that completed after this
    one's instant, and at `missingSchedulePartitions` (facts: missing-partitions): these are all that have log files, as a
    plan may end withdrawn.

    Raises:
        TableError: the next run could not read it.

    """
    record = {
        "operations": [_operation(operation) for operation in operations],
        "extraMetadata": dict(extra_metadata),
        "version": _PLAN_VERSION,
        "strategy": None,
        "preserveHoodieMetadata": False,
        "missingSchedulePartitions": list(partitions_with_logs),
    }
    import fastavro

    buffer = BytesIO()
    fastavro.writer(buffer, _schema(), [record], codec="null")
    if not is_readable(content := buffer.getvalue()):
        size, slices = format_bytes(len(content)), count_of(len(operations), "file slice")
        message = f"a plan of {slices} is larger than what etc reads: {size}"
        raise TableError(Code.TOO_LARGE, message, hint="let a run take less: set `strategy.max_io`")
    return content


def require_full(plan: Mapping[str, Any], place: str) -> None:
    """Return if each operation of a plan merges a file slice whole, as all do that Hudi 1.2 knows.

    Later ones may merge the log files of some file groups alone (RFC-103), which is no compaction of these.

    Raises:
        TableError: an operation has a part that is not known, or the plan a later version.

    """
    known = _schema()["fields"]
    operations = next(one for one in known if one["name"] == "operations")["type"][1]["items"]["fields"]
    names, version = {field["name"] for field in operations}, plan.get("version")
    parts = {name: value for entry in _operations(plan) for name, value in entry.items() if name not in names}
    new = [f"`{name}` of an operation" for name, value in parts.items() if value is not None]
    if isinstance(version, int) and version > _PLAN_VERSION:
        new.append(f"version {version}")
    if new:
        raise unknown_form(f"the compaction plan of {place} is", ValueError(f"{new[0]} is new"))


def decode_operations(plan: Mapping[str, Any]) -> tuple[Operation, ...]:
    """The operations of a plan file; sizes that it does not record are zero, of those that remain it has the carried ones.

    Stock plans name log files for change data capture too, which a compaction does not read (facts: change-logs-planned).

    Raises:
        ValueError: what it carries or splits has another form, or is of no operation.

    """
    carried = carried_in(pairs_of(plan))
    found = tuple(_decoded(entry, mapping_of(entry["metrics"])) for entry in _operations(plan))
    if not carried.keys() <= {one.group for one in found}:
        raise ValueError("the plan carries log files of a file group that it does not compact")
    return with_split((_with_carried(one, carried.get(one.group, ())) for one in found), pairs_of(plan))


def expected_bytes(plan: Mapping[str, Any]) -> int | None:
    """The bytes that a plan's record, which may be another engine's, expects of all new base files; None if it does not say."""
    try:
        metrics = [mapping_of(entry.get("metrics")) for entry in _operations(plan)]
        known = bool(metrics) and all("TOTAL_IO_WRITE_MB" in one for one in metrics)
        return sum(_mebibytes(one, "TOTAL_IO_WRITE_MB") for one in metrics) if known else None
    except ValueError:
        return None


def planned_reads(plan: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], int, int]]:
    """The file group of each operation of a plan's record, the bytes it reads in all, and those of log files among them."""
    for entry in _operations(plan):
        metrics = mapping_of(entry["metrics"])
        reads, logs = _mebibytes(metrics, "TOTAL_IO_READ_MB"), _whole(size_of(metrics.get("TOTAL_LOG_FILES_SIZE")))
        yield (partition_of(entry["partitionPath"]), name_of(entry["fileId"])), reads, logs


def _operations(plan: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [mapping_of(entry, nullable=False) for entry in list_of(plan.get("operations"))]


def _mebibytes(metrics: Mapping[str, Any], name: str) -> int:
    return _whole(size_of(metrics.get(name)) * _MEBIBYTE)


def _whole(size: float) -> int:
    """A size that any hand may have written: one that cannot be says nothing."""
    return round(size) if isfinite(size) and size >= 0 else 0


def _with_carried(operation: Operation, carried: tuple[CarriedFile, ...]) -> Operation:
    staying = tuple(one.target for one in carried)
    return operation.model_copy(update={"carried": carried, "log_files_remaining": staying})


def _decoded(entry: Mapping[str, Any], metrics: Mapping[str, Any]) -> Operation:
    if entry.get("bootstrapFilePath"):  # Hudi would merge the rows of that file, wherever it lies
        raise ValueError("the plan names a file of bootstrap")
    return Operation(
        partition=partition_of(entry["partitionPath"]),
        file_id=entry["fileId"],
        base_instant=entry["baseInstantTime"],
        base_file=entry["dataFilePath"],
        log_files_compacted=tuple(
            one for one in map(text_of, list_of(entry["deltaFilePaths"])) if not is_change_log(one)
        ),
        log_files_remaining=(),
        bytes_read=_mebibytes(metrics, "TOTAL_IO_READ_MB"),
        bytes_written_estimate=_mebibytes(metrics, "TOTAL_IO_WRITE_MB"),
        log_bytes_compacted=_whole(size_of(metrics.get("TOTAL_LOG_FILES_SIZE"))),
    )


def _operation(operation: Operation) -> dict[str, Any]:
    read, written = operation.bytes_read / _MEBIBYTE, operation.bytes_written_estimate / _MEBIBYTE
    return {
        "baseInstantTime": operation.base_instant,
        "deltaFilePaths": list(merged_paths(operation)),
        "dataFilePath": operation.base_file,
        "fileId": operation.file_id,
        "partitionPath": operation.partition,
        "metrics": {
            "TOTAL_LOG_FILES": float(len(operation.log_files_compacted)),
            "TOTAL_LOG_FILES_SIZE": float(operation.log_bytes_compacted),
            "TOTAL_IO_READ_MB": read,
            "TOTAL_IO_WRITE_MB": written,
            "TOTAL_IO_MB": read + written,
        },
        "bootstrapFilePath": None,
    }


@cache
def _schema() -> Any:
    import fastavro

    text = files("etc_policy.hudi").joinpath("compaction_plan.avsc").read_text("utf-8")
    return fastavro.parse_schema(json.loads(text))
