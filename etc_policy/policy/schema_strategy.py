"""The `strategy` block of a policy: what may be written, with a description of each key."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from etc_policy.policy.schema_values import (
    Budget,
    Count,
    Declared,
    IntervalMs,
    PartitionRegex,
    PartitionTerms,
    SizeBytes,
    StrategyType,
)


class Strategy(Declared):
    """How log files are chosen for compaction."""

    type: StrategyType = Field(
        "event_time",
        description="`event_time` compacts what holds events at or before the threshold, now minus `data_latency`. The others "
        "choose whole file slices as the strategies of Hudi do that they are named after, and T is what RO holds then.",
        examples=["event_time", "log_file_num"],
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
        "order of texts, either end of which may be omitted. How far RO is complete still counts for the whole table.",
        examples=[["region=eu*", "2026-01-01..2026-01-31"]],
    )
    max_io_bytes: SizeBytes | None = Field(
        None,
        alias="max_io",
        description="Bytes that one run reads and writes at most: the file slices with the oldest events go first, and T is what "
        "they reach. A slice that alone takes more is compacted alone.",
        examples=["50 GiB"],
    )
    every_ms: IntervalMs | None = Field(
        None,
        alias="every",
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
    target_io_bytes: Budget | None = Field(
        None,
        alias="target_io",
        description="For `bounded_io`, `log_file_size`, `log_file_num` and `day_based`: Hudi takes slices until they read and "
        "write as much, so that the last one may go beyond it. 512000 MiB where it is not given, which is Hudi's default.",
        examples=["50 GiB"],
    )
    min_log_bytes: SizeBytes | None = Field(
        None,
        alias="min_log_size",
        description="For `log_file_size`: only slices with so many bytes in log files are compacted, the most first.",
        examples=["256 MiB"],
    )
    min_log_files: Count | None = Field(
        None,
        description="For `log_file_num`: only slices with so many log files are compacted, the most first.",
        examples=[5],
    )
    latest_partitions: Count | None = Field(
        None,
        description="For `day_based`, whose partitions are days as `yyyy/MM/dd`: only so many of the latest are compacted, "
        "10 where it is not given.",
        examples=[3],
    )
    regex: PartitionRegex | None = Field(
        None,
        description="For `partition_regex`, which needs it: only partitions in whose paths it is found are compacted. Java and "
        "Python must read it alike, so groups may not be repeated, and there are no look-arounds or back references.",
        examples=["^2026/0[1-6]/"],
    )
