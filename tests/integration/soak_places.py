"""Where a soak's table lies: on local disk, or in a bucket of an S3 server; its lock, and how Spark gets there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from etc_policy.policy.project_schema import StorageSettings
from etc_policy.spark.session import DEFAULT_BUNDLE, start_spark
from etc_policy.spark.store_confs import s3_packages, s3a_confs
from tests.integration.bucket_cut import variables
from tests.integration.kill_settings import BucketTable
from tests.integration.kills import Table
from tests.integration.storage_lock import LOCK as STORAGE_LOCK
from tests.integration.storage_lock import compile_client
from tests.s3_servers import running

PLACES = ("disk", "moto", "versitygw")
_FILE_PROVIDER = "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
_RETRIES = {"hoodie.write.lock.wait_time_ms_between_retry": "200", "hoodie.write.lock.num_retries": "400"}


def file_lock(expire_minutes: int) -> dict[str, str]:
    """The declared lock: a file in the table's own folder, with an expiry or without."""
    expire = {"hoodie.write.lock.filesystem.expire": str(expire_minutes)} if expire_minutes else {}
    return {"hoodie.write.lock.provider": _FILE_PROVIDER, **expire, **_RETRIES}


def start_spark_at(location: str, confs: Mapping[str, str], log: Path):
    """Spark that reaches a table; the environment says where a server is."""
    if not location.startswith("s3a://"):
        return start_spark(dict(confs), log)
    with_store = s3a_confs(StorageSettings(), os.environ, dict(confs))
    return start_spark(with_store, log, None, s3_packages(with_store, ()))


@dataclass(frozen=True)
class Place:
    """The table as its files are seen, and as Spark and `etc` name it; `jar` is what its lock's provider needs.

    A writer that has just begun a batch takes some of the pause to end it, the more the slower the place is.
    """

    table: Table
    location: str
    lock: Mapping[str, str]
    jar: Path | None = None
    writer_options: Mapping[str, str] = field(default_factory=dict)
    pause_seconds: float = 8.0

    @property
    def confs(self) -> dict[str, str]:
        """What a process that takes the lock is to give Spark: its jar, and beside it all that etc would load by itself."""
        if self.jar is None:
            return {}
        bundle = os.environ.get("ETC_HUDI_BUNDLE") or DEFAULT_BUNDLE
        loaded = {"spark.jars": [str(self.jar)], "spark.jars.packages": [*s3_packages({}, ())]}
        loaded["spark.jars" if bundle.endswith(".jar") else "spark.jars.packages"].append(bundle)
        return {name: ",".join(values) for name, values in loaded.items()}

    def prepare(self, spark) -> None:
        """Make what the lock's provider needs."""
        if self.jar is not None:
            compile_client(spark, self.jar.parent)


@contextmanager
def place_of(name: str, folder: Path, expire_minutes: int) -> Iterator[Place]:
    """The place of that name, with its server as long as it is used."""
    if name == "disk":
        base = folder / "lake" / "t"
        yield Place(Table(base), str(base), file_lock(expire_minutes))
        return
    (folder / "server").mkdir(parents=True)
    with running(name, folder / "server") as server:
        os.environ.update(variables(server))
        table = BucketTable(Path("t"), server, server.make_bucket())
        jar, markers = folder / "lock" / "lock-client.jar", {"hoodie.write.markers.type": "DIRECT"}
        yield Place(table, table.location, {**STORAGE_LOCK, **_RETRIES}, jar, markers, pause_seconds=24)
