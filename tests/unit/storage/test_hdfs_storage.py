"""What HDFS does that disks do not: a NameNode that is away, permissions, nameservices, files at work, lost answers."""

import io
import time
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from hdfs_native import WriteOptions

from etc_policy.errors import EtcError, ExitCode, TableError
from etc_policy.policy.project_schema import StorageSettings
from etc_policy.storage import hdfs_client
from etc_policy.storage.open_storage import open_storage, use_storage_settings
from tests.hdfs_cluster.lossy_proxy import lossy_proxy

AWAY = "hdfs://127.0.0.1:1/t"
STEPS = {
    "names": lambda storage: storage.names("p"),
    "tree": lambda storage: storage.tree().read(),
    "info": lambda storage: storage.info("p/f"),
    "read": lambda storage: storage.read("p/f"),
    "create": lambda storage: storage.create("p/g", b"x"),
    "replace": lambda storage: storage.replace("p/f", b"x"),
    "remove": lambda storage: storage.remove("p/f"),
}


@pytest.fixture
def storage(hdfs_cluster):
    return open_storage(hdfs_cluster.new_folder())


def reach(location, timeout="1s"):
    use_storage_settings(StorageSettings(timeout=timeout))
    return open_storage(location)


def in_time(step, storage, seconds=10):
    """The error of a step."""
    began = time.monotonic()
    with pytest.raises(EtcError) as found:
        STEPS[step](storage)
    assert isinstance(found.value, OSError)
    assert time.monotonic() - began < seconds
    return found.value


@pytest.mark.parametrize("step", STEPS)
def test_without_a_namenode_there_is_one_clear_error_in_time(step):
    error = in_time(step, reach(AWAY))
    assert (error.code, error.exit_code) == ("ETC456", ExitCode.RETRY)
    assert error.message == f"the HDFS cluster of `{AWAY}` does not answer"


def test_a_namenode_that_hangs_is_not_waited_for(hdfs_cluster, storage):
    storage.create("p/f", b"x")
    waiting = reach(storage.location)
    with hdfs_cluster.hanging():
        errors = [in_time(step, waiting) for step in ("info", "create")]
    assert {(error.code, error.exit_code) for error in errors} == {("ETC456", ExitCode.RETRY)}
    assert "no answer within 1 s" in errors[0].cause
    assert waiting.read("p/f") == b"x"


@pytest.mark.parametrize("step", [step for step in STEPS if step != "info"])
def test_what_the_user_may_not_do_is_refused_with_the_clusters_words(hdfs_cluster, storage, monkeypatch, step):
    storage.create("p/f", b"x")
    hdfs_cluster.client.set_permission(hdfs_cluster.path(storage.location), 0o700)
    monkeypatch.setenv("HADOOP_USER_NAME", "somebody")
    error = in_time(step, open_storage(storage.location))
    assert (error.code, error.exit_code) == ("ETC457", ExitCode.ENGINE)
    assert error.cause.startswith("AccessControlException: Permission denied: user=somebody")
    assert "HADOOP_USER_NAME" in error.hint


def test_names_with_a_colon_are_refused(storage):
    with pytest.raises(TableError, match="Invalid path name") as error:
        storage.create("p/at=10:00/f", b"x")
    assert error.value.code == "ETC457"


def configure(folder, **properties):
    for name in ("core-site.xml", "hdfs-site.xml"):
        pairs = ((key.replace("__", "."), value) for key, value in properties.items())
        text = "".join(f"<property><name>{key}</name><value>{value}</value></property>" for key, value in pairs)
        (folder / name).write_text(f"<configuration>{text}</configuration>")


@pytest.mark.parametrize("location", ["hdfs://lake/{}", "hdfs:///{}"])
def test_a_nameservice_is_looked_up_in_hadoops_configuration(hdfs_cluster, storage, tmp_path, monkeypatch, location):
    storage.create("f", b"x")
    configure(
        tmp_path,
        fs__defaultFS="hdfs://lake",
        dfs__ha__namenodes__lake="a,b",
        dfs__namenode__rpc_address__lake__a="127.0.0.1:1",
    )
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    text = (tmp_path / "hdfs-site.xml").read_text().replace("rpc_address", "rpc-address")
    second = f"<property><name>dfs.namenode.rpc-address.lake.b</name><value>{hdfs_cluster.authority}</value></property>"
    (tmp_path / "hdfs-site.xml").write_text(text.replace("</configuration>", f"{second}</configuration>"))
    assert open_storage(location.format(storage.location.rpartition("/")[2])).read("f") == b"x"


def test_a_host_without_a_port_has_hdfs_own(monkeypatch):
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    error = in_time("info", reach("hdfs://no-such-host.invalid/t"))
    assert (error.code, error.exit_code) == ("ETC456", ExitCode.RETRY)


