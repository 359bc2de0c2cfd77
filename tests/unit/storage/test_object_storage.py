"""What object stores do that disks do not: marks of folders, pages, ranges, lost answers, keys and endpoints."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import obstore
import pytest
from obstore.exceptions import BaseError

from etc_policy.errors import EtcError, ExitCode, TableError
from etc_policy.policy.project_schema import StorageSettings
from etc_policy.storage import bounded_http, listings, object_storage
from etc_policy.storage.object_storage import CHUNK_BYTES
from etc_policy.storage.open_storage import names_beside_bad_ones, open_storage, use_storage_settings
from etc_policy.storage.port import StoreRefusedError
from tests.faulty_proxy import ENDLESS, faulty_proxy


@pytest.fixture
def bucket(s3_server):
    return s3_server.make_bucket()


@pytest.fixture
def proxy(s3_server):
    with faulty_proxy(s3_server.endpoint) as found:
        yield found


def reach(endpoint, bucket, *, timeout="30s", folder="t"):
    use_storage_settings(StorageSettings(endpoint=endpoint, timeout=timeout))
    return open_storage(f"s3://{bucket}/{folder}")


@pytest.fixture
def storage(s3_server, bucket):
    return reach(s3_server.endpoint, bucket)


@pytest.fixture
def spoiled(proxy, bucket):
    """A storage behind the proxy, which gives up soon."""
    return reach(proxy.endpoint, bucket, timeout="6s")


def test_a_document_larger_than_any_of_etc_s_is_not_fetched(storage, monkeypatch):
    """Whoever may write to the table could put an object of terabytes in its place."""
    storage.create("d", b"12345")
    monkeypatch.setattr(object_storage, "MAX_VERSION_BYTES", 4)
    with pytest.raises(OSError, match="larger than the 4 bytes"):
        storage.version("d")


def test_an_object_that_has_grown_since_it_was_listed_is_not_fetched_ahead(storage, monkeypatch):
    storage.create("f", b"12345")
    monkeypatch.setattr(object_storage, "MAX_FILE_BYTES", 4)
    storage.expect({"f": 1})
    assert storage._contents._ahead.take(storage._key("f")) is None
    assert storage.read("f") == b"12345"


def test_marks_of_folders_are_no_files(s3_server, bucket, storage):
    """Hadoop's client makes `x/` for folders, and keeps it; obstore lists it as `x`."""
    for key in ("t/", "t/.hoodie/", "t/.hoodie/timeline/", "t/p=1/", "t/p=1/q=2/", "t/empty/"):
        s3_server.client.put_object(Bucket=bucket, Key=key, Body=b"")
    for path in ("p=1/q=2/f", "p=1/q=2/none", ".hoodie/timeline/1.commit", "top"):
        storage.create(path, b"" if path.endswith("none") else b"x")
    assert sorted(storage.names("")) == [".hoodie", "empty", "p=1", "top"]
    assert (storage.list("").keys(), storage.list("p=1").keys()) == ({"top"}, set())
    assert storage.names("empty") == []
    assert (storage.info("p=1"), storage.info("empty")) == (None, None)
    assert sorted(storage.below("p=1")) == ["p=1/q=2/f", "p=1/q=2/none"]
    with storage.tree() as tree:
        assert {folder: files for folder, files in tree.read().items() if files} == {
            "": {"top": 1},
            "p=1/q=2": {"f": 1, "none": 0},
        }


def test_a_folder_of_more_than_a_page(s3_server, bucket, storage):
    count = s3_server.page + 5
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda number: storage.replace(f"p/{number}", b"x"), range(count)))
    assert s3_server.client.list_objects_v2(Bucket=bucket)["IsTruncated"]
    assert len(storage.names("p")) == len(storage.list("p")) == len(list(storage.below("p"))) == count
    with storage.tree() as tree:
        assert len(tree.read()["p"]) == count
    storage.remove_tree("p")
    with pytest.raises(FileNotFoundError):
        storage.names("p")


def test_a_listing_in_another_order_that_breaks_off_is_whole(storage, monkeypatch):
    """As of a store with folders of its own, which lists `a/` before `a-b/`: what sorts before the last name may still come."""
    for path in ("a/1", "a/2", "a-b/1", "c/1"):
        storage.create(f"p/{path}", b"x")
    breaks, real = [BaseError("list response body"), BaseError("list response body")], obstore.list

    async def in_order_of_folders(store, key, *, offset=None, chunk_size=1000):
        objects = [one for page in real(store, key) for one in page]
        for one in sorted(objects, key=lambda one: one["path"].split("/")):
            if offset is None or one["path"] > offset:
                yield [one]
                if breaks and one["path"].endswith("a/2"):
                    raise breaks.pop()

    monkeypatch.setattr(obstore, "list", in_order_of_folders)
    assert sorted(storage.below("p")) == ["p/a-b/1", "p/a/1", "p/a/2", "p/c/1"]
    assert breaks == []


