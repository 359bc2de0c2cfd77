"""Whether the lock that a policy declares protects its table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from etc_policy.codes.registry import Code
from etc_policy.compile.file_locks import EXPIRY, PROVIDER, expiry_minutes, is_file_lock, is_in_process
from etc_policy.declare.project import DeclaredPolicy
from etc_policy.errors import Issue


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
