"""RO tables in a real catalog under `etc apply` and `etc sync`: `python -m tests.integration.sync_scenario KIND FOLDER`.

KIND is `thrift` (a Hive metastore, in the namespace in which this runs) or `derby` (in this process's Spark). One JVM
serves all commands and the stock writer; every command has a Spark session of its own. Prints `passed`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from datetime import datetime
from io import StringIO
from pathlib import Path

from etc_policy.api import workspace
from etc_policy.cli.main import main
from etc_policy.errors import TableError
from etc_policy.report.sync import PropertyChanges
from etc_policy.spark.catalog import SparkPropertyStore
from etc_policy.spark.local_catalog import local_catalog_confs
from etc_policy.spark.session import start_spark
from etc_policy.table.formats import iso_time
from tests.integration.hudi_tables import EPOCH_MS, StockTable
from tests.integration.metastore import PORT, Metastore

LATENCY_MS = 10_000
POLICY = """version: 1
policies:
  - name: orders_ro
    table: {table}
    event_time_column: {{column: ts, unit: ms}}
    data_latency: 10s
    strategy: {{granularity: log_file}}
    verify: {{level: data}}
    sync: {{ro_table: lake.orders_ro}}
    hudi_options: {{{options}}}
"""
PROJECT = """version: 1
profiles:
  all:
    target: only
    targets:
      only:
        catalog: {{type: hive, uri: "thrift://127.0.0.1:{port}"}}
        spark:
          confs:
            spark.hadoop.hive.metastore.connect.retries: "1"
            spark.hadoop.hive.metastore.client.connect.retry.delay: 0s
"""
HIVE_SYNC = {
    "hoodie.table.name": "orders",
    "hoodie.write.track.event.time.watermark": "true",
    "hoodie.payload.event.time.field": "ts",
    "hoodie.datasource.meta.sync.enable": "true",
    "hoodie.datasource.hive_sync.enable": "true",
    "hoodie.datasource.hive_sync.mode": "hms",
    "hoodie.datasource.hive_sync.database": "lake",
    "hoodie.datasource.hive_sync.table": "orders",
    "hoodie.datasource.hive_sync.partition_fields": "p",
}
ETC = "etc.event_time."


def at(seconds: int) -> int:
    """An event time."""
    return EPOCH_MS + seconds * 1000


@dataclass
class Scenario:
    """A project with one table and its catalog."""

    folder: Path
    metastore: Metastore | None

    def __post_init__(self) -> None:
        (self.folder / "policies").mkdir()
        self.policy()
        if self.metastore:
            (self.folder / "etc_project.yml").write_text(PROJECT.format(port=PORT))

    def policy(self, options: str = "") -> None:
        """The policy, with further Hudi options."""
        text = POLICY.format(table=self.folder / "orders", options=options)
        (self.folder / "policies" / "a.yml").write_text(text)

    @contextmanager
    def session(self):
        """A session of somebody else's on the same catalog."""
        confs = {
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.hive.metastore.uris": f"thrift://127.0.0.1:{PORT}",
        }
        if not self.metastore:
            confs = local_catalog_confs(self.folder / "target" / "catalog")
        spark = start_spark(confs, self.folder / "spark.log")
        try:
            yield spark
        finally:
            spark.stop()

    def write(self, *rows: tuple[int, int, str]) -> dict[str, str]:
        """One commit per row (key, event second, value) by the stock writer, the last with hive sync; the properties."""
        with self.session() as spark:
            spark.sql("CREATE DATABASE IF NOT EXISTS lake")
            table = StockTable(spark, str(self.folder / "orders"), "id int, p string, ts long, v string")
            for number, (key, second, value) in enumerate(rows, start=1):
                enable = str(number == len(rows)).lower()
                options = {
                    **HIVE_SYNC,
                    "hoodie.datasource.hive_sync.enable": enable,
                    "hoodie.datasource.meta.sync.enable": enable,
                }
                table.write([(key, "a", at(second), value)], **options)
            return self._properties(spark)

    def properties(self) -> dict[str, str]:
        """What the RO table says, without the common prefix; the other tables must say nothing."""
        with self.session() as spark:
            return self._properties(spark)

    def _properties(self, spark) -> dict[str, str]:
        found = {
            name: {
                row[0]: row[1]
                for row in spark.sql(f"SHOW TBLPROPERTIES lake.{name}").collect()
                if row[0].startswith("etc.")
            }
            for name in ("orders", "orders_ro", "orders_rt")
        }
        assert found["orders"] == found["orders_rt"] == {}
        return {key.removeprefix(ETC): value for key, value in found["orders_ro"].items()}

    def values(self) -> dict[int, str]:
        """What SQL on the RO table answers."""
        with self.session() as spark:
            return {row["id"]: row["v"] for row in spark.sql("SELECT id, v FROM lake.orders_ro").collect()}

    def etc(self, *arguments: str, now: int) -> tuple[int, dict]:
        """The exit code and the JSON of a command whose now is an event second."""
        print(f"{time.monotonic() - BEGAN:6.1f}  etc {' '.join(arguments)}", file=sys.stderr)
        printed = StringIO()
        with redirect_stdout(printed):
            code = main((*arguments, "--project-dir", str(self.folder), "--at", str(at(now)), "--output", "json"))
        return code, json.loads(printed.getvalue()) if printed.getvalue() else {}

    def apply(self, now: int) -> tuple[int, dict]:
        """The exit code of an apply, and its result for the table."""
        code, results = self.etc("apply", "--yes", now=now)
        return code, results["tables"][0]

    def sync(self, *arguments: str, now: int) -> tuple[int, dict]:
        """The exit code of a sync, and its result for the table."""
        code, report = self.etc("sync", *arguments, now=now)
        return code, report["tables"][0]


