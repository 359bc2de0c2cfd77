"""What a declared lock says of Hudi's file-system lock provider."""

from __future__ import annotations

from collections.abc import Mapping

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
