"""The lease that the Java process itself holds while it works on a table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from etc_policy.adapters.hudi.layout import ETC_FOLDER
from etc_policy.adapters.lease.file_lease import JAVA_LEASE
from etc_policy.adapters.storage.door import is_remote, local_path
from etc_policy.codes.registry import Code
from etc_policy.errors import RetryableError
from etc_policy.execute.ports import Job


@contextmanager
def java_lease(jvm: Any, job: Job) -> Iterator[None]:  # noqa: ANN401 - a JVM view
    """Held by the Java process itself: should Python die alone, nobody begins while Java may still commit.

    On an object store or HDFS the lease outlives Python by longer than Java does.

    Raises:
        RetryableError: another Java process holds it.

    """
    if is_remote(job.base_path):
        yield
        return
    folder = local_path(job.base_path) / ETC_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    file = jvm.java.io.RandomAccessFile(str(folder / JAVA_LEASE), "rw")
    try:
        if file.getChannel().tryLock() is None:
            message = f"the Java process of another run of etc is working on `{job.base_path}`"
            raise RetryableError(Code.TABLE_IN_USE, message, hint="wait for it to end, then run this again")
        yield
    finally:
        file.close()
