"""A plan in one sentence: what somebody says yes to."""

from __future__ import annotations

from etc_policy.plan.formats import count_of, format_bytes
from etc_policy.plan.stages import Plan


def summarize_changes(plan: Plan) -> str:
    """`Compact 34 log files (187.9 KiB) of 1 table: reads 2.7 MiB, writes about 2.5 MiB.`"""
    due = [table for table in plan.tables if table.action == "compact"]
    operations = [operation for table in due for operation in table.operations]
    files = count_of(sum(len(operation.log_files_compacted) for operation in operations), "log file")
    size, read, written = (
        format_bytes(sum(getattr(operation, name) for operation in operations))
        for name in ("log_bytes_compacted", "bytes_read", "bytes_written_estimate")
    )
    tables = count_of(len(due), "table")
    return f"Compact {files} ({size}) of {tables}: reads {read}, writes about {written}. RT stays as it is."
