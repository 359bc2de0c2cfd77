"""Options of the stock write client that runs a compaction: a mirror of the table, so that nothing else changes."""

from __future__ import annotations

import os
from collections.abc import Mapping

from etc_policy.adapters.hudi.layout import ETC_FOLDER
from etc_policy.adapters.lease.heartbeat import HEARTBEAT_INTERVAL_MS, HEARTBEAT_MISSES
from etc_policy.declare.secrets import with_values
from etc_policy.execute.ports import Job

#: Which option keeps which partition of the metadata table; one that is on in the table is on in the client.
_INDEX_OPTIONS: Mapping[str, str] = {
    "column_stats": "hoodie.metadata.index.column.stats.enable",
    "partition_stats": "hoodie.metadata.index.partition.stats.enable",
    "bloom_filters": "hoodie.metadata.index.bloom.filter.enable",
    "record_index": "hoodie.metadata.record.index.enable",
}


#: For a client that works while we hold the table's own lock: that one cannot be taken twice.
_LOCKED_BY_US = {"hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider"}


def client_options(job: Job, *, under_lock: bool = False) -> dict[str, str]:
    """The client's options: the metadata table and the table version as they are, heartbeats on, no other service.

    `hudi_options` of the policy add to these; what is set here wins, because the rest would change the table. References
    to environment variables become their values only here. A client `under_lock` leaves the table's lock to its caller.
    """
    has = set(job.metadata_partitions)
    mirror = {
        "hoodie.metadata.enable": _flag(bool(has)),
        "hoodie.metadata.auto.delete.partitions": "false",
        **{option: _flag(partition in has) for partition, option in _INDEX_OPTIONS.items()},
        "hoodie.write.table.version": str(job.table_version),
        "hoodie.write.auto.upgrade": "false",
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
        "hoodie.compact.inline": "false",
        "hoodie.embed.timeline.server": "false",
        "hoodie.client.heartbeat.interval_in_ms": str(HEARTBEAT_INTERVAL_MS),
        "hoodie.client.heartbeat.tolerable.misses": str(HEARTBEAT_MISSES),
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.clean.failed.writes.policy": "LAZY",
    }
    return with_values(
        {**job.policy.hudi_options, **mirror, **(_LOCKED_BY_US if under_lock else _lock(job))}, os.environ
    )


def _lock(job: Job) -> Mapping[str, str]:
    if job.policy.writer.lock:
        return job.policy.writer.lock
    return {
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
        "hoodie.write.lock.filesystem.path": f"{job.base_path}/{ETC_FOLDER}",
        "hoodie.write.lock.filesystem.expire": "1",
        "hoodie.write.lock.wait_time_ms_between_retry": "500",
        "hoodie.write.lock.num_retries": "20",
    }


def _flag(value: bool) -> str:
    return "true" if value else "false"
