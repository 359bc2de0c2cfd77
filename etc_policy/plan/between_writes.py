"""Whether runs find a moment beside writers that never pause, and the declaration that gives them one.

See facts: lazy-overlapping-writers, moment-between-writes.
"""

from __future__ import annotations

from etc_policy.policy.hudi_options import PROVIDER, is_file_lock, is_in_process
from etc_policy.policy.locations import is_local
from etc_policy.policy.manifest import Policy
from etc_policy.table.formats import format_duration
from etc_policy.table.state import CUT_VERSIONS

_BETWEEN = (
    "a run waits for the end of a write, and keeps the next one out until it has committed, for `writer.hold` at most"
)
_DECLARE = f"or declare the lock file of its writers as `writer.lock`: then {_BETWEEN}"
_NO_FILE = (
    "or give its writers, and `writer.lock`, the lock file of FileSystemBasedLockProvider, as a run cannot hold a lock of "
    f"{{provider}}: with one {_BETWEEN}"
)
_NO_HOLD = f"or set `writer.hold`, which is 0s, to how long its writers may wait: then {_BETWEEN}"
_LONGER = (
    "or set `writer.lock_wait` ({lock_wait}) longer than the longest batch of its writers, and `writer.hold` ({hold}) longer "
    "than the compaction of one file slice: that is how long a run waits for the end of a write, and keeps the next one out"
)


def can_hold(policy: Policy, table_version: int, base_path: str) -> bool:
    """Whether a run can hold the writers' lock from a plan to its commit: a declared lock file of a table that has a cut."""
    writer = policy.writer
    return is_file_lock(writer.lock) and writer.hold_ms > 0 and _may_be_held(table_version, base_path)


def ends_refusals(policy: Policy, table_version: int, base_path: str) -> str | None:
    """The declaration that ends refusals by writers that never pause, as a hint to be added to others; None where none does."""
    writer = policy.writer
    if not _may_be_held(table_version, base_path):
        return None
    if can_hold(policy, table_version, base_path):
        return _LONGER.format(lock_wait=format_duration(writer.lock_wait_ms), hold=format_duration(writer.hold_ms))
    if not writer.lock or is_in_process(writer.lock):
        return _DECLARE
    if is_file_lock(writer.lock):
        return _NO_HOLD
    return _NO_FILE.format(provider=str(writer.lock.get(PROVIDER, "Hudi's default provider")).rpartition(".")[2])


def _may_be_held(table_version: int, base_path: str) -> bool:
    """A lock file is a file of this machine, or of a file system that it has mounted."""
    return table_version in CUT_VERSIONS and is_local(base_path)
