"""A metadata table that forbids to roll a killed run back is dropped and built anew by the run that mends (FACTS 5).

Bundles before 1.2 refuse to take an instant back from a metadata table that was compacted at a later one. A cut lies in the
past, so that is the rule where a run died between its commit to the metadata table and its commit to the table.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from etc_policy.adapters.hudi.layout import etc_folder, local_path
from etc_policy.errors import EngineError
from etc_policy.execute.ports import Job

_REFUSAL = "is earlier than the latest compaction"


def is_due(error: EngineError) -> bool:
    """Whether this is how Hudi says that its metadata table stands in the way."""
    return _REFUSAL in f"{error.cause}\n{error.__cause__}"


def drop(jvm: Any, client: Any, table: Any, job: Job) -> None:  # noqa: ANN401 - Java objects
    """Drop the metadata table by Hudi's own means; what it had is owed until a compaction has built it again."""
    note = _note(job)
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text("\n".join(job.metadata_partitions), "utf-8")
    utility = jvm.org.apache.hudi.metadata.HoodieTableMetadataUtil
    utility.deleteMetadataTable(table.getMetaClient(), client.getEngineContext(), False)


def owed(job: Job) -> tuple[str, ...]:
    """Partitions of the metadata table that were dropped by a run which then died, less those that the table has."""
    try:
        names = _note(job).read_text("utf-8").split()
    except FileNotFoundError:
        return ()
    return tuple(name for name in names if name not in job.metadata_partitions)


def settle(job: Job) -> None:
    """Nothing is owed any more."""
    _note(job).unlink(missing_ok=True)


def _note(job: Job) -> Path:
    return etc_folder(local_path(job.base_path)) / "metadata_partitions"