@contextmanager
def when_told(word: str, act: Callable[[], None]):
    """Call `act` once, when an apply announces a step that has the word in it."""
    real, acted = workspace.Environment, []

    def opened(*arguments, **keywords):
        environment = real(*arguments, **keywords)
        progress = environment.progress

        def told(step: str) -> None:
            progress(step)
            if word in step and not acted:
                acted.append(step)
                act()

        environment.progress = told
        return environment

    workspace.Environment = opened
    try:
        yield
    finally:
        workspace.Environment = real
    assert acted, f"no step told of `{word}`"


def apply_write_and_fail(scenario: Scenario) -> None:
    """After an apply, after a stock write with hive sync, and after an apply that failed."""
    assert scenario.write((1, 100, "a"), (1, 110, "b"), (1, 125, "c")) == {}

    code, result = scenario.apply(now=130)  # T = 120
    assert (code, result["status"], result["verification"]["status"]) == (0, "compacted", "pass"), result
    first = scenario.properties()
    proved_at = datetime.fromisoformat(first["complete_until_proved_at"])
    assert proved_at <= datetime.fromisoformat(result["completed_at"])
    assert first == {key.removeprefix(ETC): value for key, value in result["sync"]["properties"].items()}
    assert first == {
        "threshold": str(at(120)),
        "complete_until": str(at(120)),
        "complete_until_level": "data",
        "complete_until_proved_at": first["complete_until_proved_at"],
        "instant": result["instant"],
        "policy": "orders_ro",
        "status": "verified",
        "verified_at": result["completed_at"],
        "verified_level": "data",
    }
    assert scenario.values() == {1: "b"}

    assert scenario.write((1, 150, "d")) == first

    scenario.policy("hoodie.memory.compaction.max.size: not-a-number")
    code, result = scenario.apply(now=200)
    assert (code, result["status"], result["sync"]) == (3, "failed", None), result
    assert scenario.properties() == first
    code, result = scenario.sync(now=200)  # that plan was withdrawn: the threshold is that of the completed one
    assert code == 0
    after = scenario.properties()
    by_metadata = {"complete_until_level": "metadata", "complete_until_proved_at": iso_time(at(200))}
    assert after == {**first, "complete_until": str(at(125) - 1), **by_metadata}

    scenario.policy()
    code, result = scenario.apply(now=200)  # T = 190: compacted now
    assert (code, result["status"]) == (0, "compacted"), result
    then = scenario.properties()
    assert (then["threshold"], then["status"]) == (str(at(190)), "verified")
    assert then["instant"] == result["instant"] != first["instant"]


def idle_and_remove(scenario: Scenario) -> None:
    """Nothing due, nothing new, and away with it all."""
    before = scenario.properties()
    code, result = scenario.apply(now=300)
    assert (code, result["status"], result["sync"]["status"]) == (0, "nothing_due", "synced"), result
    idle = scenario.properties()
    proof = {"complete_until_level": "logs", "complete_until_proved_at": idle["complete_until_proved_at"]}
    assert idle == {**before, "complete_until": str(at(290)), **proof}
    code, result = scenario.sync(now=300)
    assert (code, result["status"]) == (0, "unchanged")

    code, result = scenario.sync("--remove", now=300)
    assert (code, result["status"]) == (0, "removed")
    assert scenario.properties() == {}
    assert scenario.sync("--remove", now=300)[1]["status"] == "unchanged"


def catalog_that_goes_down(scenario: Scenario) -> None:
    """Down in the middle of a sync: the compaction stands, and the next sync makes up for it."""
    metastore = scenario.metastore
    assert metastore is not None
    before = scenario.properties()
    scenario.write((1, 200, "e"))
    with when_told("syncing", metastore.kill):
        code, result = scenario.apply(now=250)
    sync = result["sync"]
    assert (code, result["status"], result["verification"]["status"]) == (4, "compacted", "pass"), result
    assert (sync["status"], sync["attempts"], sync["properties"]) == ("failed", 3, None)
    assert "cannot be asked" in sync["message"]

    metastore.start()
    assert scenario.properties() == before
    assert scenario.values() == {1: "e"}
    code, _ = scenario.sync(now=250)
    caught_up = scenario.properties()
    assert code == 0
    assert (caught_up["threshold"], caught_up["instant"]) == (str(at(240)), result["instant"])
    assert (caught_up["status"], caught_up["verified_at"]) == ("verified", result["completed_at"])


