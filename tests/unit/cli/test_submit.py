"""`etc apply --submit` as it is called: what is printed, and what no job is. Nothing is submitted here."""

import json
import os
import shlex
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from etc_policy import Project
from tests.unit.cli.test_just_in_time import NOON
from tests.unit.cli.test_just_in_time import declare as declare
from tests.unit.cli.test_just_in_time import orders as orders

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


def test_a_timeout_of_nothing_is_an_error_at_its_place(etc, saved, tmp_path):
    (tmp_path / "etc_project.yml").write_text(PROJECT.replace("timeout: 5m", "timeout: 0s"))
    code, _, err = etc("plan", "--at", NOON)
    assert (code, "etc_project.yml:6:" in err) == (1, True), err


@pytest.mark.parametrize("arguments", [(), ("job.json", "--outcome"), ("--outcome", "x")])
def test_a_job_without_its_file_is_no_crash(tmp_path, arguments):
    command = [sys.executable, "-m", "etc_policy.cli.submitted", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={**os.environ}, check=False)
    assert done.returncode == 64, done.stderr
    assert "error[ETC001]" in done.stderr
    assert "Traceback" not in done.stderr
