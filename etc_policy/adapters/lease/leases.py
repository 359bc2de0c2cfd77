"""The lease of a table, by where the table lies."""

from __future__ import annotations

from collections.abc import Callable

from etc_policy.adapters.lease.file_lease import FileLease
from etc_policy.adapters.storage.door import is_on_object_store, open_storage
from etc_policy.execute.ports import Lease


def lease_of(base_path: str, *, local: bool, progress: Callable[[str], None]) -> Lease:
    """The lease of the table at a base path; `local` says that this machine does all work on it.

    Raises:
        TableError: the table lies where etc cannot reach it.

    """
    if not is_on_object_store(base_path):
        return FileLease(base_path, local=local, progress=progress)
    from etc_policy.adapters.lease.store_lease import StoreLease
    from etc_policy.adapters.storage.object_storage import ObjectStorage

    storage = open_storage(base_path)
    assert isinstance(storage, ObjectStorage)  # noqa: S101 - the door gives nothing else
    return StoreLease(storage, progress=progress)
