"""Options of the stock write client that runs a compaction: a mirror of the table, so that nothing else changes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from etc_policy.policy.hudi_options import IN_PROCESS_PROVIDER, OPERATION_OPTION, PROVIDER
from etc_policy.policy.manifest import Writer
from etc_policy.policy.secrets import with_values
from etc_policy.run.ports import Job
from etc_policy.run.run_signs import HEARTBEAT_INTERVAL_MS, HEARTBEAT_MISSES

#: Which option keeps which partition of the metadata table; one that is on in the table is on in the client.
_INDEX_OPTIONS: Mapping[str, str] = {
    "column_stats": "hoodie.metadata.index.column.stats.enable",
    "partition_stats": "hoodie.metadata.index.partition.stats.enable",
    "bloom_filters": "hoodie.metadata.index.bloom.filter.enable",
    "record_index": "hoodie.metadata.record.index.enable",
}
#: Hudi asks its timeline server when it updates these, and fails without one (facts: timeline-server-needed).
_SERVED_INDEXES = ("secondary_index_", "expr_index_", "func_index_")

#: How rows are made of a slice's files. Readers know other ways, which, set for a whole cluster, would be written to base files.
MERGED_ROWS = {"hoodie.datasource.merge.type": "payload_combine"}
#: The client's own lock: its caller holds the table's, which cannot be taken twice.
_IN_PROCESS = {PROVIDER: IN_PROCESS_PROVIDER}
#: Providers that wait inside one try for the lock; the others are tried anew.
_WAITING = ("Zookeeper", "StorageBased", "DynamoDB")
_RETRY_MS = 1_000


def client_options(job: Job) -> dict[str, str]:
    """The client's options: the metadata table and the table version as they are, heartbeats on, no other service.

    `hudi_options` of the policy add to these; what is set here wins, because the rest would change the table. References
    to environment variables become their values only here. The table's lock is held by the caller, see `table_lock`.
    """
    return with_values({**job.policy.hudi_options, **_mirror(job), **_IN_PROCESS}, os.environ)


def lock_config(job: Job) -> dict[str, str]:
    """What the client's options become where Hudi's own provider of the table's lock is asked."""
    return {**lock_options(job.policy.writer), **_mirror(job)}


def _mirror(job: Job) -> dict[str, str]:
    has = set(job.metadata_partitions)
    return {
        "hoodie.metadata.enable": _flag(bool(has)),
        "hoodie.metadata.auto.delete.partitions": "false",
        **{option: _flag(partition in has) for partition, option in _INDEX_OPTIONS.items()},
        **({OPERATION_OPTION: "true"} if job.in_changelog_mode else {}),
        "hoodie.write.table.version": str(job.table_version),
        "hoodie.write.auto.upgrade": "false",
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
        "hoodie.compact.inline": "false",
        "hoodie.embed.timeline.server": _flag(any(one.startswith(_SERVED_INDEXES) for one in has)),
        "hoodie.write.markers.type": "DIRECT",  # else that server removes folders for whoever reaches its port
        "hoodie.client.heartbeat.interval_in_ms": str(HEARTBEAT_INTERVAL_MS),
        "hoodie.client.heartbeat.tolerable.misses": str(HEARTBEAT_MISSES),
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.clean.failed.writes.policy": "LAZY",
        "hoodie.cleaner.policy.failed.writes": "LAZY",  # its name in 0.x
        "hoodie.auto.commit": "false",  # before 1.1 Hudi would commit by itself, without lock and fence
        **MERGED_ROWS,
    }


def merge_options(ordering_fields: Sequence[str]) -> dict[str, str]:
    """How the client merges the rows of a key: by the table's ordering field.

    Clients before 1.1 go by these options (`ts`, or no column, if they are not set), and not by the table's properties
    (facts: ordering-field-option). Tables with several fields are of later ones, which go by the properties.
    """
    if len(ordering_fields) != 1:
        return {}
    return dict.fromkeys(
        ("hoodie.payload.ordering.field", "hoodie.datasource.write.precombine.field"), ordering_fields[0]
    )


def lock_options(writer: Writer) -> dict[str, str]:
    """The declared lock for Hudi's own provider of it, which waits for as long as the policy says.

    Hudi alone waits for up to an hour. What is declared of waiting wins.
    """
    waits = any(name in writer.lock.get(PROVIDER, "") for name in _WAITING)
    bounds = {
        "hoodie.write.lock.wait_time_ms": str(writer.lock_wait_ms if waits else _RETRY_MS),
        "hoodie.write.lock.client.num_retries": str(0 if waits else writer.lock_wait_ms // _RETRY_MS),
        "hoodie.write.lock.client.wait_time_ms_between_retry": str(_RETRY_MS),
        "hoodie.write.lock.num_retries": "3",
    }
    return with_values({**bounds, **writer.lock}, os.environ)


def _flag(value: bool) -> str:
    return "true" if value else "false"
