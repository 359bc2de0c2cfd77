"""What the check before the commit reads back decides, not only that its own writing has won."""

import pytest

from etc_policy.errors import EngineError
from etc_policy.run.lease_document import LeaseDocument
from etc_policy.run.lock_holder import Owner
from etc_policy.run.store_lease import StoreLease
from etc_policy.storage.port import Version


class OneDocument:
    """A storage of documents in memory; `then` happens once a version was replaced, before it is answered."""

    location, orders_writers = "hdfs://n:1/t", True

    def __init__(self):
        self._documents, self.then = {}, lambda: None

    def version(self, path):
        return self._documents.get(path)

    def replace_version(self, path, content, tag):
        found = self._documents.get(path)
        if (found and found.tag) != tag:
            return None
        self._documents[path] = Version(content, str(int(tag or 0) + 1), 0)
        then, self.then = self.then, lambda: None
        then()
        return str(int(tag or 0) + 1)

    def remove_versions(self, path):
        self._documents.pop(path, None)

    def info(self, path):
        return None


def taken_over(storage):
    owner = Owner(storage.location, host="another-machine", boot="b", process=1, token="t")
    (path,) = storage._documents
    assert storage.replace_version(path, LeaseDocument(owner, 60.0).as_bytes(), storage.version(path).tag)


@pytest.mark.parametrize("how", ["taken over", "removed"])
def test_a_lease_that_goes_before_the_answer_is_there_is_lost(how):
    storage = OneDocument()
    with StoreLease(storage) as lease:
        lease.require_alive("20260101000000000")
        storage.then = lambda: taken_over(storage) if how == "taken over" else storage._documents.clear()
        with pytest.raises(EngineError, match="was lost; nothing was committed") as error:
            lease.require_alive("20260101000000000")
    assert error.value.code == "ETC307"
