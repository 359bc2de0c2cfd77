"""A metadata table that forbids to roll a killed run back is dropped and built anew by the run that mends.

See facts: rollback-of-cut-1-0. Bundles before 1.2 refuse to take an instant back from a metadata table that was compacted at
a later one. A cut lies in the past, so that is the rule where a run died between its commit to the metadata table and its
commit to the table.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from etc_policy.errors import EngineError
from etc_policy.hudi.layout import METADATA_NOTE
from etc_policy.run.ports import Job
from etc_policy.storage.open_storage import open_reader, open_storage

_REFUSAL = "is earlier than the latest compaction"


def is_due(error: EngineError) -> bool:
    """Whether this is how Hudi says that its metadata table is in the way."""
    return says_so(f"{error.cause}\n{error.__cause__}")


def says_so(text: str) -> bool:
    """Whether it is in Java's words."""
    return _REFUSAL in text


def drop(jvm: Any, client: Any, table: Any, job: Job) -> None:
    """Drop the metadata table by Hudi's own means; what it had is owed until a compaction has built it again."""
    open_storage(job.base_path).replace(METADATA_NOTE, "\n".join(job.metadata_partitions).encode())
    utility = jvm.org.apache.hudi.metadata.HoodieTableMetadataUtil
    utility.deleteMetadataTable(table.getMetaClient(), client.getEngineContext(), False)


def owed(base_path: str, partitions: Collection[str]) -> tuple[str, ...]:
    """Partitions of the metadata table that were dropped by a run which then died, less the `partitions` that it has."""
    try:
        names = open_reader(base_path).read(METADATA_NOTE).decode().split()
    except FileNotFoundError:
        return ()
    return tuple(name for name in names if name not in partitions)


def settle(job: Job) -> None:
    """Nothing is owed any more."""
    open_storage(job.base_path).remove(METADATA_NOTE)
