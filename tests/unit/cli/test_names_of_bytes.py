"""A project and a policy file whose names are not UTF-8: every command works, and JSON names them as Python does."""

import json
import os

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
