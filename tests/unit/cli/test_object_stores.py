"""Commands that need no Spark, on a table in a bucket or on HDFS: they say what they say of the same table on local disk."""

import json
import os
import re
import subprocess
import sys

import pytest

from etc_policy.hudi.layout import ETC_FOLDER
from etc_policy.policy.reading import read_own_settings
from etc_policy.run.store_lease import StoreLease
from etc_policy.storage.open_storage import open_remote_storage
from etc_policy.storage.shared_file import change_shared
from etc_policy.table.history import PLAN_ID, SEEN_UNTIL, THRESHOLD
from tests.faulty_proxy import faulty_proxy
from tests.unit.hudi.table_folder import TableFolder, at, base, log
from tests.unit.plan.plan_cases import epoch_ms

NOON = "2026-01-01T12:00:00Z"
PROJECT = """
name: warehouse
profiles:
  warehouse:
    target: disk
    targets:
      disk: {{table_root: lake}}
      store:
        table_root: "{root}"
        storage: {{endpoint: "{endpoint}", region: us-east-1, path_style: true, timeout: {timeout}}}
"""
POLICIES = """version: 1
policies:
  - name: orders_ro
    table: orders
    event_time_column: ts
    data_latency: 1h
    freshness: {target: 2h, error_after: 3h}
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project in the current folder, with a table that etc has compacted once."""
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "a.yml").write_text(POLICIES)
    monkeypatch.chdir(tmp_path)
    table = TableFolder(tmp_path / "lake" / "orders")
    table.commit(at("08:00:00"), at("08:00:05"), base("f1"))
    table.commit(at("10:35:00"), at("10:35:05"), log("f1", epoch_ms("10:30:00")))
    extra = {THRESHOLD: str(epoch_ms("10:00:00")), PLAN_ID: "x", SEEN_UNTIL: at("10:35:05")}
    table.compaction(at("10:35:05.001"), at("10:45:00"), base("f1"), extra=extra)
    table.commit(at("10:50:00"), at("10:50:05"), log("f1", epoch_ms("10:40:00")))
    table.commit(at("11:20:00"), at("11:20:05"), log("f1", epoch_ms("11:15:00")))
    return tmp_path


@pytest.fixture
def uploaded(project, moto_server, s3_variables):
    """The project with a target whose tables are in a bucket."""
    root = moto_server.upload(project / "lake", moto_server.make_bucket(), "lake")
    write_targets(project, moto_server.endpoint, root)
    return root


@pytest.fixture(params=["bucket", "hdfs"])
def root(request, project):
    """Where the tables of the project's target `store` lie."""
    if request.param == "bucket":
        return request.getfixturevalue("uploaded")
    cluster = request.getfixturevalue("hdfs_cluster")
    root = cluster.upload(project / "lake", cluster.new_folder())
    write_targets(project, "http://127.0.0.1:1", root)
    return root


def write_targets(project, endpoint, root, timeout="60s"):
    (project / "etc_project.yml").write_text(PROJECT.format(endpoint=endpoint, root=root, timeout=timeout))


COMMANDS = [
    ("compile", "--output", "json"),
    ("parse",),
    ("plan", "--at", NOON),
    ("plan", "--at", NOON, "--output", "json"),
    ("freshness", "--at", NOON, "--output", "json"),
    ("history", "orders_ro", "--output", "json"),
    ("verify", "--level", "metadata", "--at", NOON),
    ("wait", "orders_ro", "--until", "2026-01-01T09:00:00Z"),
    ("debug",),
    ("ls",),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:1] + command[-1:]))
def test_they_say_the_same_of_a_table_elsewhere(etc, project, root, command):
    local, remote = (etc(*command, "--target", target) for target in ("disk", "store"))
    for said, expected in zip(remote[1:], local[1:], strict=True):
        found = without_moments(said, root, "store").splitlines()
        assert found == without_moments(expected, f"{project}/lake", "disk").splitlines()
    assert remote[0] == local[0]
    assert "error[" not in local[2]


def without_moments(text, root, target):
    """The text without what differs from run to run and from target to target."""
    text = (
        text.replace(root, "ROOT")
        .replace(root.removeprefix("/"), "ROOT")
        .replace('"lake"', '"ROOT"')
        .replace(" lake/orders", " ROOT/orders")
    )
    text = re.sub(rf"target `{target}`|\"{target}\"|--target {target}|\b{target} of", "TARGET", text)
    text = re.sub(r"tables below \S+", "tables below ROOT", text)
    text = re.sub(r"[\d.]+ \w+ in \d+ files?( \(`etc cache)", r"KEPT\1", text)  # the first of two commands fills it
    text = re.sub(r'"(plan_id|fingerprint|policy_fingerprint|created_at|generated_at|git_sha)": "[^"]*"', "", text)
    return re.sub(r"\d\d:\d\d:\d\d\.\d+|\b[0-9a-f]{12,64}\b|\[ *[\d.]+ s\]", "MOMENT", text)


