"""The pages' own command blocks on real tables, made the ways people make them, and written to afterwards as the pages say."""

from __future__ import annotations

import datetime as dt
import json
import re
import shlex
import shutil
import time
from pathlib import Path

import pytest

from etc_policy.cli.main import main
from etc_policy.wiring import SparkSessions
from tests.command_blocks import REPOSITORY, Shell, command_blocks_of
from tests.nightly import nightly

pytestmark = pytest.mark.spark
WRITERS_PAGE = (REPOSITORY / "docs" / "how-to" / "writers.md").read_text("utf-8")
SQL_TABLE, SQL_MERGE, SQL_VERSION_6 = re.findall(r"^```sql\n(.*?)^```$", WRITERS_PAGE, re.DOTALL | re.MULTILINE)
MINUTE_S = 60
WRITER = {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.upsert.shuffle.parallelism": "2",
}
UNPARTITIONED = {
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
}


@pytest.fixture
def blocks(request):
    """The blocks that the test runs."""
    return command_blocks_of(request.node.originalname)


@pytest.fixture
def one_session(spark, monkeypatch):
    """`etc` in this process works with the Spark of the tests."""
    monkeypatch.setattr(SparkSessions, "_start_spark", lambda *_: spark)
    monkeypatch.setattr(SparkSessions, "close", lambda _: None)
    return spark


@pytest.fixture
def types(one_session, capsys, monkeypatch):
    """Runs a block line by line, in this process; what is printed to stdout."""

    def run(block):
        capsys.readouterr()
        for line in block.splitlines():
            command, *arguments = shlex.split(line)
            if command == "cd":
                monkeypatch.chdir(arguments[0])
                continue
            assert command == "etc", line
            code = main(arguments)
            assert code == 0, f"{line}: {code}\n{capsys.readouterr().err}"
        return capsys.readouterr().out

    return run


class Orders:
    """A table of orders at `base`; `rows` are what RT must return: id -> (v, event time in seconds)."""

    event_time_column, strategy = "updated_at", ""

    def __init__(self, spark, base: Path) -> None:
        self.spark, self.base, self.rows, self.options = spark, base, {}, dict(WRITER)
        self.now_s = int(time.time())

    def minutes_ago(self, minutes):
        return self.now_s - minutes * MINUTE_S

    def write(self, *rows):
        """One commit of (id, v, minutes ago), in the oracle too."""
        whole = [(key, value, self.minutes_ago(minutes)) for key, value, minutes in rows]
        self.send(whole)
        self.rows |= {key: (value, second) for key, value, second in whole}

    def create(self):
        self.write(*((key, "v0", 600 - key) for key in range(9)))
        self.write((1, "v1", 300), (2, "v1", 299))
        self.write((3, "v2", 200), (10, "v2", 199))

    def adopt(self, writers: Path):
        """The job takes the options that `etc compile` wrote."""
        self.options |= json.loads((writers / "orders_ro.options.json").read_text())

    def go_on(self):
        self.write((1, "v3", 120), (4, "v3", 119))
        self.write((5, "fresh", 1), (11, "fresh", 1))

    def view(self, *, read_optimized=False):
        reader = self.spark.read.format("hudi").option("hoodie.query.as.ro.table", str(read_optimized).lower())
        found = reader.load(str(self.base)).select("id", "v").collect()
        assert len({row.id for row in found}) == len(found), f"a key stands twice: {sorted(found)}"
        return {row.id: row.v for row in found}

    def check(self, threshold_ms):
        """RT is what was written; RO holds every row up to T, and no key that RT does not have."""
        assert self.view() == {key: value for key, (value, _) in self.rows.items()}
        read_optimized = self.view(read_optimized=True)
        promised = {key: value for key, (value, second) in self.rows.items() if second * 1000 <= threshold_ms}
        assert {key: read_optimized.get(key) for key in promised} == promised
        assert set(read_optimized) <= set(self.rows)


class Timestamps(Orders):
    """A `timestamp` column, and no option but those that a table must have."""

    def send(self, rows):
        frame = self.spark.createDataFrame(
            [(key, value, dt.datetime.fromtimestamp(second, dt.UTC)) for key, value, second in rows],
            "id int, v string, updated_at timestamp",
        )
        options = {**UNPARTITIONED, "hoodie.datasource.write.precombine.field": "updated_at", **self.options}
        frame.write.format("hudi").options(**options).mode("append").save(str(self.base))


