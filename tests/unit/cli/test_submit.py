"""`etc apply --submit` as it is called: what is printed, and what no job is. Nothing is submitted here."""

import json
import os
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET
from datetime import datetime
from pathlib import Path

import pytest

from etc_policy import Project
from etc_policy.cli.main import main
from tests.unit.cli.test_just_in_time import NOON
from tests.unit.cli.test_just_in_time import declare as declare
from tests.unit.cli.test_just_in_time import orders as orders
from tests.unit.hudi.table_folder import OF_HUDI_0, TableFolder, at, base, log

PROJECT = """name: warehouse
profiles:
  warehouse:
    target: dev
    targets:
      dev: {spark: {master: yarn, confs: {spark.my.password: "{{ env_var('KEY_OF_TEST') }}"}, timeout: 5m}}
"""


@pytest.fixture
def saved(etc, declare, tmp_path, monkeypatch):
    """A saved plan of a project whose target has a secret."""
    monkeypatch.setenv("KEY_OF_TEST", "hunter2")
    (tmp_path / "etc_project.yml").write_text(PROJECT)
    assert etc("plan", "--at", NOON, "--out", "plan of noon.json")[0] == 0
    return "plan of noon.json"


@pytest.mark.parametrize("times", [1, 2])
def test_a_program_gets_the_command_as_json(etc, saved, tmp_path, times):
    for _ in range(times):
        code, out, err = etc("apply", saved, "--submit", "--dry-run", "--output", "json")
    found = json.loads(out)
    assert (code, found["left_out"]) == (0, ["spark.my.password"]), err
    assert found["command"][-1] == "target/submit/etc_job.json"
    assert shlex.split(etc("apply", saved, "--submit", "--dry-run")[1]) == found["command"]
    assert "hunter2" not in "".join(one.read_text() for one in (tmp_path / "target" / "submit").iterdir())


SECRET_SETTINGS = {
    "spark.executorEnv.API_KEY": "hunter2",
    "spark.my.pw": "hunter2",
    "spark.my.pwd": "hunter2",
    "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:mysql://u:hunter2@db/hive",
    "spark.hadoop.other.url": "jdbc:mysql://db/hive?user=u&password=hunter2",
    "spark.hadoop.aws": "s3n://AKIA:hun/ter2@lake/x",
}


def test_what_may_be_secret_is_in_no_file_that_stays(etc, saved, tmp_path, monkeypatch):
    """By its name, by a password in its value, or because it comes from the environment, the catalog's address too."""
    monkeypatch.setenv("METASTORE", "thrift://u:hunter2@metastore:9083")
    confs = json.dumps({**SECRET_SETTINGS, "spark.hadoop.place": "hdfs://nn:8020/a@b"})
    catalog = "{type: hive, uri: \"{{ env_var('METASTORE') }}\"}"
    target = f"dev: {{spark: {{master: yarn, confs: {confs}}}, catalog: {catalog}}}"
    (tmp_path / "etc_project.yml").write_text(PROJECT[: PROJECT.index("dev: {spark")] + target + "\n")
    code, out, err = etc("apply", saved, "--submit", "--dry-run", "--output", "json")
    left_out = sorted([*SECRET_SETTINGS, "spark.hadoop.hive.metastore.uris"])
    assert (code, json.loads(out)["left_out"]) == (0, left_out), err
    written = "".join(one.read_text() for one in (tmp_path / "target" / "submit").iterdir())
    assert not {word for word in ("hunter2", "ter2", "metastore:9083") if word in written}
    assert "nn\\:8020/a@b" in written or "nn:8020/a@b" in written


def test_the_command_to_copy_is_printed_as_it_is(etc, saved, tmp_path, monkeypatch):
    """Paths in other texts are shown from the current folder."""
    settings = tmp_path / "etc_project.yml"
    settings.write_text(PROJECT.replace("yarn", '"spark://master.example:7077"'))
    monkeypatch.chdir("/")
    given = ("apply", str(tmp_path / saved), "--project-dir", str(tmp_path), "--submit", "--dry-run")
    code, out, err = etc(*given)
    assert (code, shlex.split(out)) == (0, json.loads(etc(*given, "--output", "json")[1])["command"]), err
    assert "--master spark://master.example:7077" in out


def test_a_job_from_python_is_that_of_the_command(etc, saved, tmp_path):
    noon = datetime.fromisoformat(NOON)
    command = json.loads(etc("apply", saved, "--at", NOON, "--submit", "--dry-run", "--output", "json")[1])["command"]
    files = tmp_path / "target" / "submit"
    with Project(tmp_path, target_dir="target") as project:
        made = [project.submit(saved, at=noon), project.submit(project.plan(at=noon), at=noon), project.submit(at=noon)]
        assert project.submit(saved, at=noon, confirm=lambda _: False) is None
    for job in made:
        before = (files / "etc_job.json").read_text()
        assert job.save(Path("target") / "submit") == command
        assert (files / "etc_job.json").read_text() == before


@pytest.mark.parametrize(("also", "release"), [((), "0.15.0"), (("v9",), "1.2.0")])
def test_a_job_has_the_release_of_its_tables_or_the_usual_one(tmp_path, monkeypatch, also, release):
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    policies = ""
    for name in ("v6", "old", *also):
        old = {"version": 6, "properties": OF_HUDI_0} if name != "v9" else {}
        TableFolder(tmp_path / name, **old).commit(at("08:00:00"), at("08:00:05"), base("f1"), log("f1", 5))
        policies += (
            f"  - {{name: {name}, table: {tmp_path / name}, event_time_column: ts, data_latency: 1h,\n"
            "     strategy: {granularity: file_slice}, verify: {level: metadata}}\n"
        )
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "all.yml").write_text(f"version: 1\npolicies:\n{policies}")
    with Project(tmp_path) as project:
        plan = project.plan()
    assert {one.action for one in plan.tables} == {"compact"}
    with Project(tmp_path) as project:
        job = project.submit(plan)
    assert job.confs["spark.jars.packages"].endswith(f"hudi-spark3.5-bundle_2.12:{release}")


