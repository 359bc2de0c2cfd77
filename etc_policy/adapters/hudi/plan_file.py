"""The compaction plan as Hudi stores it: one Avro record of `HoodieCompactionPlan`, version 2."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from io import BytesIO
from math import isfinite
from typing import Any

from etc_policy.adapters.hudi.commits import pairs_of
from etc_policy.plan.carry import carried_in
from etc_policy.plan.stages import CarriedFile, Operation

_PLAN_VERSION = 2
_MEBIBYTE = 1024 * 1024


def encode_plan(
    operations: tuple[Operation, ...], extra_metadata: Mapping[str, str], partitions_with_logs: tuple[str, ...] = ()
) -> bytes:
    """The Avro file of a plan; each operation carries the five metrics that the stock executor reads (FACTS 1).

    Where the next compaction is planned by stock Hudi, it looks only at partitions with commits that completed after this
    one's instant, and at `missingSchedulePartitions` (FACTS 15): these are all that have log files, as a plan may end
    withdrawn.
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
    return buffer.getvalue()


def decode_operations(plan: Mapping[str, Any]) -> tuple[Operation, ...]:
    """The operations of a plan file; sizes that it does not record are zero, of those that remain it has the carried ones.

    Raises:
        ValueError: what it carries has another form, or is of no operation.

    """
    carried = carried_in(pairs_of(plan))
    found = tuple(_decoded(entry, entry["metrics"] or {}) for entry in plan.get("operations") or ())
    if not carried.keys() <= {one.group for one in found}:
        raise ValueError("the plan carries log files of a file group that it does not compact")
    return tuple(_with_carried(one, carried.get(one.group, ())) for one in found)


def expected_bytes(plan: Mapping[str, Any]) -> int | None:
    """The bytes that a plan's record expects of all new base files; None where an operation of it says nothing."""
    metrics = [entry["metrics"] or {} for entry in plan.get("operations") or ()]
    if not metrics or not all("TOTAL_IO_WRITE_MB" in one for one in metrics):
        return None
    return sum(_mebibytes(one, "TOTAL_IO_WRITE_MB") for one in metrics)


def planned_reads(plan: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], int, int]]:
    """The file group of each operation of a plan's record, the bytes it reads in all, and those of log files among them."""
    for entry in plan.get("operations") or ():
        metrics = entry["metrics"] or {}
        reads, logs = _mebibytes(metrics, "TOTAL_IO_READ_MB"), _whole(metrics.get("TOTAL_LOG_FILES_SIZE", 0))
        yield (entry["partitionPath"] or "", entry["fileId"]), reads, logs


def _mebibytes(metrics: Mapping[str, float], name: str) -> int:
    return _whole(metrics.get(name, 0) * _MEBIBYTE)


def _whole(size: float) -> int:
    """A size that any hand may have written: one that cannot be says nothing."""
    return round(size) if isfinite(size) and size >= 0 else 0


def _with_carried(operation: Operation, carried: tuple[CarriedFile, ...]) -> Operation:
    staying = tuple(one.target for one in carried)
    return operation.model_copy(update={"carried": carried, "log_files_remaining": staying})


def _decoded(entry: Mapping[str, Any], metrics: Mapping[str, float]) -> Operation:
    return Operation(
        partition=entry["partitionPath"] or "",
        file_id=entry["fileId"],
        base_instant=entry["baseInstantTime"],
        base_file=entry["dataFilePath"],
        log_files_compacted=tuple(entry["deltaFilePaths"] or ()),
        log_files_remaining=(),
        bytes_read=_mebibytes(metrics, "TOTAL_IO_READ_MB"),
        bytes_written_estimate=_mebibytes(metrics, "TOTAL_IO_WRITE_MB"),
        log_bytes_compacted=_whole(metrics.get("TOTAL_LOG_FILES_SIZE", 0)),
    )


def _operation(operation: Operation) -> dict[str, Any]:
    read, written = operation.bytes_read / _MEBIBYTE, operation.bytes_written_estimate / _MEBIBYTE
    return {
        "baseInstantTime": operation.base_instant,
        "deltaFilePaths": list(operation.log_files_compacted),
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
def _schema() -> Any:  # noqa: ANN401 - a parsed Avro schema
    import fastavro

    text = files("etc_policy.adapters.hudi").joinpath("compaction_plan.avsc").read_text("utf-8")
    return fastavro.parse_schema(json.loads(text))