class Stream(Orders):
    """Structured Streaming, with ISO 8601 text; each write is a run of the query over the files that are new."""

    def send(self, rows):
        source = self.base.parent / "arriving"
        source.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps({"id": key, "v": value, "updated_at": iso(second)}) for key, value, second in rows]
        (source / f"{len(list(source.iterdir()))}.json").write_text("\n".join(lines) + "\n")
        stream = self.spark.readStream.schema("id int, v string, updated_at string").json(str(source))
        options = {**UNPARTITIONED, "hoodie.datasource.write.precombine.field": "updated_at", **self.options}
        query = (
            stream.writeStream.format("hudi")
            .options(**options)
            .option("checkpointLocation", str(self.base.parent / "checkpoint"))
            .outputMode("append")
            .trigger(availableNow=True)
            .start(str(self.base))
        )
        query.awaitTermination()
        assert query.exception() is None


class Sql(Orders):
    """`CREATE TABLE` without an ordering field; written by INSERT, UPDATE, DELETE and the page's MERGE INTO."""

    columns, ordering = "id int, v string, updated_at timestamp", ""

    def literal(self, second):
        return f"timestamp_seconds({second})"

    def values(self, rows):
        return ", ".join(f"({key}, '{value}', {self.literal(second)})" for key, value, second in rows)

    def send(self, rows):
        if not self.base.exists():
            self.spark.sql("CREATE DATABASE IF NOT EXISTS sales")
            self.spark.sql(
                f"CREATE TABLE sales.orders ({self.columns}) USING hudi "
                f"TBLPROPERTIES (type = 'mor', primaryKey = 'id'{self.ordering}) LOCATION '{self.base}'"
            )
            self.spark.sql(f"INSERT INTO sales.orders VALUES {self.values(rows)}")
            return
        for key, value, second in rows:
            if key in self.rows:
                self.spark.sql(
                    f"UPDATE sales.orders SET v = '{value}', updated_at = {self.literal(second)} WHERE id = {key}"
                )
            else:
                self.spark.sql(f"INSERT INTO sales.orders VALUES {self.values([(key, value, second)])}")

    def delete(self, key):
        self.spark.sql(f"DELETE FROM sales.orders WHERE id = {key}")
        del self.rows[key]

    def create(self):
        super().create()
        self.delete(7)

    def adopt(self, writers):
        statement = (writers / "orders_ro.tblproperties.sql").read_text()
        assert "db.table" in statement
        self.spark.sql(sql_only(statement.replace("db.table", "sales.orders"))[0])

    def go_on(self):
        super().go_on()
        self.delete(8)
        changes = [(2, "merged", self.minutes_ago(90)), (12, "merged", self.minutes_ago(89))]
        self.spark.sql(f"SELECT * FROM VALUES {self.values(changes)} AS t(id, v, updated_at)").createOrReplaceTempView(
            "changes"
        )
        for statement in sql_only(SQL_MERGE):
            self.spark.sql(statement)
        self.rows |= {key: (value, second) for key, value, second in changes}


class SqlWithOrdering(Sql):
    """With an ordering field and an integer column, whose event times Hudi records."""

    event_time_column = "{column: updated_at, unit: ms}"
    columns, ordering = "id int, v string, updated_at bigint", ", orderingFields = 'updated_at'"

    def literal(self, second):
        return f"{second * 1000}"


class Version6(Orders):
    """A table of version 6, whose writers say so with every write, as the page has it."""

    event_time_column = "{column: updated_at, unit: ms}"
    strategy = "    strategy: {type: event_time, granularity: file_slice}\n"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.options |= dict(statement.removeprefix("SET ").split("=") for statement in sql_only(SQL_VERSION_6))

    def send(self, rows):
        frame = self.spark.createDataFrame(
            [(key, value, second * 1000) for key, value, second in rows], "id int, v string, updated_at long"
        )
        options = {**UNPARTITIONED, "hoodie.datasource.write.precombine.field": "updated_at", **self.options}
        frame.write.format("hudi").options(**options).mode("append").save(str(self.base))


def iso(second):
    return dt.datetime.fromtimestamp(second, dt.UTC).isoformat().replace("+00:00", "Z")


def sql_only(text):
    """The statements of a text, without comments."""
    bare = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
    return [" ".join(one.split()) for one in bare.split(";") if one.strip()]


def fill_in(policy: Path, orders: Orders):
    """What the page tells to set."""
    text = policy.read_text().replace("\"{{ var('lake') }}/orders\"", str(orders.base))
    text = text.replace("event_time_column: updated_at", f"event_time_column: {orders.event_time_column}")
    policy.write_text(text.replace("    freshness:\n", f"{orders.strategy}    freshness:\n"))


def threshold_of(plan: Path):
    (table,) = json.loads(plan.read_text())["tables"]
    assert table["action"] == "compact", table["reason"]
    return table["threshold_ms"]


