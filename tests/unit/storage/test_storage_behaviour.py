"""What every TableStorage does; a new storage joins by its name in `STORAGES`."""

import io
import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from obstore.store import MemoryStore

from etc_policy.policy.project_schema import StorageSettings
from etc_policy.storage import local
from etc_policy.storage.local import LocalStorage
from etc_policy.storage.object_storage import ObjectStorage, Stores
from etc_policy.storage.open_storage import open_storage, use_storage_settings


def on_local_disk(request):
    return LocalStorage(request.getfixturevalue("tmp_path"))


def in_memory(request):
    store = MemoryStore()
    return ObjectStorage(Stores(store, store), "lake/table", "memory:///lake/table")


def on_s3(name):
    def make(request):
        request.getfixturevalue("s3_variables")
        server = request.getfixturevalue(name)
        use_storage_settings(StorageSettings(endpoint=server.endpoint))
        return open_storage(f"s3a://{server.make_bucket()}/lake/table/")

    return make


def on_hdfs(request):
    return open_storage(request.getfixturevalue("hdfs_cluster").new_folder())


def in_a_new(fixture):
    """A bucket or container of another cloud's test server."""

    def make(request):
        return open_storage(f"{request.getfixturevalue(fixture)}/lake/table/")

    return make


#: Name -> a function of pytest's request that makes an empty storage.
STORAGES = {
    "azurite": in_a_new("azure_container"),
    "fake-gcs-server": in_a_new("gcs_bucket"),
    "hdfs": on_hdfs,
    "local": on_local_disk,
    "memory": in_memory,
    "moto": on_s3("moto_server"),
    "versitygw": on_s3("versity_server"),
}


@pytest.fixture(params=sorted(STORAGES))
def storage(request):
    return STORAGES[request.param](request)


def test_a_created_file_can_be_read_listed_and_measured(storage):
    storage.create("a/b/f", b"12345")
    assert storage.read("a/b/f") == b"12345"
    assert storage.list("a/b").keys() == {"f"}
    assert storage.list("a/b")["f"] == storage.info("a/b/f")
    assert storage.info("a/b/f").size_bytes == 5
    assert storage.list("a") == {}


def test_another_content_is_another_version(storage, monkeypatch):
    monkeypatch.setattr(local, "_AT_REST_NS", 0)
    storage.create("a/f", b"one")
    storage.create("a/g", b"")
    storage.names("a")
    before = storage.versions("a")
    assert before.keys() == {"f", "g"}
    time.sleep(0.02)
    storage.replace("a/f", b"two")
    storage.names("a")
    after = storage.versions("a")
    assert after["f"] != before["f"]
    assert after["g"] == before["g"]


def test_what_is_missing_is_not_found(storage):
    storage.create("a/f", b"")
    for read in (storage.read, storage.open, storage.list):
        with pytest.raises(FileNotFoundError):
            read("nowhere")
    assert storage.info("nowhere") is None
    assert storage.info("a/f/nowhere") is None
    with pytest.raises(FileNotFoundError):
        storage.link_or_copy("nowhere", "g")


def test_a_folder_is_not_a_file(storage):
    storage.create("a/f", b"")
    assert storage.info("a") is None
    with pytest.raises(OSError):
        storage.read("a")


def test_an_empty_file_is_a_file(storage):
    storage.create("f", b"")
    assert storage.read("f") == b""
    assert storage.info("f").size_bytes == 0


def test_what_exists_is_not_created_again(storage):
    storage.create("f", b"first")
    with pytest.raises(FileExistsError):
        storage.create("f", b"second")
    assert storage.read("f") == b"first"
    assert storage.list("").keys() == {"f"}


def test_of_many_creators_one_wins(storage):
    won = []

    def create(number):
        try:
            storage.create("f", str(number).encode())
        except FileExistsError:
            return
        won.append(number)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(create, range(8)))
    assert len(won) == 1
    assert storage.read("f") == str(won[0]).encode()
    assert storage.list("").keys() == {"f"}


def test_a_file_is_replaced_whole(storage):
    storage.replace("a/f", b"first, and longer")
    storage.replace("a/f", b"second")
    assert storage.read("a/f") == b"second"
    assert storage.list("a").keys() == {"f"}


def test_a_range_is_read(storage):
    storage.create("f", bytes(range(100)))
    with storage.open("f") as opened:
        opened.seek(40)
        assert opened.read(3) == bytes([40, 41, 42])
        opened.seek(-2, os.SEEK_END)
        assert opened.read() == bytes([98, 99])


def test_a_file_is_there_under_a_second_name(storage):
    storage.create("a/f", b"x")
    storage.link_or_copy("a/f", "b/g")
    storage.remove("a/f")
    assert storage.read("b/g") == b"x"
    storage.create("h", b"y")
    with pytest.raises(FileExistsError):
        storage.link_or_copy("h", "b/g")
    assert storage.read("b/g") == b"x"


def test_a_copy_is_whole_and_its_own(storage):
    content = os.urandom(3_000_000)
    storage.create("a/f", content)
    storage.copy("a/f", "a/.g")
    storage.remove("a/f")
    assert storage.read("a/.g") == content
    assert storage.list("a").keys() == {".g"}
    storage.create("h", b"y")
    with pytest.raises(FileExistsError):
        storage.copy("h", "a/.g")
    with pytest.raises(FileNotFoundError):
        storage.copy("nowhere", "a/i")
    assert storage.read("a/.g") == content
    assert storage.list("a").keys() == {".g"}