LISTINGS = {
    "names": lambda storage: storage.names("p"),
    "below": lambda storage: list(storage.below("p")),
    "tree": lambda storage: storage.tree().read(),
}


def comes_to_rest(proxy):
    """Nothing is listed any further, but for what was under way."""
    until, asked = time.monotonic() + 20, -1
    while len(proxy.requests) != asked:
        assert time.monotonic() < until
        asked = len(proxy.requests)
        time.sleep(1)


@pytest.mark.parametrize("step", LISTINGS)
@pytest.mark.parametrize("kind", ENDLESS)
def test_a_listing_without_end_is_an_error_in_bounded_memory_and_time(proxy, bucket, monkeypatch, step, kind):
    """In Rust it would take all of memory, and end the process for every table."""
    monkeypatch.setattr(listings, "_MOST_ENTRIES", 20_000)
    monkeypatch.setattr(listings, "_MOST_MEMORY", 100 << 20)
    monkeypatch.setattr(listings, "_PAGE_REQUESTS", 1)
    proxy.always(kind)
    storage, began = reach(proxy.endpoint, bucket, timeout="2s"), time.monotonic()
    with pytest.raises(OSError):  # that of a page, where a busy machine is too slow for it
        LISTINGS[step](storage)
    assert time.monotonic() - began < 60
    comes_to_rest(proxy)


def test_a_listing_that_is_larger_than_any_table_s_is_too_large(storage, monkeypatch):
    for number in range(4):
        storage.replace(f"p={number}/f", b"x")
    monkeypatch.setattr(listings, "_MOST_ENTRIES", 7)
    for step in (lambda: storage.names(""), lambda: list(storage.below("")), lambda: storage.tree().read()):
        monkeypatch.setattr(listings, "_MOST_ENTRIES", 7)
        step()
        monkeypatch.setattr(listings, "_MOST_ENTRIES", 3)
        with pytest.raises(OSError, match="beyond those of any table") as found:
            step()
        assert found.value.errno == errno.EFBIG


def test_an_interrupt_ends_a_listing_without_end(proxy, bucket):
    proxy.always("empty pages")
    storage = reach(proxy.endpoint, bucket)
    timer = threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        storage.names("p")
    comes_to_rest(proxy)


@pytest.mark.parametrize("kind", ["new pages", "empty pages"])
def test_an_interrupted_command_ends_at_once(proxy, bucket, s3_variables, tmp_path, kind):
    """Whichever thread lists: Python waits for some at its end, and Rust aborts where it answers others after it."""
    proxy.always(kind)
    project = (
        "version: 1\nname: n\n"
        f'profiles: {{p: {{target: t, targets: {{t: {{storage: {{endpoint: "{proxy.endpoint}"}}}}}}}}}}\n'
    )
    policies = "version: 1\npolicies:\n" + "".join(
        f"- {{name: t{n}, table: s3://{bucket}/t{n}, event_time_column: ts, data_latency: 1h}}\n" for n in range(3)
    )
    (tmp_path / "p" / "policies").mkdir(parents=True)
    (tmp_path / "p" / "etc_project.yml").write_text(project)
    (tmp_path / "p" / "policies" / "a.yml").write_text(policies)
    command = [sys.executable, "-c", "import sys; from etc_policy.cli.main import main; sys.exit(main())", "plan"]
    process = subprocess.Popen(command, cwd=tmp_path / "p", stderr=subprocess.PIPE, text=True)
    while not proxy.requests:
        time.sleep(0.1)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said.strip().splitlines()[-1:]) == (130, ["interrupted"])


def test_a_listing_in_a_process_that_was_forked(storage):
    storage.replace("p/f", b"x")
    assert storage.names("p") == ["f"]
    listings._loop.cache_clear()  # as `os.fork` does in the child, where its thread is not
    assert storage.names("p") == ["f"]


@pytest.mark.parametrize("size", [100, 3 * CHUNK_BYTES])
@pytest.mark.parametrize("step", ["read", "version"])
def test_an_answer_that_is_longer_than_what_was_asked_is_not_held(storage, spoiled, proxy, size, step):
    storage.replace("f", b"x" * size)
    proxy.always("more than asked")
    with pytest.raises(OSError, match=r"more of .* than was asked|larger than"):
        getattr(spoiled, step)("f")
    assert proxy.sent_bytes < 128 << 20


