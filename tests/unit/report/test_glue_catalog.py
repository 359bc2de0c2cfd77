"""The Glue Data Catalog of moto, asked by botocore alone."""

import time
from pathlib import Path
from uuid import uuid4

import pytest

from etc_policy.api.diagnosing import diagnose_tables
from etc_policy.api.syncing import sync_table
from etc_policy.errors import EtcError, RetryableError, TableError
from etc_policy.policy.manifest import EventTime, Policy, Sync
from etc_policy.policy.project_schema import CatalogSettings, StorageSettings, Target, catalog_confs
from etc_policy.report.glue_catalog import GlueCatalog
from etc_policy.report.sync import PropertyChanges, partition_values
from etc_policy.storage import bounded_http, listings
from etc_policy.wiring import Environment
from tests.lying_store import ENDLESS, LIES, ODD, lying_store
from tests.s3_servers import KEY, REGION, SECRET
from tests.unit.hudi.table_folder import TableFolder, at, log

STORAGE = StorageSettings(region=REGION)


@pytest.fixture(autouse=True)
def keys(s3_variables):
    """Those of the test's server."""


@pytest.fixture
def glue(moto_server):
    import boto3

    keys = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET}
    return boto3.client("glue", endpoint_url=moto_server.endpoint, region_name=REGION, **keys)


@pytest.fixture
def table(glue):
    """`db.table` as Hudi's sync makes it."""
    database = f"lake_{uuid4().hex[:8]}"
    glue.create_database(DatabaseInput={"Name": database})
    glue.create_table(
        DatabaseName=database,
        TableInput={
            "Name": "orders_ro",
            "TableType": "EXTERNAL_TABLE",
            "PartitionKeys": [{"Name": "day", "Type": "string"}],
            "Parameters": {"EXTERNAL": "TRUE", "etc.event_time.status": "unverified"},
            "StorageDescriptor": {"Location": "s3://lake/orders", "Columns": [{"Name": "id", "Type": "bigint"}]},
        },
    )
    return f"{database}.orders_ro"


def settings(server):
    return CatalogSettings(type="glue", uri=server.endpoint)


@pytest.fixture
def catalog(moto_server):
    return GlueCatalog(settings(moto_server), STORAGE, "s3a://lake/orders/")


def test_where_a_table_lies(catalog, table):
    assert catalog.location(table) == "s3://lake/orders"
    assert catalog.location(table.upper()) == "s3://lake/orders"
    with pytest.raises(TableError, match="has no table") as error:
        catalog.location("lake.none")
    assert error.value.code == "ETC211"


def test_properties_change_and_nothing_else_does(catalog, table, glue):
    assert catalog.read(table) == {"etc.event_time.status": "unverified"}
    catalog.write(table, PropertyChanges(("etc.event_time.status",), {"etc.event_time.threshold": "5"}))
    assert catalog.read(table) == {"etc.event_time.threshold": "5"}
    database, name = table.split(".")
    found = glue.get_table(DatabaseName=database, Name=name)["Table"]
    assert found["Parameters"] == {"EXTERNAL": "TRUE", "etc.event_time.threshold": "5"}
    assert (found["TableType"], found["PartitionKeys"]) == ("EXTERNAL_TABLE", [{"Name": "day", "Type": "string"}])
    assert found["StorageDescriptor"]["Columns"] == [{"Name": "id", "Type": "bigint"}]


def test_a_partition_is_found_by_its_path_and_nothing_else_of_it_changes(catalog, table, glue):
    database, name = table.split(".")
    where = {"DatabaseName": database, "TableName": name}
    descriptor = {"Location": "s3://lake/orders/day=2026%2F01", "Columns": [{"Name": "id", "Type": "bigint"}]}
    kept = {"Values": ["2026/01"], "StorageDescriptor": descriptor, "Parameters": {"theirs": "1"}}
    glue.create_partition(**where, PartitionInput=kept)
    catalog.write_partition(table, "day=2026%2F01", {"etc.partition.status": "done"})
    catalog.write_partition(table, "day=2026%2F01", {"etc.partition.status": "reopened"})
    found = glue.get_partition(**where, PartitionValues=["2026/01"])["Partition"]
    assert found["Parameters"] == {"theirs": "1", "etc.partition.status": "reopened"}
    assert found["StorageDescriptor"]["Location"] == descriptor["Location"]
    for path in ("day=2026%2F02", "other/2026%2F01", "2026/01"):  # that is not there, or lies elsewhere
        with pytest.raises(TableError, match="has no partition"):
            catalog.write_partition(table, path, {})


