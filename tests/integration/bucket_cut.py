"""The cut on tables in a bucket of a real S3 server, as `test_cut.py` has it on local disk. As a command, all kinds:

python -m tests.integration.bucket_cut [--server moto versitygw] [--version 6 8 9] [--mdt yes no]

Of version 6 it is the partial compaction of `version6.py`, whose log files are carried by copies.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from etc_policy.hudi.table import FileTableReader
from etc_policy.policy.manifest import Policy, Writer
from etc_policy.policy.project_schema import StorageSettings
from etc_policy.run.file_lease import lease_of
from etc_policy.run.runner import Runner
from etc_policy.run.table_files import HudiFiles
from etc_policy.spark.compactor import HudiCompactor
from etc_policy.spark.session import start_spark
from etc_policy.spark.store_confs import s3_packages, s3a_confs
from tests.integration.bench import Bench
from tests.integration.cut_checks import check_the_cut
from tests.integration.history import QUICK, Views, write_history
from tests.integration.session import stop_spark
from tests.integration.version6 import Table6, Views6
from tests.integration.version6 import play as play_version_6
from tests.integration.version6_kinds import WRITES
from tests.integration.version6_kinds import Kind as Kind6
from tests.s3_servers import REGION, VARIABLES, S3Server, running


@dataclass(frozen=True)
class Kind:
    """A kind of table."""

    version: int = 9
    mdt: bool = True
    granularity: str = "log_file"

    @property
    def options(self) -> dict[str, str]:
        """What its writers are given; markers by files where there is no server of the timeline."""
        older = {"hoodie.write.table.version": str(self.version), "hoodie.write.auto.upgrade": "false"}
        return {
            **QUICK,
            **(older if self.version < 9 else {}),
            "hoodie.metadata.enable": str(self.mdt).lower(),
            "hoodie.write.markers.type": "DIRECT",
        }

    def __str__(self) -> str:
        return f"version {self.version}, MDT {'on' if self.mdt else 'off'}, {self.granularity}"


def bucket_and_folder(location: str) -> tuple[str, str]:
    """The bucket of a table, and its folder in it."""
    bucket, _, folder = location.partition("://")[2].partition("/")
    return bucket, folder


@dataclass
class InBucket:
    """A table in a bucket, whose files are seen by boto3, and whose lease lies beside it."""

    server: S3Server | None = field(default=None, kw_only=True)

    @property
    def runner(self) -> Runner:
        def lease(base_path: str):
            return lease_of(base_path, local=True, progress=lambda _: None)

        return Runner(FileTableReader(), HudiFiles(), lambda: HudiCompactor(self.spark), lease, lambda _: None)

    def names_in(self, folder: str) -> list[str]:
        bucket, table = bucket_and_folder(self.base)
        return self.server.keys(bucket, f"{table}/{folder}/".replace("//", "/"))

    def properties_text(self) -> str:
        bucket, table = bucket_and_folder(self.base)
        return self.server.content(bucket, f"{table}/.hoodie/hoodie.properties").decode()


@dataclass
class BucketViews(InBucket, Views):
    """Readers of such a table."""

    def storage_options(self) -> dict[str, str]:
        """How hudi-rs reaches the server."""
        return self.server.storage_options()

    def timeline(self) -> list[str]:
        """The names of the instants' files."""
        return [key.rpartition("/")[2] for key in self.names_in(".hoodie/timeline")]


@dataclass
class BucketBench(InBucket, Bench):
    """Such a table, its policy, and the product's own steps on it."""

    base: str

    @property
    def policy(self) -> Policy:
        """The shared policy, for whose writers' lock there is nothing to declare."""
        return super().policy.model_copy(update={"writer": Writer(index=self.index)})

    def views(self) -> BucketViews:
        return BucketViews(self.spark, self.base, server=self.server)