def killed_while_syncing(scenario: Scenario) -> None:
    """`etc apply` dies by SIGKILL while it syncs: the next one finds nothing to do but to verify and to sync."""
    scenario.write((1, 310, "g"))
    command = [sys.executable, "-m", "etc_policy.cli.main", "apply", "--yes"]
    command += ["--project-dir", str(scenario.folder), "--at", str(at(350))]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stderr is not None
    told = next((line for line in process.stderr if "syncing" in line), None)
    assert told, "it never came to the sync"
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait(timeout=60) == -signal.SIGKILL
    process.stderr.close()

    code, result = scenario.apply(now=350)
    assert (code, result["status"], result["verification"]["status"]) == (0, "nothing_due", "pass"), result
    properties = scenario.properties()
    assert (properties["threshold"], properties["status"]) == (str(at(340)), "verified")
    assert properties == {key.removeprefix(ETC): value for key, value in result["sync"]["properties"].items()}
    assert scenario.values() == {1: "g"}


def property_of_a_partition(scenario: Scenario) -> None:
    """It is set on the partition that Hudi's sync made; all else of it, its rows and the table's properties stay."""

    def parameters(spark) -> dict:
        """As the metastore has them: Spark describes no partition of a table whose partitions it does not keep itself."""
        catalog, jvm = spark._jsparkSession.sharedState().externalCatalog(), spark._jvm
        found = catalog.getPartition("lake", "orders_ro", jvm.PythonUtils.toScalaMap({"p": "a"})).parameters()
        return dict(jvm.scala.collection.JavaConverters.mapAsJavaMap(found))

    before, values = scenario.properties(), scenario.values()
    with scenario.session() as spark:
        table = str(scenario.folder / "orders")
        kept, store = parameters(spark), SparkPropertyStore(spark, table)
        for status in ("done", "reopened"):
            store.write_partition("lake.orders_ro", "a", {"etc.partition.status": status})
            assert parameters(spark)["etc.partition.status"] == status
        now = parameters(spark)
        changed = {key: (value, now.get(key)) for key, value in kept.items() if now.get(key) != value}
        assert changed.keys() <= {"transient_lastDdlTime"}, changed  # Hive's own time of the change
        for partition, base_path in (
            ("b", table),
            ("a", str(scenario.folder)),
            ("a", f"{table}/a"),
            ("a", f"{table}2"),
        ):
            require_no_such(SparkPropertyStore(spark, base_path), "write_partition", partition, {})
        assert parameters(spark) == now
    assert (scenario.properties(), scenario.values()) == (before, values)


def require_no_such(store: SparkPropertyStore, method: str, *arguments) -> None:
    """The catalog does not have that of `lake.orders_ro` where the store's table lies."""
    try:
        getattr(store, method)("lake.orders_ro", *arguments)
    except TableError as error:
        assert error.code == "ETC217", error
    else:
        raise AssertionError("it lies elsewhere")


def table_elsewhere(scenario: Scenario) -> None:
    """Of a table that lies elsewhere nothing is read or written; the place is the same however it is written."""
    before, table = scenario.properties(), scenario.folder / "orders"
    (scenario.folder / "link").symlink_to(table)
    odd = scenario.folder / "odd %20 é+#&=:x"
    with scenario.session() as spark:
        for place in (scenario.folder, table / "a", f"{table}2", "s3://lake/orders", f"hdfs://{table}"):
            store = SparkPropertyStore(spark, str(place))
            require_no_such(store, "read")
            require_no_such(store, "write", PropertyChanges((), {f"{ETC}threshold": "1"}))
        for place in (
            f"{table}/",
            f"file:{table}",
            f"file://{table}",
            f"file://localhost{table}",
            scenario.folder / "link",
        ):
            assert SparkPropertyStore(spark, str(place)).read("LAKE.Orders_RO").keys() == {
                f"{ETC}{key}" for key in before
            }
        spark.sql(f"CREATE TABLE lake.odd (v string, p string) USING parquet PARTITIONED BY (p) LOCATION '{odd}'")
        spark.sql(f"ALTER TABLE lake.odd ADD PARTITION (p='1/2') LOCATION '{odd}/p=1%2F2'")
        store = SparkPropertyStore(spark, str(odd))
        assert store.read("lake.odd") == {}
        store.write_partition("lake.odd", "p=1%2F2", {"etc.partition.status": "done"})
    assert scenario.properties() == before


BEGAN = time.monotonic()


def run(kind: str, folder: Path, jars: str | None) -> None:
    """The whole scenario."""
    metastore = None
    if kind == "thrift":
        (folder / "metastore").mkdir()
        metastore = Metastore(folder / "metastore", Path(jars or ""))
        metastore.start()
    try:
        scenario = Scenario(folder, metastore)
        apply_write_and_fail(scenario)
        property_of_a_partition(scenario)
        table_elsewhere(scenario)
        if metastore:
            catalog_that_goes_down(scenario)
            killed_while_syncing(scenario)
        else:
            idle_and_remove(scenario)
    finally:
        if metastore:
            metastore.kill()


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
    print("passed")