@pytest.mark.parametrize("content", ["", "<configuration></configuration>"])
def test_without_a_namenode_in_the_configuration(tmp_path, monkeypatch, content):
    (tmp_path / "core-site.xml").write_text(content)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    with pytest.raises(TableError, match="no NameNode is known for `hdfs:///t`") as error:
        open_storage("hdfs:///t")
    assert (error.value.code, "HADOOP_CONF_DIR" in error.value.hint) == ("ETC458", True)


@pytest.mark.parametrize("location", ["hdfs://n:1", "hdfs://n:1/", "hdfs://n:1/a/../b"])
def test_a_location_names_a_folder(location):
    with pytest.raises(TableError, match="names no folder on HDFS") as error:
        open_storage(location)
    assert error.value.code == "ETC207"


def test_times_are_the_namenodes_in_milliseconds(storage):
    storage.create("f", b"x")
    made = storage.info("f").modified_ns
    assert made % 1_000_000 == 0
    assert abs(time.time() - made / 1e9) < 5


def test_what_a_writer_has_not_ended_is_not_taken_for_whole(hdfs_cluster, storage, monkeypatch):
    monkeypatch.setattr(hdfs_client, "_SETTLE_SECONDS", 0.3)
    path = f"{hdfs_cluster.path(storage.location)}/f"
    writer = hdfs_cluster.client.create(path, WriteOptions(create_parent=True))
    writer.write(b"12345")
    writer.hsync()
    with pytest.raises(OSError, match="5 bytes of which 0 can be read: it is being written"):
        storage.read("f")
    writer.close()
    assert storage.read("f") == b"12345"


def test_a_large_file_is_written_and_read_in_parts(storage, monkeypatch):
    content = bytes(range(256)) * (100_000)
    storage.create("f", content)
    assert storage.read("f") == content
    storage.copy("f", "g")
    with storage.open("g") as opened:
        assert opened.seek(-1_000, io.SEEK_END) == len(content) - 1_000
        assert opened.read() == content[-1_000:]
        opened.seek(10 * len(content))
        assert opened.read() == b""
    assert sorted(storage.names("")) == ["f", "g"]


@pytest.mark.parametrize("request_name", [b"rename2", b"create", b"complete", b"mkdirs", b"delete"])
def test_an_answer_that_is_lost_does_not_look_like_defeat(hdfs_cluster, storage, request_name):
    with lossy_proxy(hdfs_cluster.port) as proxy:
        spoiled = reach(storage.location.replace(hdfs_cluster.authority, f"127.0.0.1:{proxy.port}"), "10s")
        spoiled.create("a/f", b"mine")
        proxy.lose = request_name
        spoiled.create_from("b/h", io.BytesIO(b"mine"), "a/draft")
        spoiled.replace("a/f", b"new")
        spoiled.remove("a/f")
    assert proxy.lost == 1
    assert (storage.names("a"), storage.read("b/h")) == ([], b"mine")
    with pytest.raises(FileExistsError):
        storage.create("b/h", b"theirs")


@pytest.mark.parametrize("request_name", [b"getListing", b"getFileInfo", b"getBlockLocations"])
def test_nor_is_one_to_a_reading_missed(hdfs_cluster, storage, request_name):
    storage.create("a/f", b"x")
    with lossy_proxy(hdfs_cluster.port) as proxy:
        spoiled = reach(storage.location.replace(hdfs_cluster.authority, f"127.0.0.1:{proxy.port}"), "10s")
        proxy.lose = request_name
        assert (spoiled.names("a"), list(spoiled.below("")), spoiled.read("a/f")) == (["f"], ["a/f"], b"x")
    assert proxy.lost == 1


def test_of_many_one_replaces_a_version(storage):
    tag = storage.replace_version("d", b"first", None)
    for _ in range(3):
        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(lambda _, tag=tag: storage.replace_version("d", uuid4().bytes, tag), range(8)))
        assert len([one for one in won if one is not None]) == 1
        tag = storage.version("d").tag
        assert tag in won
    assert storage.names("d.versions") == [tag]


def test_who_comes_late_replaces_nothing(storage):
    """The versions that it would have to beat are gone, so that it can make one of these names."""
    first = storage.replace_version("d", b"1", None)
    second = storage.replace_version("d", b"2", first)
    third = storage.replace_version("d", b"3", second)
    assert [storage.replace_version("d", b"late", tag) for tag in (None, first, second)] == [None, None, None]
    assert (storage.version("d").content, storage.names("d.versions")) == (b"3", [third])
    storage.remove_versions("d")
    assert storage.version("d") is None
