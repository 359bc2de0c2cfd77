import time
from fnmatch import fnmatchcase

import pytest

from etc_policy.policy.locations import (
    Allowed,
    glob_matches,
    is_appended_to,
    is_catalog_name,
    location_fault,
    location_identity,
    resolve_location,
)
from etc_policy.policy.schema_values import require_server


@pytest.mark.parametrize(
    ("table", "resolved"),
    [
        ("lake/orders", "/project/lake/orders"),
        ("./lake//orders/", "/project/lake/orders"),
        ("../orders", "/orders"),
        ("/lake/orders", "/lake/orders"),
        ("file:/lake/orders", "file:/lake/orders"),
        ("file:/lake/../orders", "file:/orders"),
        ("file:///lake/./../orders/", "file:///orders"),
        ("file:///lake/orders", "file:///lake/orders"),
        ("file://localhost/lake/orders", "file:///lake/orders"),
        ("s3a://bucket/orders", "s3a://bucket/orders"),
        ("sales.orders", "sales.orders"),
        ("./sales.orders", "/project/sales.orders"),
        ("orders", "/project/orders"),
        ("lake/v1.2", "/project/lake/v1.2"),
        ("größe/naïve", "/project/größe/naïve"),
    ],
)
def test_tables(table, resolved):
    assert resolve_location(table, "/project") == resolved


@pytest.mark.parametrize(
    "same",
    [
        (
            "/lake/orders",
            "/lake/orders/",
            "//lake//orders",
            "/lake/x/../orders",
            "file:/lake/orders",
            "file:///lake/orders/",
        ),
        ("s3://bucket/orders", "s3a://bucket/orders/", "s3n://bucket//orders"),
        ("abfs://files@lake.dfs.core.windows.net/orders", "abfss://files@Lake.dfs.core.windows.net/orders/"),
        ("sales.orders", "Sales.ORDERS", "`sales`.`orders`"),
        ("hdfs://host:8020/orders", "HDFS://host:8020/orders", "hdfs://host/orders", "hdfs://HOST/orders"),
        ("hdfs:///orders", "hdfs:/orders/"),
    ],
)
def test_spellings_of_one_table_have_one_identity(same):
    assert len({location_identity(spelling) for spelling in same}) == 1


def test_different_tables_have_different_identities():
    tables = [
        "/a/b",
        "/a/B",
        "s3://a/b",
        "s3://b/b",
        "s3://B/b",
        "gs://a/b",
        "hdfs:///a/b",
        "hdfs://a/b",
        "hdfs://a:1/b",
        "hdfs://a:1/user/jane@corp.example/b",
        "a.b",
        "b.a",
    ]
    assert len({location_identity(table) for table in tables}) == len(tables)


@pytest.mark.parametrize("table", ["db.orders", "`my db`.orders", "_a.b1"])
def test_catalog_names(table):
    assert is_catalog_name(table)
    assert location_fault(table) is None


@pytest.mark.parametrize("table", ["orders", "db/orders", "./db.orders", "a.b.c", "1.2", "db.orders/", "file:/a.b"])
def test_what_is_no_catalog_name(table):
    assert not is_catalog_name(table)


@pytest.mark.parametrize("table", [" lake", "lake\n", "la\tke", "~/lake", "a.b.c"])
def test_what_cannot_be_found(table):
    assert location_fault(table) is not None


