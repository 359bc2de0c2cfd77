"""The lease of a table, by where the table lies."""

from __future__ import annotations

from collections.abc import Callable

from etc_policy.adapters.lease.file_lease import FileLease
from etc_policy.adapters.storage.door import is_remote, open_remote_storage
from etc_policy.execute.ports import Lease


def lease_of(base_path: str, *, local: bool, progress: Callable[[str], None]) -> Lease:
    """The lease of the table at a base path; `local` says that this machine does all work on it.

    Raises:
        TableError: the table lies where etc cannot reach it.

    """
    if not is_remote(base_path):
        return FileLease(base_path, local=local, progress=progress)
    from etc_policy.adapters.lease.store_lease import StoreLease

    return StoreLease(open_remote_storage(base_path), progress=progress)