def lie_at(glue, table, folder, **properties):
    """Let the catalog have a table elsewhere, with these properties."""
    database, name = table.split(".")
    changed = {"Name": name, "StorageDescriptor": {"Location": f"file:{folder}"}, "Parameters": properties}
    glue.update_table(DatabaseName=database, TableInput=changed)


OTHERS = (
    "s3://lake/flights",
    "s3://lake",
    "s3://lake/orders/day=1",
    "s3://lake2/orders",
    "gs://lake/orders",
    "/lake/orders",
)


@pytest.mark.parametrize("base_path", OTHERS)
def test_a_table_that_lies_elsewhere_is_neither_read_nor_written(catalog, table, moto_server, base_path):
    """Whoever makes a folder of a namespace gives it the name of any table in the catalog."""
    other = GlueCatalog(settings(moto_server), STORAGE, base_path)
    for act in (other.read, lambda table: other.write(table, PropertyChanges((), {"etc.event_time.threshold": "5"}))):
        with pytest.raises(TableError) as error:
            act(table)
        assert error.value.code == "ETC217"
        assert str(error.value).startswith(
            f"the policy's table lies at `{base_path}`, and `{table}` of the catalog at `s3://lake/orders`"
        )
    assert catalog.read(table) == {"etc.event_time.status": "unverified"}


def test_a_partition_of_another_table_is_left_alone(catalog, table, glue, moto_server):
    """A record beside a table named the other, and etc wrote there with its own rights."""
    database, name = table.split(".")
    where = {"DatabaseName": database, "TableName": name}
    glue.create_partition(
        **where, PartitionInput={"Values": ["1"], "StorageDescriptor": {"Location": "s3://lake/orders/day=1"}}
    )
    for base_path in (*OTHERS, "s3://lake/flights/../orders/x"):
        other = GlueCatalog(settings(moto_server), STORAGE, base_path)
        for path in ("day=1", "../orders/day=1"):
            with pytest.raises(TableError, match=f"has no partition of `{table}` at `{base_path}/{path}`"):
                other.write_partition(table, path, {"etc.partition.status": "reopened"})
    assert "Parameters" not in glue.get_partition(**where, PartitionValues=["1"])["Partition"]
    catalog.write_partition(table, "day=1", {"etc.partition.status": "reopened"})
    found = glue.get_partition(**where, PartitionValues=["1"])["Partition"]
    assert found["Parameters"] == {"etc.partition.status": "reopened"}


@pytest.mark.parametrize(
    ("path", "columns", "values"),
    [
        ("dt=2026-01-01", 1, ("2026-01-01",)),
        ("2026/01/01", 1, ("2026-01-01",)),
        ("2026/01/01", 3, ("2026", "01", "01")),
        ("year=2026/month=1", 2, ("2026", "1")),
        ("at=a%3Db", 1, ("a=b",)),
    ],
)
def test_values_of_a_partition_are_those_of_its_path(path, columns, values):
    assert partition_values(path, columns) == values


def test_how_far_the_sync_came_is_asked_without_spark(moto_server, catalog, table, glue, tmp_path):
    folder = TableFolder(tmp_path / "orders")
    lie_at(glue, table, folder.base, last_commit_time_sync="1")
    folder.commit(at("10:00:00"), at("10:00:05"), log("f", min_event=1))
    policy = Policy(
        name="o",
        table=str(folder.base),
        event_time=EventTime(column="ts"),
        data_latency_ms=1,
        sync=Sync(ro_table=table),
    )
    environment = Environment(tmp_path, lambda _: None, target=Target(catalog=settings(moto_server), storage=STORAGE))
    (lag,) = (one for one in diagnose_tables(environment, [policy]) if one.check == "catalog")
    assert (lag.status, lag.message.startswith("1 commit since")) == ("warn", True), lag.message
    lie_at(glue, table, tmp_path / "others", last_commit_time_sync="1")
    (lag,) = (one for one in diagnose_tables(environment, [policy]) if one.check == "catalog")
    assert f"`{table}` of the catalog at `{tmp_path / 'others'}`" in lag.message


def test_an_ro_table_that_is_missing(catalog):
    with pytest.raises(TableError, match="has no table") as error:
        catalog.read("lake.none")
    assert error.value.code == "ETC217"


def test_a_table_that_somebody_else_has_changed_is_tried_again(catalog, table, monkeypatch):
    """Glue knows it by the version that was read, which moto does not look at."""
    from botocore.exceptions import ClientError

    asked = {}

    def update_table(**given):
        asked.update(given)
        raise ClientError({"Error": {"Code": "ConcurrentModificationException", "Message": "x"}}, "UpdateTable")

    monkeypatch.setattr(catalog._client, "update_table", update_table)
    with pytest.raises(RetryableError, match="cannot be asked about"):
        catalog.write(table, PropertyChanges((), {"etc.event_time.threshold": "5"}))
    found = catalog._table(table)
    assert asked.get("VersionId") == found.get("VersionId")


