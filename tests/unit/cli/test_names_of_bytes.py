"""A project and a policy file whose names are not UTF-8: every command works, and JSON names them as Python does."""

import json
import os
import subprocess
import sys

import pytest

from tests.unit.cli.conftest import POLICY
from tests.unit.hudi.table_folder import TableFolder, at, base

FOLDER, FILE = os.fsdecode(b"p\xff"), os.fsdecode(b"a\xfe.yml")


@pytest.fixture
def project(tmp_path, monkeypatch):
    folder = tmp_path / FOLDER
    (folder / "policies").mkdir(parents=True)
    (folder / "policies" / FILE).write_text(POLICY)
    for name in ("orders", "payments"):
        TableFolder(folder / "lake" / name).commit(at("08:00:00"), at("08:00:05"), base("f1"))
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(
    "verb",
    [
        "parse",
        "ls",
        "compile",
        "plan",
        "freshness",
        "verify --level metadata",
        "debug",
        "history orders_ro",
        "docs generate",
    ],
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_every_command_works(etc, project, verb, form):
    code, out, err = etc(*verb.split(), "--output", form)
    assert "ETC009" not in err
    assert code in (0, 1)
    out.encode()
    if form == "json":
        json.loads(out)


def test_what_is_written_names_them_exactly(etc, project):
    assert etc("compile")[0] == 0
    manifest = json.loads((project / "target" / "manifest.json").read_text())
    assert {policy["source"].split(":")[0] for policy in manifest["policies"]} == {f"policies/{FILE}"}
    assert etc("metrics", "write", "m.prom")[0] == 0
    assert "p\\\\udcff/lake/orders" in (project / "m.prom").read_text()
    assert etc("plan", "--out", os.fsdecode(b"x\xfe.json"))[0] == 0
    assert json.loads((project / os.fsdecode(b"x\xfe.json")).read_text())["tables"][0]["base_path"].endswith(
        "lake/orders"
    )


def test_a_locale_of_ascii_names_every_file(tmp_path):
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "a.yml").write_text(POLICY.replace("lake/orders", "lake/B\u00fccher"), "utf-8")
    TableFolder(tmp_path / "lake" / "B\u00fccher").commit(at("08:00:00"), at("08:00:05"), base("f1"))
    ascii_alone = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    etc = [sys.executable, "-m", "etc_policy.cli.main", "plan", "-s", "orders_ro"]
    asked = subprocess.run(etc, cwd=tmp_path, env={**os.environ, **ascii_alone}, capture_output=True)
    assert (asked.returncode, "lake/B\u00fccher" in asked.stdout.decode("utf-8")) == (0, True), asked.stderr