def test_a_file_of_any_size_is_written_from_a_stream(storage):
    in_parts = not storage.location.startswith("gs:")  # fake-gcs-server takes none
    content = os.urandom(7_000_000 if in_parts else 4_000_000)
    storage.create("draft", b"of one that was killed")
    storage.create_from("a/b/f", io.BytesIO(content), "draft")
    assert storage.read("a/b/f") == content
    with pytest.raises(FileExistsError):
        storage.create_from("a/b/f", io.BytesIO(b"x"), "draft")
    storage.remove("draft")
    storage.create_from("a/b/g", io.BytesIO(), "other/draft")
    assert (storage.read("a/b/f"), storage.read("a/b/g")) == (content, b"")
    assert storage.list("a/b").keys() == {"f", "g"}
    assert storage.info("other/draft") is None


def test_a_hard_link_is_made_or_refused(storage):
    storage.create("a/f", b"x")
    if not isinstance(storage, LocalStorage):
        with pytest.raises(OSError, match="no hard links"):
            storage.hard_link("a/f", "a/g")
        assert storage.list("a").keys() == {"f"}
        return
    storage.hard_link("a/f", "a/g")
    with pytest.raises(FileExistsError):
        storage.hard_link("a/f", "a/g")
    with pytest.raises(FileNotFoundError):
        storage.hard_link("nowhere", "a/h")
    assert storage.info("a/g") == storage.info("a/f")


def test_what_is_removed_is_gone_and_may_be_removed_again(storage):
    storage.create("a/f", b"")
    storage.remove("a/f")
    storage.remove("a/f")
    storage.remove("nowhere/f")
    assert storage.info("a/f") is None


def test_a_folder_is_removed_with_all_in_it(storage):
    storage.create("a/b/f", b"")
    storage.create("a/g", b"")
    storage.create("c/h", b"")
    storage.remove_tree("a")
    storage.remove_tree("a")
    assert storage.info("a/b/f") is None
    assert storage.info("c/h") is not None


def test_the_tree_has_every_folder_but_that_of_hudi(storage):
    for path in ("top", "a/f", "a/.g", "b/c/h", ".net/f", "b/.d/f", "b/.hoodie/f", ".hoodie/hoodie.properties"):
        storage.create(path, b"12")
    with storage.tree() as tree:
        found = {folder: files for folder, files in tree.read().items() if files}
    dotted = {".net": {"f": 2}, "b/.d": {"f": 2}}
    assert found == {"": {"top": 2}, "a": {"f": 2, ".g": 2}, "b/c": {"h": 2}, **dotted}
    with storage.tree() as tree:
        assert {folder: files for folder, files in tree.read().items() if files} == found


def test_files_are_found_by_their_names(storage, monkeypatch):
    monkeypatch.setattr(local, "_AT_REST_NS", 0)
    for path in (
        ".f.log.1",
        ".hoodie/metadata/files/.f.log.1",
        "p/q/.f.log.1",
        "p/q/.hoodie/.f.log.1",
        "p/q/f.parquet",
    ):
        storage.create(path, b"x")
    found = dict(storage.find("", lambda name: ".log." in name))
    assert sorted(found) == [".f.log.1", ".hoodie/metadata/files/.f.log.1", "p/q/.f.log.1", "p/q/.hoodie/.f.log.1"]
    assert set(dict(storage.find(".hoodie/metadata", lambda _: True))) == {".hoodie/metadata/files/.f.log.1"}
    assert list(storage.find("none", lambda _: True)) == []
    storage.replace(".f.log.1", b"y")
    now = dict(storage.find("", lambda name: ".log." in name))
    changed = {path for path, version in now.items() if version and version != found[path]}
    assert changed == ({".f.log.1"} if any(found.values()) else set())  # HDFS has no such text


@pytest.mark.parametrize("path", ["../f", "a/../../f", "/f", "a//f", ".", "a/.", "f\0", ""])
def test_a_path_stays_below_the_table(storage, path):
    for step in (lambda: storage.create(path, b""), lambda: storage.replace(path, b""), lambda: storage.remove(path)):
        with pytest.raises(ValueError, match="below a table"):
            step()


def test_names_are_any_text(storage):
    storage.create("a b/ü€'\"%", b"x")
    assert storage.list("a b").keys() == {"ü€'\"%"}
    assert storage.read("a b/ü€'\"%") == b"x"


def test_a_file_larger_than_is_asked_for_is_not_read(storage):
    storage.create("f", b"12345")
    assert storage.read("f", 5) == b"12345"
    with pytest.raises(OSError, match="larger than the 4 bytes"):
        storage.read("f", 4)


@pytest.mark.parametrize("keep", [False, True])
def test_files_that_are_expected_are_read_as_any_other(storage, keep):
    paths = [f"a/{number}" for number in range(100)]
    with ThreadPoolExecutor(32) as pool:  # HDFS takes half a second for most
        list(pool.map(storage.create, paths, (b"x" * number for number in range(100))))
    for _ in range(2):
        storage.expect({**dict.fromkeys(paths, 0), "a/gone": 0, "nowhere/f": 0}, keep=keep)
        assert [storage.read(path) for path in reversed(paths)] == [b"x" * number for number in reversed(range(100))]
        with storage.open("a/3") as opened:
            assert opened.read() == b"xxx"
        for missing in ("a/gone", "nowhere/f"):
            with pytest.raises(FileNotFoundError):
                storage.read(missing)


def test_an_expected_file_larger_than_is_asked_for_is_not_read(storage):
    storage.create("f", b"12345")
    storage.expect({"f": 5})
    with pytest.raises(OSError, match="larger than the 4 bytes"):
        storage.read("f", 4)
