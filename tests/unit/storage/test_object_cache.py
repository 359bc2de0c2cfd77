"""Copies on this machine, and fetching ahead."""

import os
import threading
import time

import pytest

from etc_policy.policy.project_schema import StorageSettings
from etc_policy.storage import remote_files
from etc_policy.storage.object_cache import MAX_FILE_BYTES, ObjectCache, cache_folder
from etc_policy.storage.open_storage import open_storage, use_storage_settings
from etc_policy.storage.remote_files import ReadAhead
from tests.faulty_proxy import faulty_proxy


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


def entries(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_what_was_kept_is_found_by_another_process(folder):
    ObjectCache(folder).put("k", b"content")
    assert (ObjectCache(folder).get("k"), ObjectCache(folder).get("other")) == (b"content", None)
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("damage", [b"", b"x", None, "link", "of another key"])
def test_damaged_and_foreign_entries_are_ignored_and_replaced(folder, damage, tmp_path):
    cache = ObjectCache(folder)
    cache.put("k", b"content")
    (entry,) = entries(folder)
    if damage is None:
        entry.write_bytes(entry.read_bytes()[:-1])
    elif damage == "link":
        os.rename(entry, tmp_path / "elsewhere")
        entry.symlink_to(tmp_path / "elsewhere")
    elif damage == "of another key":
        cache.put("other", b"content")
        other = next(path for path in entries(folder) if path != entry)
        os.replace(other, entry)
    else:
        entry.write_bytes(damage)
    assert cache.get("k") is None
    cache.put("k", b"content")
    assert cache.get("k") == b"content"


def test_what_anybody_may_write_is_not_believed(folder):
    cache = ObjectCache(folder)
    cache.put("k", b"content")
    (entry,) = entries(folder)
    entry.chmod(0o666)
    assert cache.get("k") is None


def test_it_is_bounded_and_the_oldest_go(folder):
    cache = ObjectCache(folder, max_bytes=10_000)
    for number in range(40):
        cache.put(str(number), b"x" * 1_000)
        for path in entries(folder):
            os.utime(path, ns=(0, path.stat().st_mtime_ns - 1_000_000_000))
    assert sum(path.stat().st_size for path in entries(folder)) <= 11_100
    assert (cache.get("39"), cache.get("0")) == (b"x" * 1_000, None)
    cache.put("large", b"x" * (MAX_FILE_BYTES + 1))
    assert cache.get("large") is None


def test_small_entries_count_as_what_they_take_on_disk(folder):
    """Nine thousand of a hundred bytes are a megabyte, and take 38."""
    cache = ObjectCache(folder, max_bytes=100_000)
    for number in range(60):
        cache.put(str(number), b"x" * 100)
        on_disk = sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
        assert on_disk <= 100_000 + 4_096
    assert cache.get("59") is not None


def test_what_else_is_kept_in_the_folder_is_not_counted_and_stays(folder):
    (folder / "tables" / "objects").mkdir(parents=True)
    others = [folder / "packages.lock", folder / "tables" / "objects" / "one"]
    for path in others:
        path.write_bytes(b"x" * 20_000)
        os.utime(path, (0, 0))
    cache = ObjectCache(folder, max_bytes=20_000)
    for number in range(3):
        cache.put(str(number), b"x" * 1_000)
    assert cache.get("0") == b"x" * 1_000
    assert all(path.exists() for path in others)


def test_a_folder_that_cannot_be_written_is_no_cache(tmp_path):
    (tmp_path / "file").write_text("")
    cache = ObjectCache(tmp_path / "file" / "cache")
    cache.put("k", b"content")
    assert cache.get("k") is None


def test_it_is_in_the_users_own_folder():
    assert str(cache_folder({"HOME": "/home/x"})) == "/home/x/.cache/etc-policy"
    assert str(cache_folder({"HOME": "/home/x", "XDG_CACHE_HOME": "/c"})) == "/c/etc-policy"
    assert cache_folder({}) is None
    assert str(cache_folder({"HOME": "/home/x", "ETC_CACHE": "/other"})) == "/other"
    assert cache_folder({"HOME": "/home/x", "ETC_CACHE": "off"}) is None


def test_kept_files_are_asked_for_once_and_others_each_time(moto_server, s3_variables):
    bucket = moto_server.make_bucket()
    paths = dict.fromkeys((f"timeline/{number}" for number in range(20)), 0)
    with faulty_proxy(moto_server.endpoint) as proxy:
        use_storage_settings(StorageSettings(endpoint=proxy.endpoint))
        for path in paths:
            open_storage(f"s3://{bucket}/t").replace(path, path.encode())
        gets = []
        for keep in (True, True, False):
            proxy.requests.clear()
            storage = open_storage(f"s3://{bucket}/t")
            assert len(storage.names("timeline")) == 20
            storage.expect(paths, keep=keep)
            assert [storage.read(path) for path in paths] == [path.encode() for path in paths]
            gets.append(sum("/t/timeline/" in path for _, path in proxy.requests))
        assert gets == [20, 0, 20]


def test_a_file_that_was_replaced_is_another_file(moto_server, s3_variables):
    use_storage_settings(StorageSettings(endpoint=moto_server.endpoint))
    location = f"s3://{moto_server.make_bucket()}/t"
    for content in (b"first", b"other"):
        storage = open_storage(location)
        storage.replace("timeline/f", content)
        storage.expect({"timeline/f": 0}, keep=True)
        assert storage.read("timeline/f") == content


def test_files_are_fetched_side_by_side_and_not_too_far_ahead(monkeypatch):
    monkeypatch.setattr(remote_files, "_AHEAD", 8)
    all_begun = threading.Barrier(8, timeout=60)
    begun = []

    def fetch(path):
        begun.append(path)
        all_begun.wait()  # breaks unless eight are under way together
        return path.encode()

    ahead = ReadAhead(fetch)
    ahead.expect({str(number): 0 for number in range(8)} | {"later": 0})
    while len(begun) < 8:
        time.sleep(0.01)
    assert "later" not in begun
    all_begun_again = [ahead.take(str(number)) for number in range(7)]
    assert all_begun_again == [str(number).encode() for number in range(7)]
    assert ahead.take("0") is None
    all_begun.abort()


def test_large_files_are_not_held_together(monkeypatch):
    monkeypatch.setattr(remote_files, "_AHEAD_BYTES", 10)
    begun = []
    ahead = ReadAhead(lambda path: begun.append(path) or b"x")
    ahead.expect({"a": 9, "b": 9, "c": 9})
    time.sleep(0.1)
    assert sorted(begun) == ["a", "b"]
    for path in ("a", "b", "c"):
        assert ahead.take(path) == b"x"


def test_what_fetching_raises_comes_where_the_file_is_read():
    def fetch(path):
        raise FileNotFoundError(path)

    ahead = ReadAhead(fetch)
    ahead.expect({"a": 0})
    with pytest.raises(FileNotFoundError):
        ahead.take("a")