@pytest.mark.parametrize(
    ("table", "fault", "hint"),
    [
        ("s3://", "names no bucket", "write `s3://BUCKET/FOLDER`"),
        ("s3a:///orders", "names no bucket", "write `s3a://BUCKET/FOLDER`"),
        ("gs:/bucket/orders", "names no bucket", "write `gs://BUCKET/FOLDER`"),
        ("abfs://files/x", "names no bucket", "write `abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/FOLDER`"),
        ("ftp://host/orders", "has the scheme `ftp`, which etc cannot read", "the schemes are `file`, `hdfs`, "),
        ("S3://bucket/orders", "has the scheme `S3`, which etc cannot read", "write `s3:` in small letters"),
        ("s3://bucket/x/../orders", "has `.` or `..` in its path", "without them"),
        ("s3://bucket/./orders", "has `.` or `..` in its path", "without them"),
        ("hdfs://host/lake/../orders", "has `.` or `..` in its path", "without them"),
        ("hdfs:/lake/orders", "names no folder", "write `hdfs://HOST:PORT/FOLDER`"),
        ("hdfs://host/", "names no folder", "write `hdfs://HOST:PORT/FOLDER`"),
        ("s3://a@b/orders", "names no bucket", "write `s3://BUCKET/FOLDER`"),
        ("file://other/lake/orders", "is on another machine, `other`", "file:///FOLDER"),
        ("s3://user:hunter2@bucket/orders", "has a password in it", "environment"),
    ],
)
def test_what_no_storage_takes_is_found_by_its_text(table, fault, hint):
    found = location_fault(table)
    assert found is not None
    assert (fault in found[0], hint in found[1]) == (True, True)


@pytest.mark.parametrize(
    "table",
    [
        "s3://bucket", "s3a://bucket/a..b/.hidden", "gs://bucket/orders", "abfss://files@lake.dfs.core.windows.net/x",
        "hdfs:///orders", "hdfs://nn:8020/orders", "file:/x/../y", "file://localhost/x", "/x/../y", "../y",
    ],
)  # fmt: skip
def test_what_a_storage_takes(table):
    assert location_fault(table) is None


@pytest.mark.parametrize(
    ("base_path", "expected"),
    [
        ("hdfs://name:8020/t", True),
        ("jfs://volume/t", True),
        ("s3://b/t", False),
        ("/hdfs/t", False),
        ("file:///t", False),
    ],
)
def test_where_hudi_0_appends_to_files(base_path, expected):
    assert is_appended_to(base_path) == expected


SERVERS_LIKE_IT = (
    "http://evil.example/../minio:9000", "http://evil.example//../minio:9000", "http://evil.example/x/../../minio:9000/y",
    "http://minio:9000@evil.example", "http://evil.example#@minio:9000", "http://evil.example\\@minio:9000",
    "http://minio:9000.evil.example", "http://minio:90001", "https://minio:9000", "http://minio:9000\t.evil.example",
    "http://evil.example/%2e%2e/minio:9000", "http:///../minio:9000",
)  # fmt: skip


@pytest.mark.parametrize("server", SERVERS_LIKE_IT)
def test_no_other_server_passes_for_an_allowed_one(server):
    assert not Allowed.of(["http://minio:9000", "s3://lake"]).reaches(server)


@pytest.mark.parametrize("server", SERVERS_LIKE_IT[:6])
def test_what_programs_read_differently_names_no_server(server):
    with pytest.raises(ValueError, match="the URL of a server"):
        require_server(server)


@pytest.mark.parametrize(
    "server", ["http://minio:9000", "https://s3.eu-1.example.com/", "http://[::1]:9000", "https://gateway/s3/_x~y"]
)
def test_servers(server):
    assert require_server(server) == server
    assert Allowed.of([server]).reaches(f"{server}/below".replace("//below", "/below"))


@pytest.mark.parametrize("place", ["s3://evil/../lake", "s3a://evil/x/../../lake/t", "hdfs://evil/../lake:8020/t"])
def test_no_other_bucket_passes_for_an_allowed_one(place):
    assert not Allowed.of(["s3://lake", "hdfs://lake"]).reaches(place)


@pytest.mark.parametrize(
    ("name", "glob", "is_meant"),
    [("a[b", "a[b", True), ("a[b", "[a]*[?", True), ("ab", "a[b", False), ("ab", "a[bc]", True), ("[[", "*[", True)],
)
def test_a_bracket_that_nothing_closes_is_one(name, glob, is_meant):
    assert glob_matches(name, glob) == is_meant == fnmatchcase(name, glob)


@pytest.mark.parametrize("glob", ["[" * 400_000, "[a]" + "[a-" * 130_000, "[" + "b-a" * 130_000 + "]", "*a" * 100_000])
def test_the_time_of_a_glob_goes_by_its_length(glob):
    began = time.process_time()
    assert not glob_matches("orders", glob)
    assert time.process_time() - began < 20
