from pathlib import Path

import pytest

from etc_policy.adapters.storage.door import local_path, open_storage
from etc_policy.errors import TableError


@pytest.mark.parametrize(
    ("location", "path"), [("/a/b", "/a/b"), ("file:///a/b", "/a/b"), ("file:/a/b", "/a/b"), ("lake/x", "lake/x")]
)
def test_local_locations(location, path):
    assert local_path(location) == Path(path)


@pytest.mark.parametrize("location", ["s3://b/t", "s3a://b/t", "hdfs://n/t", "gs://b/t"])
def test_object_stores_are_refused(location):
    with pytest.raises(TableError) as error:
        open_storage(location)
    assert error.value.code == "ETC207"
    assert location in error.value.message
