"""What is found beside names that are no paths, and what Google's and Azure's stores may answer: they may lie."""

import threading
import time
import urllib.error
import urllib.request

import pytest

from etc_policy.errors import EtcError
from etc_policy.hudi.discovery import find_tables
from etc_policy.policy.project_schema import StorageSettings
from etc_policy.storage import bounded_http, listings, names_beside
from etc_policy.storage.open_storage import names_beside_bad_ones, open_storage, use_storage_settings
from etc_policy.storage.port import BadNameError
from tests.lying_store import CLOUDS, ENDLESS, LIES, lying_store, reach

NAMES = ["/x", "../x", "./x", "a/f", "b&<>'\"/f", "c d/é/f", "e%2Ff", "f", "g\n/f", "\x7f"]


@pytest.fixture
def store():
    with lying_store() as one:
        yield one


@pytest.fixture(params=CLOUDS)
def location(request, store, monkeypatch):
    use_storage_settings(StorageSettings(timeout="1s", instance_role=True))
    return reach(store, request.param, monkeypatch)


def assert_found(location):
    with pytest.raises(BadNameError):
        open_storage(location).names("")
    found = names_beside_bad_ones(location)
    assert found == ({"a", "b&<>'\"", "c d", "e%2Ff", "f"}, 5)


def test_the_other_names_are_found(cloud_keys):
    for name in NAMES:
        assert cloud_keys.put(f"t/{name}", b"x")
    assert_found(f"{cloud_keys.location}/t")


def test_so_they_are_on_the_server_of_these_tests(store, location):
    """The lies below are told by a server that is known to be read as the real ones are."""
    store.pages = [NAMES[:4], NAMES[4:]]
    assert_found(location)


def test_bad_names_cost_no_request_each(store, location):
    store.pages = [[f"\x7f{page}-{n}" for n in range(1_000)] for page in range(4)] + [["a/f"]]
    found = names_beside_bad_ones(location)
    assert (found.names, found.bad, len(store.requests)) == ({"a"}, 4_000, 5)
    error = next(find_tables(location, ["*"]))
    assert isinstance(error, BadNameError)
    assert error.message == f"4,000 names in `{location}` cannot be parts of a path, and are left out"


@pytest.fixture
def tight(monkeypatch):
    monkeypatch.setattr(bounded_http, "_MOST_BYTES", 1 << 20)
    monkeypatch.setattr(listings, "_MOST_ENTRIES", 20_000)
    monkeypatch.setattr(listings, "_PAGE_REQUESTS", 1)


@pytest.mark.parametrize("lie", [*LIES, *ENDLESS])
def test_no_lie_takes_names_beside_bad_ones_out_of_bounds(store, location, tight, lie):
    with lying_store() as other:
        store.lie, store.elsewhere = lie, other.url
        began, threads = time.monotonic(), threading.active_count()
        assert names_beside_bad_ones(location) is None
        assert time.monotonic() - began < 10
        assert store.sent_bytes < 64 << 20
        assert not other.requests  # of this process no redirect is followed
        store.lie = ""
        assert threading.active_count() - threads < 10


@pytest.mark.parametrize("lie", [*LIES, *ENDLESS])
def test_no_lie_takes_a_reading_out_of_bounds(store, location, tight, lie):
    with lying_store() as other:
        store.lie, store.elsewhere = lie, other.url
        storage, began = open_storage(location), time.monotonic()
        for step in (lambda: storage.names(""), lambda: storage.tree().read(), lambda: storage.read("f")):
            with pytest.raises((OSError, EtcError)):
                step()
        assert time.monotonic() - began < 30
        assert store.keys
        assert not other.keys  # obstore follows redirects, without keys


def test_a_proxy_of_the_environment_gets_no_key(store, location, monkeypatch):
    """It would get the requests that obstore has signed for this process, without TLS."""
    with lying_store() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        store.pages = [["a/f"]]
        assert names_beside_bad_ones(location) is None
        monkeypatch.setenv("no_proxy", "localhost,127.0.0.1")
        assert names_beside_bad_ones(location) == ({"a"}, 0)
        assert not proxy.requests


def test_nobody_else_on_the_machine_is_answered(store):
    bounds = listings.ListingBounds("gs://bucket/t", 1)
    relayed, refused = names_beside._relay(store.url, names_beside._GOOGLE_NAME, 1, bounds), urllib.error.HTTPError
    with relayed as relay, pytest.raises(refused, match="403"):
        urllib.request.urlopen(f"{relay.url}/bucket?prefix=t/")
    assert not store.requests
