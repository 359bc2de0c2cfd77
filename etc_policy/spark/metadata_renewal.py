"""A metadata table that forbids to roll a killed run back is dropped and built anew by the run that mends.

See facts: rollback-of-cut-1-0. Bundles before 1.2 refuse to take an instant back from a metadata table that was compacted at
a later one. A cut lies in the past, so that is the rule where a run died between its commit to the metadata table and its
commit to the table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from etc_policy.errors import EngineError
from etc_policy.hudi.layout import METADATA_NOTE
from etc_policy.hudi.writer_options import COLUMN_LIST, COLUMN_STATISTICS
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
    """Drop the metadata table by Hudi's own means; what it had is owed until a compaction has built it again.

    The client has found the columns of which it keeps statistics.
    """
    columns = client.getConfig().getProps().getProperty(COLUMN_LIST)
    lines = (f"{one} {columns}" if columns and one in COLUMN_STATISTICS else one for one in job.metadata_partitions)
    open_storage(job.base_path).replace(METADATA_NOTE, "\n".join(lines).encode())
    utility = jvm.org.apache.hudi.metadata.HoodieTableMetadataUtil
    utility.deleteMetadataTable(table.getMetaClient(), client.getEngineContext(), False)


def owed(base_path: str, partitions: Collection[str]) -> tuple[str, ...]:
    """Partitions of the metadata table that were dropped by a run which then died, less the `partitions` that it has."""
    return tuple(name for name in _noted(base_path) if name not in partitions)


def is_gone(base_path: str) -> bool:
    """Whether the metadata table was dropped, and nobody has built it again yet: it can be asked nothing."""
    return bool(_noted(base_path))


def noted_columns(base_path: str) -> str | None:
    """The columns of which a metadata table that was dropped kept statistics; None where nobody knew them."""
    found = _noted(base_path)
    return next((found[one] for one in COLUMN_STATISTICS if found.get(one)), None)


def _noted(base_path: str) -> Mapping[str, str]:
    """The partitions of a metadata table that was dropped, with the columns that it kept statistics of; none without one."""
    try:
        lines = open_reader(base_path).read(METADATA_NOTE).decode(errors="replace").splitlines()
    except FileNotFoundError:
        return {}
    parted = (line.partition(" ") for line in lines)
    return {name: columns for name, _, columns in parted}


def settle(job: Job) -> None:
    """Nothing is owed any more."""
    open_storage(job.base_path).remove(METADATA_NOTE)
