"""The settings that Spark is started with; Spark itself is not started here."""

import os
import re
import subprocess
import sys
import threading
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from etc_policy.errors import EngineError
from etc_policy.policy.secrets import with_hidden
from etc_policy.spark import interrupts, session
from etc_policy.spark.session import (
    DEFAULT_BUNDLE,
    _brief,
    _confs,
    _end_own_java_when_stuck,
    _end_unfit_java,
    _last_lines,
    _OwnJava,
    _without_secrets,
    java_has_died,
    may_start_java,
    session_confs,
    start_spark,
)

LOOPBACK = {"spark.driver.bindAddress", "spark.driver.host"}


@pytest.fixture(autouse=True)
def no_bundle_of_this_machine(monkeypatch, tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    (home / "bin").mkdir()
    (home / "bin" / "java").touch()  # an empty file
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.delenv("ETC_HUDI_BUNDLE", raising=False)


def test_on_one_machine_nothing_listens_on_the_network():
    confs = _confs({}, None)
    assert (confs["spark.master"], confs["spark.jars.packages"]) == ("local[2]", DEFAULT_BUNDLE)
    assert {confs[key] for key in LOOPBACK} == {"127.0.0.1"}
    assert {_confs({"spark.master": "local[*]"}, None)[key] for key in LOOPBACK} == {"127.0.0.1"}


@pytest.mark.parametrize("master", ["yarn", "spark://host:7077", "k8s://https://host"])
def test_executors_of_a_cluster_must_reach_the_driver(master):
    confs = _confs({"spark.master": master}, None)
    assert confs["spark.master"] == master
    assert LOOPBACK.isdisjoint(confs)
    assert "spark.sql.shuffle.partitions" not in confs


def test_a_cluster_on_this_machine_is_reached_over_loopback():
    confs = _confs({"spark.master": "spark://127.0.0.1:7077"}, None)
    assert {confs[key] for key in LOOPBACK} == {"127.0.0.1"}


def test_tasks_are_not_tried_twice_at_once():
    """Over what a cluster's own defaults say, by which Hudi makes no client (facts: speculation-refused)."""
    speculation = "spark.speculation"
    assert session_confs({})[speculation] == "false"
    assert session_confs({speculation: "true"})[speculation] == "true"


def test_a_cluster_s_defaults_turn_speculation_on_under_spark_submit_in_vain(monkeypatch):
    """All else that spark-submit says wins."""
    submitted = {"spark.speculation": "true", "spark.executor.memory": "9g", "spark.master": "yarn"}
    monkeypatch.setattr(session, "submitted_confs", lambda: submitted)
    confs = session._within_submit({"spark.master": "local[1]", "spark.executor.memory": "1g", **submitted})
    assert confs == {"spark.master": "yarn", "spark.speculation": "false"}


@pytest.mark.parametrize("key", ["spark.jars", "spark.jars.packages"])
def test_a_given_bundle_stays_alone(key):
    confs = _confs({key: "mine"}, None)
    assert {name: confs.get(name) for name in ("spark.jars", "spark.jars.packages")} == {
        "spark.jars": None,
        "spark.jars.packages": None,
        key: "mine",
    }


AWS = "org.apache.hadoop:hadoop-aws:3.3.4"


@pytest.mark.parametrize(
    ("given", "bundle", "jars", "packages"),
    [
        ({}, None, None, f"{DEFAULT_BUNDLE},{AWS}"),
        ({}, "a:b:1", None, f"a:b:1,{AWS}"),
        ({}, "/b.jar", "/b.jar", AWS),
        ({"spark.jars": "/mine.jar"}, None, "/mine.jar", AWS),
        ({"spark.jars.packages": "mine"}, "a:b:1", None, "mine"),
    ],
)
def test_packages_are_loaded_beside_the_bundle(given, bundle, jars, packages):
    confs = _confs(given, None, bundle, [AWS])
    assert (confs.get("spark.jars"), confs["spark.jars.packages"]) == (jars, packages)


def test_what_is_given_wins():
    given = {"spark.driver.memory": "8g", "spark.driver.host": "10.0.0.1"}
    confs = _confs(given, None)
    assert {key: confs[key] for key in given} == given


@pytest.mark.parametrize(
    "key",
    [
        "fs.s3a.secret.key",
        "fs.s3a.access.key",
        "fs.s3a.session.token",
        "fs.azure.account.key.lake.dfs.core.windows.net",
        "fs.azure.sas.container.lake.blob.core.windows.net",
        "fs.s3a.encryption.key",
        "google.cloud.auth.service.account.private.key",
        "javax.jdo.option.ConnectionPassword",
        "my.pw",
        "my.pwd",
        "service.api.key",
        "API_KEY",
        "storage.connection.string",
    ],
)
def test_secrets_are_no_arguments_of_a_process(key):
    plain = {"spark.executor.memory": "4g", "spark.hadoop.fs.s3a.endpoint": "https://s3"}
    assert _without_secrets({f"spark.hadoop.{key}": "hunter2", **plain}) == plain


@pytest.mark.parametrize(
    "url", ["jdbc:mysql://u:hunter2@db/x", "s3n://AKIA:hun/ter2@lake", "jdbc:x://db?user=u&password=hunter2"]
)
def test_passwords_in_values_are_no_arguments_of_a_process(url):
    assert _without_secrets({"spark.hadoop.x": url, "spark.hadoop.y": "hdfs://nn:8020/a@b"}) == {
        "spark.hadoop.y": "hdfs://nn:8020/a@b"
    }


def test_the_jars_of_a_repository_with_a_password_are_fetched():
    """The JVM fetches them as it starts."""
    url = "https://u:hunter2@nexus/maven"
    repository = {
        "spark.jars.repositories": url,
        "spark.jars": f"{url}/bundle.jar",
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC -Dproxy={url}",
    }
    assert _without_secrets(repository) == repository


def a_session(said):
    """One whose Java says this of a class of Hudi."""
    from py4j.protocol import Py4JError

    def for_name(*_):
        raise Py4JError(said)

    java = SimpleNamespace(lang=SimpleNamespace(Class=SimpleNamespace(forName=for_name), Thread=MagicMock()))
    return SimpleNamespace(_jvm=SimpleNamespace(java=java))


@pytest.mark.parametrize(("by_submit", "hint"), [(False, "name the bundle too"), (True, "submit with `--packages")])
def test_a_session_without_hudi_says_what_is_missing(monkeypatch, by_submit, hint):
    """Spark starts without it, and the first table was said to be damaged."""
    if by_submit:
        monkeypatch.setenv(session.STARTED_BY_SUBMIT, "1")
    else:
        monkeypatch.delenv(session.STARTED_BY_SUBMIT, raising=False)
    with pytest.raises(EngineError, match="without Hudi: no bundle is among its jars") as found:
        session._load_hudi(
            a_session("java.lang.ClassNotFoundException: org.apache.hudi.metadata.HoodieMetadataPayload")
        )
    assert (found.value.code, hint in found.value.hint) == ("ETC303", True)


def test_java_that_has_died_says_so_later():
    session._load_hudi(a_session("Answer from Java side is empty"))


def test_what_is_needed_to_start_is_no_secret():
    assert _without_secrets(_confs({}, "/trust")) == _confs({}, "/trust")


def test_the_cause_is_told_without_warnings_and_frames(tmp_path):
    log = tmp_path / "spark.log"
    log.write_text(
        "26/11/21 20:46:58 WARN Utils: Your hostname resolves to a loopback address\n"
        ":: loading settings :: url = jar:file:/ivy.jar\n\tfound org.apache.hudi#bundle;1.2.0 in central\n\t|  default  | 1 |\n"
        'Exception in thread "main" org.apache.spark.SparkException: Master must be yarn\n'
        "\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1052)\n\n"
    )
    assert _last_lines(log) == ['Exception in thread "main" org.apache.spark.SparkException: Master must be yarn']
    assert _last_lines(tmp_path / "none") == []


def test_the_log_is_never_another_file_behind_a_link(tmp_path):
    log, precious = tmp_path / "spark.log", tmp_path / "precious"
    precious.write_text("precious")
    log.symlink_to(precious)
    with pytest.raises(EngineError, match="cannot write Spark's log"):
        start_spark({}, log)
    assert precious.read_text() == "precious"
    assert _last_lines(log) == []


def test_a_log_that_cannot_be_written_is_an_error_of_its_own(tmp_path):
    """Spark was not asked: what another run has left in the log would be no cause."""
    (tmp_path / "spark.log").mkdir()
    with pytest.raises(EngineError) as error:
        start_spark({}, tmp_path / "spark.log")
    assert (error.value.code, "Is a directory" in error.value.cause) == ("ETC003", True)
    assert str(tmp_path / "spark.log") in error.value.message


@pytest.mark.parametrize(
    ("given", "is_quick"),
    [
        ({}, True),
        ({"spark.master": "local[*]"}, True),
        ({"spark.master": "yarn"}, False),
        ({"spark.driver.extraJavaOptions": "-Dmine=1"}, False),
    ],
)
def test_java_compiles_quickly_where_little_is_to_be_done(given, is_quick):
    confs = _confs(given, None)
    found = _brief(confs, given)
    assert found.pop("spark.driver.extraJavaOptions").endswith(" -XX:TieredStopAtLevel=1") == is_quick
    assert found == {key: value for key, value in confs.items() if key != "spark.driver.extraJavaOptions"}


JAVA_VARIABLES = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")


@pytest.mark.parametrize(
    ("options", "ours"), [("", 1), ("-Xmx2g -XX:+UseStringDeduplication", 1), ("-Xmx2g -XX:+UseSerialGC", 0)]
)
@pytest.mark.parametrize("name", JAVA_VARIABLES)
def test_java_is_never_given_two_collectors_of_garbage(monkeypatch, name, options, ours):
    for one in JAVA_VARIABLES:
        monkeypatch.delenv(one, raising=False)
    monkeypatch.setenv(name, options)
    assert session_confs({})["spark.driver.extraJavaOptions"].count("-XX:+UseParallelGC") == ours
    assert (
        session_confs({"spark.driver.extraJavaOptions": "-XX:+UseG1GC"})["spark.driver.extraJavaOptions"]
        == "-XX:+UseG1GC"
    )


def test_what_spark_writes_unasked_lies_in_a_folder_of_this_process_alone(tmp_path):
    """It was `derby.log` and `etc-warehouse` in the folder that all users share: another one could make a link of that name."""
    program = (
        "import os\nfrom etc_policy.spark.session import session_confs\nconfs = session_confs({})\n"
        "folder = os.path.dirname(confs['spark.sql.warehouse.dir'])\nif not os.fork():\n    raise SystemExit\nos.wait()\n"
        "print(folder, oct(os.stat(folder).st_mode & 0o777), confs['spark.driver.extraJavaOptions'], sep='\\n')"
    )
    folders = set()
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "TMPDIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        folder, mode, options = done.stdout.splitlines()
        assert (mode, f"-Dderby.system.home={folder} " in f"{options} ") == ("0o700", True)
        folders.add(folder)
    assert len(folders) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_setting_with_a_value_of_the_environment_is_a_secret_whatever_it_is_called():
    """It was an argument of Java, which `ps` shows to every user, and stood in Spark's logs and pages."""
    given = {"spark.hadoop.x.auth": "Basic KEY", "spark.hadoop.x.pin": "1234", "spark.hadoop.x.plain": "p"}
    started = _confs(with_hidden(given, {"spark.hadoop.x.auth", "spark.hadoop.x.pin", "spark.not.there"}), None)
    assert {key for key in given if key in _without_secrets(started)} == {"spark.hadoop.x.plain"}
    redacted = re.compile(started["spark.redaction.regex"])
    assert [bool(redacted.search(key)) for key in (*given, "spark.hadoop.x.pins", "my.password")] == [
        *(True, True, False),
        *(False, True),
    ]
    own = with_hidden({**given, "spark.redaction.regex": "mine"}, {"spark.hadoop.x.pin"})
    assert own["spark.redaction.regex"] == r"mine|^(?:spark\.hadoop\.x\.pin)$"


class TestJavaOfOtherJars:
    """A Java keeps the jars that it began with: for others it is ended, if it is our own and nobody uses it."""

    JARS, OTHER = ("old.jar", None), ("new.jar", None)

    @pytest.fixture
    def java(self, monkeypatch):
        """A process that ends with its input, as Java does, and has no session."""
        from pyspark import SparkContext

        with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
            gateway = SimpleNamespace(proc=process, shutdown=lambda: None)
            for name, value in (("_gateway", gateway), ("_jvm", "jvm"), ("_active_spark_context", None)):
                monkeypatch.setattr(SparkContext, name, value)
            monkeypatch.setattr(_OwnJava, "gateway", gateway)
            monkeypatch.setattr(_OwnJava, "jars", self.JARS)
            monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
            yield process

    def ended(self, java, jars):
        """Whether it has ended, and another one can be started."""
        from pyspark import SparkContext

        was_ended = _end_unfit_java({"spark.jars": jars[0]})
        state = (SparkContext._gateway, SparkContext._jvm, SparkContext._active_spark_context)
        assert was_ended == (java.poll() is not None) == (state == (None, None, None))
        return was_ended

    def test_it_is_ended(self, java):
        assert may_start_java()
        assert self.ended(java, self.OTHER)

    def test_it_stays_with_the_same_jars(self, java):
        assert not self.ended(java, self.JARS)

    def test_it_stays_while_a_session_uses_it(self, java, monkeypatch):
        monkeypatch.setattr("pyspark.SparkContext._active_spark_context", "a context")
        assert not self.ended(java, self.OTHER)

    def test_it_stays_where_somebody_else_has_started_it(self, java, monkeypatch):
        monkeypatch.setattr(_OwnJava, "gateway", None)
        assert not may_start_java()
        assert not self.ended(java, self.OTHER)

    @pytest.mark.parametrize("is_own", [True, False])
    def test_it_is_ended_as_stuck_where_it_is_our_own_alone(self, java, monkeypatch, is_own):
        """Somebody's notebook had its Java ended after a night."""
        monkeypatch.setattr(interrupts, "STUCK_SECONDS", 0.1)
        monkeypatch.setattr(interrupts, "_stuck", None)
        if not is_own:
            monkeypatch.setattr(_OwnJava, "gateway", None)
        tracker = SimpleNamespace(getActiveStageIds=list, getActiveJobsIds=list)
        _end_own_java_when_stuck(SimpleNamespace(statusTracker=lambda: tracker))
        for watch in (one for one in threading.enumerate() if one.name == "etc-stuck"):
            watch.join(10)
        assert (interrupts.why_java_ended() is not None) == is_own
        if is_own:
            java.wait(10)
        assert (java.poll() is not None) == is_own

    @pytest.mark.parametrize(
        ("active", "waits"), [([0], True), ([0, 0], True), ([2], False), ([2, 0], False), ([], False)]
    )
    def test_only_where_no_task_runs_a_stage_waits_for_executors(self, active, waits):
        """One table had all cores for good, and the stage of another that waited for them hid it."""
        stages = [SimpleNamespace(numActiveTasks=number) for number in active]
        tracker = SimpleNamespace(
            getActiveStageIds=lambda: range(len(stages)), getActiveJobsIds=list, getStageInfo=stages.__getitem__
        )
        for master, may_wait in (("yarn", True), ("local[2]", False)):
            context = SimpleNamespace(statusTracker=lambda: tracker, master=master)
            first, second = (interrupts._done(context) for _ in range(2))
            assert (first != second) == (waits and may_wait)

    def test_it_is_seen_to_have_died(self, java, monkeypatch):
        assert not java_has_died()
        java.kill()
        java.wait()
        assert java_has_died()
        monkeypatch.setattr("pyspark.SparkContext._gateway", None)
        assert not java_has_died()

    def test_one_that_has_died_is_given_up_though_its_session_could_not_be_stopped(self, java, monkeypatch):
        monkeypatch.setattr("pyspark.SparkContext._active_spark_context", "a context")
        java.kill()
        java.wait()
        assert self.ended(java, self.JARS)