def test_a_timeout_of_nothing_is_an_error_at_its_place(etc, saved, tmp_path):
    (tmp_path / "etc_project.yml").write_text(PROJECT.replace("timeout: 5m", "timeout: 0s"))
    code, _, err = etc("plan", "--at", NOON)
    assert (code, "etc_project.yml:6:" in err) == (1, True), err


#: What spark-submit does with a Python file on this machine, without its Spark.
SPARK_SUBMIT = """#!/bin/sh
while [ "${1%%/etc_job.py}" = "$1" ]; do shift; done
exec %s "$@"
"""
DECLARED = """version: 1
policies:
  - name: orders_ro
    table: lake/orders
    event_time_column: ts
    data_latency: 1h
    verify: {level: metadata}
"""
TARGET = "name: p\nprofiles: {p: {target: d, targets: {d: {spark: {master: yarn, deploy_mode: MODE}}}}}\n"


class TestFormsOfCi:
    @pytest.fixture
    def etc(self, capfd):
        """As the usual one, but a process that is started here can print too."""

        def run(*arguments):
            code = main(arguments)
            captured = capfd.readouterr()
            return code, captured.out, captured.err

        return run

    @pytest.fixture
    def table(self, tmp_path, monkeypatch):
        """A table with nothing due in a project, and a spark-submit that runs the job itself."""
        program = tmp_path / "spark" / "bin" / "spark-submit"
        program.parent.mkdir(parents=True)
        program.write_text(SPARK_SUBMIT % sys.executable)
        program.chmod(0o755)
        monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
        monkeypatch.chdir(tmp_path)
        (tmp_path / "policies").mkdir()
        (tmp_path / "policies" / "a.yml").write_text(DECLARED)
        (tmp_path / "etc_project.yml").write_text(TARGET.replace("MODE", "client"))
        table = TableFolder(tmp_path / "lake" / "orders")
        table.commit(at("08:00:00"), at("08:00:05"), base("f1"))
        return table

    def test_they_have_what_the_job_did(self, etc, table):
        etc("plan", "--out", "p.json")
        code, out, err = etc("apply", "p.json", "--submit", "--junit-xml", "j.xml", "--summary", "s.md", "--github")
        assert (code, "nothing due" in out) == (0, True), err
        cases = [(case.get("classname"), case.get("name")) for case in ET.parse("j.xml").iter("testcase")]
        assert cases[0] == ("orders_ro", "apply")
        assert len(cases) > 1
        assert f"{len(cases)} pass" in Path("s.md").read_text()

    def test_what_is_selected_of_a_plan_is_the_job(self, etc, table):
        other = DECLARED.replace("orders", "payments")
        Path("policies/b.yml").write_text(other)
        TableFolder(Path("lake/payments").absolute()).commit(at("08:00:00"), at("08:00:05"), base("f1"))
        etc("plan", "--out", "p.json")
        code, out, err = etc("apply", "p.json", "--submit", "--select", "payments_ro", "--output", "json")
        assert (code, [one["policy"] for one in json.loads(out)["tables"]]) == (0, ["payments_ro"]), err

    def test_a_table_that_was_not_done_is_an_error_at_its_place(self, etc, table):
        etc("plan", "--out", "p.json")
        table.commit(at("09:00:00"), at("09:00:05"), base("f2"))
        properties = Path("lake/orders/.hoodie/hoodie.properties")
        properties.write_text(properties.read_text() + "hoodie.some.new.key=1\n")
        code, _, err = etc("apply", "p.json", "--submit", "--github")
        assert code == 4
        assert any(line.startswith("::error file=policies/a.yml,line=3,") for line in err.splitlines()), err

    def test_a_job_that_ends_without_results_is_an_error(self, etc, table):
        etc("plan", "--out", "p.json")
        ended = json.dumps({"exit_code": 3, "report": "", "results": None})
        Path("spark/bin/spark-submit").write_text(
            f"#!/bin/sh\nwhile [ $1 != --outcome ]; do shift; done\necho '{ended}' >$2; exit 3\n"
        )
        assert etc("apply", "p.json", "--submit", "--summary", "s.md")[0] == 3
        assert "the job ended with exit code 3; its own messages say why" in Path("s.md").read_text()

    @pytest.mark.parametrize(("mode", "more"), [("cluster", ()), ("client", ("--dry-run",))])
    @pytest.mark.parametrize("form", ["--junit-xml=j.xml", "--summary=s.md", "--github"])
    def test_where_no_result_comes_back_they_are_refused(self, etc, table, mode, more, form):
        Path("etc_project.yml").write_text(TARGET.replace("MODE", mode))
        etc("plan", "--out", "p.json")
        code, out, err = etc("apply", "p.json", "--submit", form, *more)
        assert (code, out) == (64, "")
        assert f"error[ETC001]: there is nothing to report by `{form.partition('=')[0]}`: " in err
        assert not Path("j.xml").exists()


@pytest.mark.parametrize("arguments", [(), ("job.json", "--outcome"), ("--outcome", "x")])
def test_a_job_without_its_file_is_no_crash(tmp_path, arguments):
    command = [sys.executable, "-m", "etc_policy.cli.submitted", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={**os.environ}, check=False)
    assert done.returncode == 64, done.stderr
    assert "error[ETC001]" in done.stderr
    assert "Traceback" not in done.stderr