@dataclass(frozen=True)
class BucketKind6(Kind6):
    """Writers of version 6 have no server of the timeline there either."""

    @property
    def options(self) -> dict[str, str]:
        return {**super().options, "hoodie.write.markers.type": "DIRECT"}

    def __str__(self) -> str:
        return f"version 6, {super().__str__()}"


@dataclass
class BucketViews6(InBucket, Views6):
    """Readers of a table of version 6."""

    def delta_commits(self) -> list[str]:
        names = (key.partition("/.hoodie/")[2] for key in self.names_in(".hoodie"))
        return sorted(name.split(".")[0] for name in names if name.endswith(".deltacommit") and "/" not in name)


@dataclass
class BucketTable6(InBucket, Table6):
    """A table of version 6, and the product's own steps on it."""

    base: str

    def __post_init__(self) -> None:
        self.views = BucketViews6(self.spark, self.base, server=self.server)
        self.views.mdt = str(self.kind.mdt).lower()

    @property
    def policy(self) -> Policy:
        """There is no lock of the writers to declare: they pause."""
        return super().policy.model_copy(update={"writer": Writer(compaction="none")})

    def carried(self) -> list[str]:
        return [key for key in self.names_in("") if ".log.0_1" in key]


def play(spark, server: S3Server, kind: Kind | BucketKind6, *, since: int = 0) -> None:
    """A table of a kind in a bucket of its own, written and compacted there; `since` as in `check_the_cut`.

    Raises:
        AssertionError: a view is wrong.

    """
    base = f"s3a://{server.make_bucket()}/t"
    if isinstance(kind, BucketKind6):
        table = BucketTable6(spark, base, kind=kind, server=server)
        table.write(*WRITES)
        play_version_6(table)
        return
    write_history(spark, base, options=kind.options)
    bench = BucketBench(spark, base, kind.granularity, server=server)
    check_the_cut(bench, kind.options, since=since)


def variables(server: S3Server) -> dict[str, str]:
    """The standard variables that say where the server is, with its keys."""
    return {**VARIABLES, "AWS_ENDPOINT_URL_S3": server.endpoint, "AWS_REGION": REGION}


def start(folder: Path):
    """Spark, which reaches the server of the environment as `etc` would have it."""
    confs = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "3g"}
    confs = s3a_confs(StorageSettings(), os.environ, confs)
    return start_spark(confs, folder / "spark.log", None, s3_packages(confs, ()))


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.integration.bucket_cut", description=__doc__)
    parser.add_argument("--server", nargs="+", default=["moto", "versitygw"])
    parser.add_argument("--version", nargs="+", type=int, default=[9, 8, 6])
    parser.add_argument("--mdt", nargs="+", choices=["yes", "no"], default=["yes", "no"])
    given = parser.parse_args()
    failed = 0
    for name in given.server:
        with tempfile.TemporaryDirectory() as folder, running(name, Path(folder)) as server:
            os.environ.update(variables(server))
            spark = start(Path(folder))
            try:
                for version, mdt in itertools.product(given.version, given.mdt):
                    failed += sum(not right(spark, server, kind, name) for kind in kinds_of(version, mdt == "yes"))
            finally:
                stop_spark(spark)
    return 1 if failed else 0


def kinds_of(version: int, mdt: bool) -> list[Kind | BucketKind6]:
    """The kinds of tables of a version that are played."""
    if version == 6:
        return [BucketKind6(mdt=mdt)]
    return [Kind(version, mdt, granularity) for granularity in ("log_file", "file_slice")]


def right(spark, server: S3Server, kind: Kind | BucketKind6, name: str) -> bool:
    """Whether every view was right; printed."""
    began = time.monotonic()
    try:
        play(spark, server, kind)
    except Exception as error:
        print(f"{name}: {kind}: FAILED: {type(error).__name__}: {error}", flush=True)
        return False
    print(f"{name}: {kind}: right ({time.monotonic() - began:.0f} s)", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