def test_many_folders_are_listed_in_one_go(storage, monkeypatch):
    for number in range(12):
        storage.replace(f"p={number}/f", b"x")
    for path in (".hoodie/timeline/1.commit", ".net/f", "p=1/.hoodie/f"):
        storage.replace(path, b"x")
    with storage.tree() as tree:
        side_by_side = dict(tree.read())
    monkeypatch.setattr("etc_policy.storage.object_tree._MANY_FOLDERS", 3)
    with storage.tree() as tree:
        assert {**tree.read(), "": {}} == {**side_by_side, "": {}}


@pytest.mark.parametrize("key", ["t/p//f", "t/p/../f", "t/p/./f", "t/p/a\x01b"])
def test_a_name_that_is_no_path_is_named(s3_server, bucket, storage, key):
    s3_server.client.put_object(Bucket=bucket, Key=key, Body=b"x")
    if key not in s3_server.keys(bucket):
        pytest.skip("this server keeps its objects in folders, so that such a name becomes another")
    with pytest.raises(StoreRefusedError, match="has a name that cannot be a path") as error:
        storage.tree().read()
    assert "remove it" in error.value.hint


@pytest.mark.parametrize("kind", ["page without end", "silence after", "forbidden", *ENDLESS])
def test_names_beside_bad_ones_are_asked_for_within_bounds(proxy, bucket, monkeypatch, kind):
    """botocore holds whatever a server sends, and waits for each part of it anew."""
    monkeypatch.setattr(bounded_http, "_MOST_BYTES", 1 << 20)
    monkeypatch.setattr(listings, "_MOST_ENTRIES", 20_000)
    monkeypatch.setattr(listings, "_WHOLE_REQUESTS", 3)
    proxy.always(kind)
    reach(proxy.endpoint, bucket, timeout="1s")
    began = time.monotonic()
    assert names_beside_bad_ones(f"s3://{bucket}/t") is None
    assert time.monotonic() - began < 20
    assert proxy.sent_bytes < 64 << 20


def test_escaped_characters_of_a_partition_stay(s3_server, bucket, storage):
    storage.create("at=10%3A00/f", b"x")
    keys = [one["Key"] for one in s3_server.client.list_objects_v2(Bucket=bucket)["Contents"]]
    assert keys == ["t/at=10%3A00/f"]
    assert (storage.names(""), list(storage.below("at=10%3A00"))) == (["at=10%3A00"], ["at=10%3A00/f"])


def test_times_are_those_of_the_store_in_whole_seconds(storage):
    storage.create("f", b"x")
    written = storage.info("f").modified_ns
    assert written % 1_000_000_000 == 0
    assert abs(time.time() - written / 1e9) < 5


def test_a_large_file_is_read_by_ranges(storage, spoiled, proxy):
    content = os.urandom(3 * CHUNK_BYTES + 17)
    storage.replace("f", content)
    with spoiled.open("f") as opened:
        assert opened.read(10) == content[:10]
        opened.seek(2 * CHUNK_BYTES)
        assert opened.read(10) == content[2 * CHUNK_BYTES :][:10]
    assert (proxy.counts["GET"], proxy.counts["HEAD"]) == (2, 0)
    assert spoiled.read("f") == content
    storage.replace("small", b"x" * 100)
    proxy.requests.clear()
    assert spoiled.read("small") == b"x" * 100
    assert proxy.counts == {"GET": 1}


def test_a_file_that_is_replaced_while_it_is_read(storage):
    storage.replace("f", b"x" * 3 * CHUNK_BYTES)
    with storage.open("f") as opened:
        storage.replace("f", b"y" * 3 * CHUNK_BYTES)
        opened.seek(2 * CHUNK_BYTES)
        with pytest.raises(OSError, match="was replaced while it was read"):
            opened.read(1)


@pytest.mark.parametrize("fault", ["busy", "cut before", "cut after", "error after", "silence after"])
def test_an_answer_that_is_lost_does_not_look_like_defeat(spoiled, proxy, fault):
    proxy.once(fault, "PUT")
    spoiled.create("f", b"mine")
    assert spoiled.read("f") == b"mine"
    with pytest.raises(FileExistsError):
        spoiled.create("f", b"mine")


@pytest.mark.parametrize("fault", ["cut after", "cut before", "error after"])
def test_defeat_after_a_lost_answer_is_defeat(storage, spoiled, proxy, fault):
    storage.create("f", b"theirs")
    proxy.once(fault, "PUT")
    with pytest.raises(FileExistsError):
        spoiled.create("f", b"mine")
    assert storage.read("f") == b"theirs"