@pytest.fixture
def leaves_no_tables(one_session):
    yield
    one_session.sql("DROP TABLE IF EXISTS sales.orders")
    one_session.sql("DROP DATABASE IF EXISTS sales")
    one_session.conf.unset("hoodie.write.track.event.time.watermark")


@pytest.mark.extended
@pytest.mark.parametrize(
    "kind",
    [Stream, Version6, Sql, Timestamps, SqlWithOrdering],
    ids=lambda kind: kind.__name__,
)
def test_a_table_of_every_kind_is_adopted_by_the_page(
    blocks, kind, types, leaves_no_tables, tmp_path, monkeypatch, spark
):
    orders = kind(spark, tmp_path / "lake" / "orders")
    orders.create()
    properties = (orders.base / ".hoodie" / "hoodie.properties").read_text().split("\n", 2)[2]
    start, look, compile_, first = blocks
    monkeypatch.chdir(tmp_path)
    types(start)
    project = tmp_path / "compaction"
    fill_in(project / "policies" / "orders.yml", orders)
    assert "Plan " in types(look)
    types(compile_)
    assert "verified      PASS" in types(first)
    orders.check(threshold_of(project / "target" / "plan.json"))
    assert (orders.base / ".hoodie" / "hoodie.properties").read_text().split("\n", 2)[2] == properties

    orders.adopt(project / "target" / "writers")
    orders.go_on()
    assert "verified      PASS" in types("etc apply --yes")
    orders.check(threshold_of(project / "target" / "plan.json"))
    assert "PASS" in types("etc verify")


@pytest.mark.extended
def test_the_plan_that_was_reviewed_is_carried_out(blocks, types, written_table, tmp_path, monkeypatch):
    shutil.copytree(written_table, tmp_path / "orders")
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "orders.yml").write_text(
        "version: 1\npolicies:\n"
        "  - {name: orders_ro, table: orders, event_time_column: {column: ts, unit: ms}, data_latency: 30m}\n"
    )
    monkeypatch.chdir(tmp_path)
    (reviewed,) = blocks
    assert "verified      PASS" in types(reviewed)


@pytest.mark.parametrize("days", [1, *nightly(3)])
def test_the_demo(no_spark, tmp_path, days):
    """README's main command, and what the tutorial begins with."""
    shell = Shell(tmp_path)
    shell.succeeds(f"etc demo --days {days}", timeout=1200)
    runs = [json.loads(path.read_text()) for path in sorted((tmp_path / "target" / "runs").glob("*.json"))]
    applied = [table for run in runs if run["kind"] == "apply" for table in run["results"]["tables"]]
    ends = [(table["status"], table["verification"]["status"]) for table in applied]
    assert ends[0] in (("compacted", "pass"), ("nothing_due", "pass"))  # in the small hours nothing flies
    assert set(ends[1:]) == {("compacted", "pass")}
    assert len(applied) >= 3 * days
    assert runs[-1]["verifications"]["tables"][0]["verification"]["level"] == "data"
    (found,) = json.loads(shell.succeeds("etc freshness --by partition --output json"))["tables"]
    assert "data" in {proof["level"] for proof in found["proofs"]}
    assert found["remaining_log_files"]
    states = {one["status"] for one in found["partitions"]["partitions"]}
    assert "done" in states
    assert days == 1 or any(one["reopened"] for one in found["partitions"]["partitions"])
    assert (tmp_path / "target" / "site" / "tables" / "flights_ro.html").is_file()


@pytest.mark.extended
def test_the_demo_as_of_midnight(no_spark, tmp_path):
    printed = Shell(tmp_path).succeeds("etc demo --as-of midnight --days 1", timeout=1200)
    assert "Equal to it: record." in printed


@pytest.mark.extended
def test_the_whole_tutorial(blocks, no_spark, tmp_path):
    """As a reader does it, each command a process of its own: with a catalog, and the demo's table."""
    look, plan, apply, verify, use, debug = blocks
    shell = Shell(tmp_path)
    shell.succeeds("etc demo", timeout=1200)
    assert "1 policy OK" in shell.succeeds(look)
    policy = tmp_path / "policies" / "flights.yml"
    policy.write_text(policy.read_text().replace("data_latency: 6h ", "data_latency: 2h "))
    assert shell.succeeds(plan).count("data_latency: 6h -> 2h") == 2
    assert "verified      PASS" in shell.succeeds(apply, timeout=1200)
    assert shell.succeeds(verify, timeout=1200).count("PASS") == 2
    assert "RO holds every row of day=" in shell.succeeds(use)
    shell.succeeds(debug)