def test_a_plan_for_a_table_in_a_bucket(etc, project, uploaded):
    code, out, err = etc("plan", "--at", NOON, "--target", "store", "--output", "json")
    (table,) = json.loads(out)["tables"]
    assert (code, err, table["action"], table["base_path"]) == (0, "", "compact", f"{uploaded}/orders")


def test_etcs_own_files_are_forgotten_there_too(etc, project, root):
    etc("plan", "--at", NOON, "--target", "store")  # so that the store is known here too
    storage = open_remote_storage(f"{root}/orders")
    with StoreLease(storage):
        pass
    change_shared(f"{root}/orders", f"{ETC_FOLDER}/memory.json", lambda _: b"{}")
    before = set(storage.below(".hoodie"))
    code, _, err = etc("forget", "orders_ro", "--target", "store")
    assert (code, "memory.json" in err) == (2, True), err
    assert etc("forget", "orders_ro", "--target", "store", "--yes")[0] == 0
    assert set(storage.below(".hoodie")) == {path for path in before if not path.startswith(f"{ETC_FOLDER}/")}
    assert etc("plan", "--at", NOON, "--target", "store")[0] == 0


def test_a_table_without_partitions_is_planned_in_a_bucket(etc, project, moto_server, s3_variables):
    table = TableFolder(project / "flat" / "orders")
    table.commit(at("08:00:00"), at("08:00:05"), base("f1", partition=""))
    table.commit(at("10:35:00"), at("10:35:05"), log("f1", epoch_ms("10:30:00"), partition=""))
    root = moto_server.upload(project / "flat", moto_server.make_bucket(), "lake")
    write_targets(project, moto_server.endpoint, root)
    code, out, err = etc("plan", "--at", NOON, "--target", "store")
    assert (code, "1 to compact" in out) == (0, True), err


@pytest.mark.parametrize(("fault", "code"), [("busy", 4), ("cut before", 4), ("forbidden", 3)])
def test_a_store_that_fails_is_one_clear_error(etc, project, uploaded, moto_server, fault, code):
    with faulty_proxy(moto_server.endpoint) as proxy:
        write_targets(project, proxy.endpoint, uploaded, timeout="1s")
        proxy.always(fault)
        found, out, err = etc("history", "orders_ro", "--target", "store")
    assert (found, out, err.count("error[")) == (code, "", 1), err
    assert f"error[{'ETC450' if code == 4 else 'ETC452'}]" in err


@pytest.mark.parametrize("command", [("plan",), ("freshness",), ("history", "orders_ro"), ("debug",)])
def test_what_a_store_says_of_a_refusal_is_in_every_report(etc, project, uploaded, moto_server, command):
    with faulty_proxy(moto_server.endpoint) as proxy:
        write_targets(project, proxy.endpoint, uploaded, timeout="1s")
        proxy.always("forbidden")
        _, out, err = etc(*command, "--target", "store")
    assert "SignatureDoesNotMatch: The signature is wrong." in " ".join((out + err).split())


@pytest.mark.parametrize("command", [("plan",), ("freshness",), ("history", "orders_ro"), ("debug",)])
def test_what_the_system_says_of_a_permission_is_in_every_report(project, command):
    """Where permissions hold for root too: another user may not be let into the folder of this clone."""
    write_targets(project, "http://127.0.0.1:1", project / "lake")
    (project / "lake" / "orders" / ".hoodie").chmod(0)
    rights = "-dac_override,-dac_read_search"
    bound = ["setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}"] if os.geteuid() == 0 else []
    etc = [sys.executable, "-m", "etc_policy.cli.main"]
    asked = subprocess.run([*bound, *etc, *command], capture_output=True, text=True)
    (project / "lake" / "orders" / ".hoodie").chmod(0o755)
    said = " ".join((asked.stdout + asked.stderr).split())
    assert "Permission denied" in said, said
    assert "look at the permissions there, and as which user etc runs" in said