@pytest.mark.parametrize("fault", ["busy", "cut before", "cut in body", "slow"])
def test_what_a_second_try_mends_is_not_noticed(storage, spoiled, proxy, fault):
    for number in range(20):
        storage.replace(f"p/{number}", b"x" * 1000)
    for step, expected in (
        (lambda: spoiled.read("p/1"), b"x" * 1000),
        (lambda: len(spoiled.names("p")), 20),
        (lambda: len(list(spoiled.below("p"))), 20),
        (lambda: spoiled.info("p/1").size_bytes, 1000),
    ):
        proxy.once(fault, "HEAD" if expected == 1000 else "GET")
        assert step() == expected
    if fault != "cut in body":
        proxy.once(fault, "PUT")
        spoiled.replace("p/1", b"y")
        assert storage.read("p/1") == b"y"


STEPS = {
    "names": lambda storage: storage.names("p"),
    "tree": lambda storage: storage.tree().read(),
    "below": lambda storage: list(storage.below("p")),
    "info": lambda storage: storage.info("p/f"),
    "read": lambda storage: storage.read("p/f"),
    "create": lambda storage: storage.create("p/g", b"x"),
    "replace": lambda storage: storage.replace("p/f", b"x"),
    "remove": lambda storage: storage.remove("p/f"),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    ("fault", "code", "exit_code"),
    [
        ("busy", "ETC450", ExitCode.RETRY),
        ("cut before", "ETC450", ExitCode.RETRY),
        ("cut in body", "ETC450", ExitCode.RETRY),
        ("forbidden", "ETC452", ExitCode.ENGINE),
    ],
)
def test_a_store_that_always_fails_is_one_clear_error_in_time(moto_server, s3_variables, step, fault, code, exit_code):
    if fault == "cut in body" and step in ("info", "create", "replace", "remove"):
        return  # these answers have no body
    bucket = moto_server.make_bucket()
    reach(moto_server.endpoint, bucket).create("p/f", b"x" * 1000)
    with faulty_proxy(moto_server.endpoint) as proxy:
        proxy.always(fault)
        began = time.monotonic()
        with pytest.raises(EtcError) as found:
            STEPS[step](reach(proxy.endpoint, bucket, timeout="1s"))
    assert (found.value.code, found.value.exit_code, isinstance(found.value, OSError)) == (code, exit_code, True)
    assert time.monotonic() - began < 30
    assert "testtest" not in str(found.value)


def test_an_endpoint_that_refuses(s3_variables):
    began = time.monotonic()
    with pytest.raises(EtcError, match="does not answer") as found:
        reach("http://127.0.0.1:1", "bucket", timeout="3s").names("")
    assert (found.value.code, found.value.exit_code) == ("ETC450", ExitCode.RETRY)
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("step", STEPS)
def test_a_missing_bucket_is_no_missing_file(s3_server, step):
    if step in ("info", "remove"):
        return  # an answer to HEAD has no words; to remove what is missing is no error
    with pytest.raises(TableError, match="there is no bucket for `s3://no-such-bucket/t") as found:
        STEPS[step](reach(s3_server.endpoint, "no-such-bucket"))
    assert found.value.code == "ETC451"


def test_a_wrong_secret(versity_server, s3_variables, monkeypatch):
    bucket = versity_server.make_bucket()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-wrong-secret")
    with pytest.raises(TableError, match="refuses a request") as found:
        reach(versity_server.endpoint, bucket).read("f")
    assert found.value.code == "ETC452"
    assert "a-wrong-secret" not in f"{found.value} {found.value.hint}"


def test_the_endpoint_of_the_target_wins_over_the_environment(moto_server, s3_variables, monkeypatch):
    bucket = moto_server.make_bucket()
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    reach(moto_server.endpoint, bucket).create("f", b"x")
    assert moto_server.client.list_objects_v2(Bucket=bucket)["KeyCount"] == 1


@pytest.mark.parametrize("endpoint", ["minio:9000", "minio", "ftp://minio", "http://minio?", "https://me:minio@host"])
def test_an_endpoint_of_the_environment_that_is_no_url(s3_variables, monkeypatch, endpoint):
    """Else obstore panics at the first request."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
    with pytest.raises(TableError, match="is not the URL of a server") as error:
        reach(None, "bucket")
    assert (error.value.code, error.value.exit_code) == ("ETC207", 1)
    assert "AWS_ENDPOINT_URL_S3" in error.value.message
    assert "minio" not in f"{error.value} {error.value.hint}"


def test_the_endpoint_of_the_environment(moto_server, s3_variables, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", moto_server.endpoint)
    storage = reach(None, moto_server.make_bucket())
    storage.create("f", b"x")
    assert storage.read("f") == b"x"