def test_nobody_answers():
    nobody = GlueCatalog(
        CatalogSettings(type="glue", uri="http://127.0.0.1:9"), StorageSettings(region=REGION, timeout="1s")
    )
    with pytest.raises(RetryableError) as error:
        nobody.location("lake.orders")
    assert error.value.code == "ETC409"


def test_without_keys_nobody_is_asked(monkeypatch, moto_server):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(TableError) as error:
        GlueCatalog(settings(moto_server), STORAGE)
    assert error.value.code == "ETC453"


def test_without_a_region_nobody_is_asked(monkeypatch, moto_server):
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    with pytest.raises(TableError, match="no region is known") as error:
        GlueCatalog(settings(moto_server), StorageSettings())
    assert error.value.code == "ETC453"


def test_a_sync_of_a_table_that_glue_knows_starts_no_spark(moto_server, table, glue, tmp_path):
    folder = TableFolder(tmp_path / "orders")
    folder.commit(at("10:00:00"), at("10:00:01"), log("f1", 40))
    database = table.partition(".")[0]
    given = {"Name": "orders_rt", "StorageDescriptor": {"Location": f"file:{folder.base}"}}
    glue.create_table(DatabaseName=database, TableInput=given)
    lie_at(glue, table, folder.base)
    target = Target(catalog=settings(moto_server), storage=STORAGE)
    environment = Environment(project_dir=tmp_path, progress=lambda _: None, target=target)
    policy = Policy(
        name="orders",
        table=f"{database}.orders_rt",
        event_time=EventTime(column="ts"),
        data_latency_ms=1,
        sync=Sync(ro_table=table),
    )
    assert environment.locate(policy) == str(folder.base)
    result = sync_table(environment, policy, now_ms=1_767_268_800_000)
    assert result.status == "synced"
    assert environment.property_store(str(folder.base)).read(table) == dict(result.properties)
    assert result.properties["etc.event_time.policy"] == "orders"
    assert "spark" not in environment.__dict__
    assert catalog_confs(target.catalog) == {}


def test_the_tables_of_a_database_whose_names_match(catalog, table, glue, moto_server):
    database = table.partition(".")[0]
    for name, kind, location in (
        ("clicks_mor", "EXTERNAL_TABLE", "s3://lake/clicks"),
        ("lost_mor", "EXTERNAL_TABLE", ""),
        ("seen_mor", "VIRTUAL_VIEW", "s3://lake/seen"),
        ("plain", "EXTERNAL_TABLE", "s3://lake/plain"),
    ):
        one = {"Name": name, "TableType": kind, "StorageDescriptor": {"Location": location}}
        glue.create_table(DatabaseName=database, TableInput=one)
    target = Target(catalog=settings(moto_server), storage=STORAGE)
    found = dict(Environment(Path(), print, target=target).catalog_tables(database, "*_ro|*_MOR"))
    lost = found.pop(f"{database}.lost_mor")
    assert found == {f"{database}.orders_ro": "s3://lake/orders", f"{database}.clicks_mor": "s3://lake/clicks"}
    assert lost.code == "ETC211"
    with pytest.raises(RetryableError, match="cannot be asked"):
        list(catalog.tables("none", "*"))


READINGS = {
    "a table": lambda catalog: catalog.location("d.t"),
    "all tables": lambda catalog: list(catalog.tables("d", "*")),
    "a partition": lambda catalog: catalog.write_partition("d.t", "day=1", {"etc.partition.status": "done"}),
}


@pytest.mark.parametrize("lie", [*LIES, *ENDLESS, *ODD])
def test_no_lie_of_the_server_takes_longer_or_more_than_it_may(lie, monkeypatch):
    """botocore holds whatever a server sends, and waits for each part of it anew."""
    monkeypatch.setattr(bounded_http, "_MOST_BYTES", 1 << 20)
    monkeypatch.setattr(listings, "_WHOLE_REQUESTS", 2)
    with lying_store() as server, lying_store() as other:
        server.lie, server.elsewhere = lie, other.url
        storage = StorageSettings(region=REGION, timeout="1s")
        catalog, began = GlueCatalog(CatalogSettings(type="glue", uri=server.url), storage), time.monotonic()
        for reading in READINGS.values():
            try:
                assert reading(catalog) == []  # nothing in an answer says that it lacks tables
            except EtcError as error:
                assert (error.code, error.hint) != ("ETC009", None)
        assert time.monotonic() - began < 30
        assert server.sent_bytes < 64 << 20
        assert not other.requests
