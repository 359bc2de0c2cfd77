"""The command for spark-submit and the files of a job, for each kind of cluster; nothing is submitted here."""

import functools
import json
import os
import signal
import stat
import subprocess
import sys
import time

import pytest

from etc_policy.errors import EngineError, UsageError
from etc_policy.hudi.properties import parse_properties
from etc_policy.spark.session import submit_confs
from etc_policy.spark.submission import Submission

SECRET = "hunter2"


@pytest.fixture
def spark_home(tmp_path, monkeypatch):
    """A Spark whose spark-submit writes down its arguments and its settings, and ends with 7."""
    home = tmp_path / "spark"
    (home / "bin").mkdir(parents=True)
    (home / "conf").mkdir()
    (home / "conf" / "spark-defaults.conf").write_text("spark.driver.memory 9g\nspark.serializer theirs\n")
    program = home / "bin" / "spark-submit"
    program.write_text(
        f"#!{sys.executable}\n"
        "import json, os, sys\n"
        "given = sys.argv[1:]\n"
        "properties = given[given.index('--properties-file') + 1]\n"
        "seen = {'arguments': given, 'mode': os.stat(properties).st_mode, 'folder': os.stat(os.path.dirname(properties)).st_mode,"
        " 'properties': open(properties).read(), 'home': os.environ['SPARK_HOME']}\n"
        f"open({str(tmp_path / 'seen.json')!r}, 'w').write(json.dumps(seen))\n"
        "print('noise')\n"
        "if '--outcome' in given and os.environ.get('ETC_TEST_OUTCOME'):\n"
        "    open(given[given.index('--outcome') + 1], 'w').write(os.environ['ETC_TEST_OUTCOME'])\n"
        "sys.exit(int(os.environ.get('ETC_TEST_EXIT', '7')))\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.delenv("ETC_HUDI_BUNDLE", raising=False)
    return home


def submission(master, mode="client", **more):
    given = {
        "spark.master": master,
        "spark.hadoop.fs.s3a.secret.key": SECRET,
        "spark.hadoop.place": "of the environment",
    }
    return Submission("{}", submit_confs({**given, **more}, None, ["a:b:1"], mode), mode, {"spark.hadoop.place"})


@pytest.mark.parametrize(
    ("master", "mode"),
    [
        ("spark://host:7077", "client"),
        ("yarn", "client"),
        ("yarn", "cluster"),
        ("k8s://https://host:6443", "client"),
        ("k8s://https://host:6443", "cluster"),
    ],
)
def test_the_command_for_each_kind_of_cluster(spark_home, tmp_path, master, mode):
    folder = tmp_path / "submit"
    command = submission(master, mode).save(folder)
    job = str(folder / "etc_job.json")
    travels, told = ([], job) if mode == "client" else (["--files", job], "etc_job.json")
    assert command == [
        str(spark_home / "bin" / "spark-submit"),
        *("--master", master, "--deploy-mode", mode, "--name", "etc"),
        *("--properties-file", str(folder / "spark.properties")),
        *travels,
        *(str(folder / "etc_job.py"), told),
    ]
    properties = (folder / "spark.properties").read_text()
    assert "hudi-spark3.5-bundle_2.12\\:1.2.0,a\\:b\\:1" in properties
    assert SECRET not in properties
    assert "of the environment" not in properties
    assert ("spark.pyspark.driver.python" in properties) == (mode == "client")


def test_what_may_be_secret_is_not_saved(spark_home):
    assert submission("yarn").left_out == ("spark.hadoop.fs.s3a.secret.key", "spark.hadoop.place")


@pytest.mark.parametrize(("master", "word"), [("spark://host:7077", "standalone"), ("local[2]", "not a cluster")])
def test_a_driver_that_cannot_run_in_the_cluster(spark_home, master, word):
    with pytest.raises(UsageError, match=word):
        submission(master, "cluster")


def test_settings_travel_in_a_file_of_the_owner_alone_behind_those_of_the_cluster(
    spark_home, tmp_path, monkeypatch, capfd
):
    monkeypatch.setenv("ETC_TEST_OUTCOME", json.dumps({"exit_code": 1, "report": "of the job", "results": "{}"}))
    outcome = submission("yarn").run("--quiet")
    assert (outcome.exit_code, outcome.report, outcome.results) == (1, "of the job", "{}")
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert (stat.S_IMODE(seen["mode"]), stat.S_IMODE(seen["folder"])) == (0o600, 0o700)
    assert f"spark.hadoop.fs.s3a.secret.key={SECRET}\n" in seen["properties"]
    lines = seen["properties"].splitlines()
    memory = [line for line in lines if line.startswith("spark.driver.memory")]
    assert memory == ["spark.driver.memory=9g"]
    assert [line for line in lines if line.startswith("spark.serializer")] == [
        "spark.serializer=org.apache.spark.serializer.KryoSerializer"
    ]
    assert not any(SECRET in argument for argument in seen["arguments"])
    assert seen["arguments"][-1] == "--quiet"
    out, err = capfd.readouterr()
    assert (out, err) == ("", "noise\n")


def test_without_a_report_of_the_job_it_was_not_submitted(spark_home, monkeypatch):
    with pytest.raises(EngineError, match="exit code 7 before the job could report") as failed:
        submission("yarn").run()
    assert failed.value.code == "ETC356"
    monkeypatch.setenv("ETC_TEST_EXIT", "0")
    with pytest.raises(EngineError, match="exit code 0 before"):
        submission("yarn").run()


def test_of_a_driver_in_the_cluster_only_success_comes_back(spark_home, monkeypatch):
    with pytest.raises(EngineError) as failed:
        submission("yarn", "cluster").run()
    assert "the driver's log in the cluster" in failed.value.hint
    monkeypatch.setenv("ETC_TEST_EXIT", "0")
    assert submission("yarn", "cluster").run().report is None


def test_a_driver_elsewhere_is_told_nothing_of_this_machine(spark_home):
    of_here = {"spark.driver.host", "spark.driver.bindAddress", "spark.driver.extraJavaOptions"}
    confs = submission("yarn", "cluster").confs
    assert of_here.isdisjoint(confs)
    assert "spark.pyspark.driver.python" not in confs
    given = submission("yarn", "cluster", **{"spark.driver.extraJavaOptions": "-Dmine"}).confs
    assert given["spark.driver.extraJavaOptions"] == "-Dmine"


class TestDefaultsOfTheCluster:
    def test_what_may_be_secret_of_them_is_not_saved_either(self, spark_home, tmp_path):
        defaults = spark_home / "conf" / "spark-defaults.conf"
        defaults.write_text(
            f"spark.hadoop.fs.s3a.access.key  {SECRET}1\n spark.my.pass\\\n  word={SECRET}2\nspark.eventLog.enabled true\n"
        )
        given = submission("yarn")
        given.save(tmp_path / "submit")
        saved = (tmp_path / "submit" / "spark.properties").read_text()
        assert SECRET not in saved
        assert "spark.eventLog.enabled=true\n" in saved
        assert {"spark.hadoop.fs.s3a.access.key", "spark.my.password"} < set(given.left_out)

    def test_a_last_line_that_goes_on_takes_nothing_of_ours(self, spark_home, tmp_path):
        (spark_home / "conf" / "spark-defaults.conf").write_text("spark.a b\\")
        submission("yarn").save(tmp_path / "submit")
        assert parse_properties((tmp_path / "submit" / "spark.properties").read_text())["spark.a"] == "b"

    def test_bytes_that_are_no_text_are_read_as_spark_does(self, spark_home, tmp_path):
        (spark_home / "conf" / "spark-defaults.conf").write_bytes(b"spark.a caf\xe9\nspark.b c\n")
        submission("yarn").save(tmp_path / "submit")
        assert "spark.b=c\n" in (tmp_path / "submit" / "spark.properties").read_text()


@pytest.mark.parametrize(("content", "mode", "why"), [("", 0o600, "Permission denied"), ("\0", 0o700, "Exec format")])
def test_a_program_that_cannot_be_run(spark_home, content, mode, why):
    program = spark_home / "bin" / "spark-submit"
    program.write_text(content)
    program.chmod(mode)
    with pytest.raises(EngineError, match="cannot be run") as failed:
        submission("yarn").run()
    assert (failed.value.code, why in failed.value.cause) == ("ETC356", True)


@pytest.mark.parametrize("written", ["", "{", "[]", '{"exit_code": "x"}', '{"other": 1}'])
def test_an_outcome_that_is_not_whole_is_none(spark_home, monkeypatch, written):
    monkeypatch.setenv("ETC_TEST_OUTCOME", written or " ")
    with pytest.raises(EngineError, match="before the job could report"):
        submission("yarn").run()


SUBMITTER = """
import os
from etc_policy.spark.submission import Submission
Submission("{}", {"spark.master": "yarn", "spark.my.password": "hunter2"}).run()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_ended_by_a_scheduler_it_leaves_neither_the_job_nor_its_settings(spark_home, tmp_path, number):
    """The signal goes to the submitting process alone, as that of a scheduler may."""
    program, started, scratch = spark_home / "bin" / "spark-submit", tmp_path / "started", tmp_path / "scratch"
    scratch.mkdir()
    program.write_text(f"#!/bin/sh\necho $$ > {started}.new && mv {started}.new {started}\nexec sleep 60\n")
    environment = {**os.environ, "TMPDIR": str(scratch)}
    heed = functools.partial(signal.signal, number, signal.SIG_DFL)  # under `nohup` these tests ignore it
    with subprocess.Popen([sys.executable, "-c", SUBMITTER], env=environment, preexec_fn=heed) as process:
        until = time.monotonic() + 20
        while not started.exists() and time.monotonic() < until:
            time.sleep(0.05)
        job = int(started.read_text())
        assert len(list(scratch.glob("etc-submit-*/spark.properties"))) == 1
        process.send_signal(number)
        assert process.wait(timeout=20) == 128 + number
    assert list(scratch.glob("etc-submit-*")) == []
    with pytest.raises(ProcessLookupError):
        os.kill(job, 0)
