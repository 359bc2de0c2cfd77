from pathlib import Path

import pytest

from etc_policy.errors import TableError, install_hint
from etc_policy.storage.open_storage import local_path, open_storage


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/a/b", "/a/b"),
        ("file:///a/b", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file://localhost/a/b", "/a/b"),
        ("lake/x", "lake/x"),
    ],
)
def test_local_locations(location, path):
    assert local_path(location) == Path(path)


@pytest.mark.parametrize(
    "location", ["viewfs://n/t", "wasb://c@a/t", "memory://t", "hdfs:/t", "dbfs:/t", "file://host/t", "S3://b/t"]
)
def test_what_only_java_reaches_is_refused(location):
    with pytest.raises(TableError) as error:
        open_storage(location)
    assert error.value.code == "ETC207"
    assert location in error.value.message


@pytest.mark.parametrize("location", ["s3://b/t", "s3a://b/t", "gs://b/t", "abfs://c@a/t"])
def test_a_folder_on_this_machine_is_not_on_an_object_store(location):
    with pytest.raises(TableError, match="does not work on an object store yet") as error:
        local_path(location)
    assert error.value.code == "ETC207"


def test_without_obstore_object_stores_are_not_read(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(TableError, match="obstore is needed to read `s3://b/t`") as error:
        open_storage("s3://b/t")
    assert (error.value.code, error.value.hint == install_hint("object-stores")) == ("ETC454", True)
