"""Partial compaction of tables of version 6 in a bucket of a real S3 server: log files are carried by copies.

python -m tests.integration.bucket_version6 [--server moto versitygw]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from etc_policy.hudi.table import FileTableReader
from etc_policy.policy.manifest import Policy, Writer
from etc_policy.run.file_lease import lease_of
from etc_policy.run.runner import Runner
from etc_policy.run.table_files import HudiFiles
from etc_policy.spark.compactor import HudiCompactor
from tests.integration.bucket_cut import start, variables
from tests.integration.session import stop_spark
from tests.integration.version6 import Table6, Views6, play
from tests.integration.version6_kinds import WRITES, Kind
from tests.s3_servers import S3Server, running


@dataclass(frozen=True)
class BucketKind(Kind):
    """Writers have no server of the timeline there, and write their markers as files."""

    @property
    def options(self) -> dict[str, str]:
        return {**super().options, "hoodie.write.markers.type": "DIRECT"}


@dataclass
class BucketViews6(Views6):
    """Readers of such a table."""

    server: S3Server | None = None

    def delta_commits(self) -> list[str]:
        bucket, _, table = str(self.base).removeprefix("s3a://").partition("/")
        folder = f"{table}/.hoodie/"
        names = (key.removeprefix(folder) for key in self.server.keys(bucket, folder))
        return sorted(name.split(".")[0] for name in names if name.endswith(".deltacommit") and "/" not in name)


@dataclass
class BucketTable6(Table6):
    """Such a table, and the product's own steps on it."""

    base: str
    server: S3Server | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self.views = BucketViews6(self.spark, self.base, server=self.server)
        self.views.mdt = str(self.kind.mdt).lower()

    @property
    def policy(self) -> Policy:
        """There is no lock of the writers to declare: they pause."""
        return super().policy.model_copy(update={"writer": Writer(compaction="none")})

    @property
    def runner(self) -> Runner:
        """The runner with the lease that lies beside the table."""

        def lease(base_path: str):
            return lease_of(base_path, local=True, progress=lambda _: None)

        return Runner(FileTableReader(), HudiFiles(), lambda: HudiCompactor(self.spark), lease, lambda _: None)

    def carried(self) -> list[str]:
        return [key for key in self._keys() if ".log.0_1" in key]

    def properties_text(self) -> str:
        bucket, _, table = self.base.removeprefix("s3a://").partition("/")
        return self.server.content(bucket, f"{table}/.hoodie/hoodie.properties").decode()

    def _keys(self) -> list[str]:
        bucket, _, table = self.base.removeprefix("s3a://").partition("/")
        return self.server.keys(bucket, f"{table}/")


def play_in_bucket(spark: object, server: S3Server, kind: BucketKind) -> None:
    """A table of a kind in a bucket of its own, written and compacted there.

    Raises:
        AssertionError: a view is wrong.

    """
    table = BucketTable6(spark, f"s3a://{server.make_bucket()}/t", kind=kind, server=server)
    table.write(*WRITES)
    play(table)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.integration.bucket_version6", description=__doc__)
    parser.add_argument("--server", nargs="+", default=["moto", "versitygw"])
    parser.add_argument("--mdt", nargs="+", choices=["yes", "no"], default=["yes", "no"])
    given, failed = parser.parse_args(), 0
    for name in given.server:
        with tempfile.TemporaryDirectory() as folder, running(name, Path(folder)) as server:
            os.environ.update(variables(server))
            spark = start(Path(folder))
            try:
                for mdt in given.mdt:
                    failed += not right(spark, server, BucketKind(mdt=mdt == "yes"), name)
            finally:
                stop_spark(spark)
    return 1 if failed else 0


def right(spark: object, server: S3Server, kind: BucketKind, name: str) -> bool:
    """Whether every view was right; printed."""
    began = time.monotonic()
    try:
        play_in_bucket(spark, server, kind)
    except Exception as error:
        print(f"{name}: {kind}: FAILED: {type(error).__name__}: {error}", flush=True)
        return False
    print(f"{name}: {kind}: right ({time.monotonic() - began:.0f} s)", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