@pytest.mark.parametrize("command", [("plan", "--detailed-exitcode"), ("history", "orders_ro")])
def test_an_hdfs_cluster_that_is_away_is_one_clear_error(etc, project, command):
    write_targets(project, "http://127.0.0.1:1", "hdfs://127.0.0.1:1/lake", timeout="1s")
    code, _, err = etc(*command, "--target", "store")
    assert (code, err.count("error[ETC456]")) == (4, 1), err


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("endpoint: 1", "error[ETC112]"),
        ("secret_key: x", "error[ETC110]"),
        ("path_style: perhaps", "error[ETC112]"),
        ("timeout: soon", "error[ETC116]"),
    ],
)
def test_faults_of_the_storage_block_have_a_place(etc, project, line, expected):
    (project / "etc_project.yml").write_text(
        "name: warehouse\nprofiles:\n  warehouse:\n    target: dev\n    targets:\n      dev:\n"
        f"        storage:\n          {line}\n"
    )
    code, _, err = etc("parse")
    assert (code, expected in err, "etc_project.yml:8:" in err) == (1, True, True), err


@pytest.mark.parametrize(
    ("table", "storage", "expected"),
    [
        (
            "s3://lake/x",
            "endpoint: 'http://127.0.0.1:1', path_style: false",
            "before the address in `http://127.0.0.1:1`",
        ),
        ("s3://lake/x", "endpoint: 'http://[::1]:1', path_style: false", "before the address in `http://[::1]:1`"),
        ("s3://la ke/x", "endpoint: 'http://localhost:1'", "`s3://la ke/x` names no bucket"),
        ("s3://la%20ke/x", "endpoint: 'http://localhost:1', path_style: false", "names no bucket"),
        ("abfs://la[ke@account/x", "anonymous: true", "names no bucket"),
        ("gs://la ke/x", "anonymous: true", "names no bucket"),
        ("s3://xn--zzzzzzzzzz-/x", "endpoint: 'http://localhost:1', path_style: false", "PanicException"),
    ],
)
def test_what_a_store_s_library_breaks_off_at_is_that_table_s_error(
    etc, project, monkeypatch, table, storage, expected
):
    """A panic of Rust is no `Exception`: it ended every table's command, and `etc run`."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "key")
    line = f"  - {{name: bad, table: {json.dumps(table)}, event_time_column: ts, data_latency: 1h}}\n"
    (project / "policies" / "a.yml").write_text(POLICIES.replace("table: orders", "table: lake/orders") + line)
    storage = f"{{timeout: 1s, {storage}}}"
    (project / "etc_project.yml").write_text(
        f"profiles: {{p: {{target: t, targets: {{t: {{storage: {storage}}}}}}}}}\n"
    )
    code, out, err = etc("plan", "--at", "2026-01-01T12:00:00Z", "--output", "json")
    found = {one["policy"]: one["action"] for one in json.loads(out)["tables"]}
    assert found == {"orders_ro": "compact", "bad": "refused"}
    assert (code in (1, 3), "ETC009" in err, expected in err) == (True, False, True), err


@pytest.mark.parametrize("url", ["http://a:99999", "http://[::1", "http://1.2.3:1", "http://[::g]:1", "http://a:0"])
def test_a_server_that_cannot_be_is_an_error_at_its_place(etc, project, url):
    (project / "etc_project.yml").write_text(
        f"profiles:\n  p: {{target: t, targets: {{t: {{storage: {{endpoint: '{url}'}}}}}}}}\n"
    )
    code, _, err = etc("parse")
    assert (code, "etc_project.yml:2:" in err, "the URL of a server is a host" in err) == (1, True, True), err


def test_keys_are_nowhere(etc, project, uploaded, s3_variables):
    for command in COMMANDS:
        _, out, err = etc(*command, "--target", "store")
        assert "testtest" not in out + err
    written = "".join(file.read_text() for file in (project / "target").rglob("*") if file.is_file())
    assert "testtest" not in written
    assert "testtest" not in repr(read_own_settings(str(project), s3_variables, "store").target)


def test_what_is_kept_is_of_one_server_is_shown_and_is_cleared(etc, project, uploaded, moto_server, monkeypatch):
    """Another server may say other things of the same bucket, and call them the same version."""
    cache = project / "cache"
    monkeypatch.setenv("ETC_CACHE", str(cache))

    def kept():
        assert etc("plan", "--target", "store", "--at", NOON)[0] == 0
        return [one["files"] for one in json.loads(etc("cache", "--output", "json")[1])["kept"]][:2]

    copies, facts = kept()
    assert copies > 0 and facts > 0
    assert kept() == [copies, facts]
    settings = project / "etc_project.yml"
    settings.write_text(settings.read_text().replace("127.0.0.1", "localhost"))
    assert kept() == [2 * copies, 2 * facts]
    etc("cache", "clear")
    assert not [path for path in cache.rglob("*") if path.is_file()]
