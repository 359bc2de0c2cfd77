"""The `strategy` block of a policy: what may be written, with a description of each key."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from etc_policy.declare.schema_values import Declared, IntervalMs, PartitionTerms, SizeBytes


class Strategy(Declared):
    """How log files are chosen for compaction."""

    type: Literal["event_time"] = Field(
        "event_time",
        description="Compact what holds events at or before the threshold, now minus `data_latency`.",
        examples=["event_time"],
    )
    granularity: Literal["log_file", "file_slice"] = Field(
        "log_file",
        description="`log_file` merges only the log files up to the threshold (the RFC's way); "
        "`file_slice` merges every log file of each slice that has one due, and over a day rewrites less for the same promise.",
        examples=["file_slice"],
    )
    partitions: PartitionTerms = Field(
        (),
        description="Compact only these partitions: globs over their paths, where `*` is also `/`, or ranges `FROM..TO` in the "
        "order of texts, either end of which may be left away. How far RO is complete still counts for the whole table.",
        examples=[["region=eu*", "2026-01-01..2026-01-31"]],
    )
    max_io: SizeBytes | None = Field(
        None,
        description="Bytes that one run reads and writes at most: the file slices with the oldest events go first, and T is what "
        "they reach. A slice that alone takes more is compacted alone.",
        examples=["50 GiB"],
    )
    every: IntervalMs | None = Field(
        None,
        description="How often `etc apply` runs, from start to start (`--every` wins). With `freshness.target` a slice is "
        "compacted just in time then: when its oldest event would break the target before the next run has ended.",
        examples=["5m"],
    )
    carry: Literal["auto", "hard_link", "copy", "symlink"] | None = Field(
        None,
        description="For tables of version 6 with `granularity: log_file`, whose writers do not compact: how the log files "
        "that stay get their names in the new slice. `auto` takes a hard link, or a copy where the file system has none; "
        "`symlink` is refused. Without it such a table is refused.",
        examples=["auto"],
    )
