"""What a declared lock says of Hudi's file-system lock provider, and whether it protects its table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from etc_policy.codes.registry import Code
from etc_policy.declare.project import DeclaredPolicy
from etc_policy.errors import Issue

PROVIDER = "hoodie.write.lock.provider"
LOCK_FOLDER = "hoodie.write.lock.filesystem.path"
EXPIRY = "hoodie.write.lock.filesystem.expire"
FILE_PROVIDER = "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"


def is_file_lock(lock: Mapping[str, object]) -> bool:
    """Whether the lock is a file that lies beside the table, or in a declared folder."""
    return str(lock.get(PROVIDER, "")).strip() == FILE_PROVIDER


def is_in_process(lock: Mapping[str, object]) -> bool:
    """Whether the lock is one inside a single Java process, which nobody outside of it sees."""
    return str(lock.get(PROVIDER, "")).strip().endswith(".InProcessLockProvider")


def expiry_minutes(lock: Mapping[str, object]) -> int:
    """After how many minutes anybody may remove the lock file as left behind; 0, Hudi's default, for never."""
    text = str(lock.get(EXPIRY, "0")).strip()
    return int(text) if text.isascii() and text.isdigit() else 0


def lock_issues(policy: DeclaredPolicy, lock_of_target: Mapping[str, object]) -> Iterator[Issue]:
    """Warnings about the policy's lock, which is the target's where it has none itself."""
    own = policy.declaration.writer.lock
    lock = own or lock_of_target
    where = policy.where("writer", "lock", PROVIDER) if own else policy.where("name")
    if is_file_lock(lock) and not expiry_minutes(lock):
        message = (
            "the lock file of the table's writers never expires: one that dies while it holds the lock stops all others"
        )
        hint = f"give the writers, and this lock, `{EXPIRY}: 5` (minutes, longer than any commit takes)"
        yield Issue(Code.LOCK_WITHOUT_EXPIRY, message, where, hint, level="warning")
    if is_in_process(lock):
        message = (
            "the lock of the table's writers is one inside a single Java process: no other writer and no `etc` sees it"
        )
        hint = "declare the lock that all writers take (ZooKeeper, DynamoDB, Hive metastore, file system), or none"
        yield Issue(Code.LOCK_IN_PROCESS, message, where, hint, level="warning")
