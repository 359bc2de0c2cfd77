"""What keeps others away from a table while Java works on it: the table's lock, and a lease that Java itself holds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from etc_policy.errors import RetryableError
from etc_policy.errors.codes import Code
from etc_policy.hudi.layout import ETC_FOLDER
from etc_policy.policy.hudi_options import PROVIDER, is_in_process
from etc_policy.run.file_lease import JAVA_LEASE
from etc_policy.run.file_lock import FileLock
from etc_policy.run.lock_holder import lock_place
from etc_policy.run.ports import Job
from etc_policy.spark.client_options import lock_config
from etc_policy.spark.hudi_client import method_names
from etc_policy.storage.open_storage import is_remote, local_path
from etc_policy.table.formats import format_duration

Progress = Callable[[str], None]
#: What is shorter needs no words.
_ANNOUNCED_AFTER_SECONDS = 3.0


@contextmanager
def table_lock(
    jvm: Any,
    job: Job,
    client: Any,
    owner: Callable[[], Any],
    progress: Progress,
) -> Iterator[Callable[[], None]]:
    """Hold the table's lock; yields what raises when it was lost. Only who holds the table's lease may take it.

    Hudi's own providers know its `owner`, an instant.

    Raises:
        RetryableError: it was held by somebody else for longer than the policy waits.

    """
    writer = job.policy.writer
    place = lock_place(writer.lock, job.base_path)
    if place is not None:
        with job.hold.borrowed() if job.hold else nullcontext() as held:
            if held is not None:
                yield held.require_held
                return
        care_ms = writer.hold_ms + writer.lock_wait_ms
        with FileLock(place, job.base_path, writer.lock_wait_ms, progress, care_ms=care_ms) as lock:
            yield lock.require_held
        return
    if not writer.lock or is_in_process(writer.lock):  # not on local disk: the lease keeps other runs of etc away
        yield lambda: None
        return
    manager = jvm.org.apache.hudi.client.transaction.TransactionManager(
        _config(jvm, job, client), _storage(jvm, client)
    )
    newer = "beginStateChange" in method_names(manager)
    option = jvm.org.apache.hudi.common.util.Option
    try:
        with _announced(job, progress):
            holder = option.of(owner())
            (manager.beginStateChange if newer else manager.beginTransaction)(holder, option.empty())
        try:
            yield lambda: None
        finally:
            (manager.endStateChange if newer else manager.endTransaction)(holder)
    finally:
        manager.close()


def _config(jvm: Any, job: Job, client: Any) -> Any:
    """The client's settings with the declared lock, where the client itself has one inside its process."""
    properties = jvm.java.util.Properties()
    properties.putAll(client.getConfig().getProps())
    for key, value in lock_config(job).items():
        properties.put(key, value)
    return jvm.org.apache.hudi.config.HoodieWriteConfig.newBuilder().withProperties(properties).build()


def _storage(jvm: Any, client: Any) -> Any:
    return jvm.org.apache.hudi.table.HoodieSparkTable.create(client.getConfig(), client.getEngineContext()).getStorage()


@contextmanager
def _announced(job: Job, progress: Progress) -> Iterator[None]:
    """Say what is waited for where that lasts."""
    writer = job.policy.writer
    provider = writer.lock.get(PROVIDER, "").rsplit(".", 1)[-1] or "Hudi's default provider"
    words = f"waiting for the lock of the table's writers ({provider}), {format_duration(writer.lock_wait_ms)} at most"
    timer = threading.Timer(_ANNOUNCED_AFTER_SECONDS, progress, [f"{job.policy.name}: {words}"])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def java_lease(jvm: Any, job: Job) -> Iterator[None]:
    """Held by the Java process itself: should Python die alone, nobody begins while Java may still commit.

    On an object store or HDFS the next run waits until this process shows no sign of life (`Lease.wait_for_dead_run`); what it
    has committed by then counts as done.

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
