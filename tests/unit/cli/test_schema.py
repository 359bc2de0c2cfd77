"""`etc schema`, and that what the commands write fits the schemas."""

import json

import pytest
from jsonschema import Draft202012Validator

from etc_policy.policy.files import read_schemas
from etc_policy.report.schemas import DOCUMENTS, file_name, json_schema
from tests.unit.hudi.table_folder import TableFolder, at, base, log


def require_fit(name, text):
    errors = [error.message for error in Draft202012Validator(json_schema(name)).iter_errors(json.loads(text))]
    assert errors == []


def test_list(etc):
    code, out, err = etc("schema")
    assert (code, err) == (0, "")
    assert sorted(line.split()[0] for line in out.splitlines()) == sorted(DOCUMENTS)
    listed = json.loads(etc("schema", "--output", "json")[1])["schemas"]
    assert {entry["name"]: entry["file"] for entry in listed}["plan"] == "plan.v1.json"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_one(etc, name):
    assert etc("schema", name)[1] == read_schemas()[file_name(name)]


def test_an_unknown_one(etc):
    code, out, err = etc("schema", "plam")
    assert (code, out) == (64, "")
    assert "did you mean `plan`?" in err


def test_a_folder_of_them(etc, tmp_path):
    etc("schema", "--out", str(tmp_path / "schemas"))
    assert json.loads((tmp_path / "schemas" / "plan.v1.json").read_text()) == json_schema("plan")


def test_one_of_them_in_a_folder(etc, tmp_path):
    code, out, err = etc("schema", "plan", "--out", str(tmp_path / "schemas"))
    assert (code, out.split()[:2], err) == (0, ["plan", "plan.v1.json"], "")
    assert [path.name for path in (tmp_path / "schemas").iterdir()] == ["plan.v1.json"]


@pytest.fixture
def table(project):
    folder = TableFolder(project / "lake" / "orders")
    folder.commit(at("00:00:00"), at("00:00:01"), base("f"))
    folder.commit(at("00:02:00"), at("00:02:01"), log("f", min_event=1_711_846_800_123))
    return folder


def test_artifacts_fit_their_schemas(etc, project, table):
    require_fit("manifest", etc("compile", "--output", "json")[1])
    require_fit("plan", etc("plan", "--output", "json")[1])
    require_fit("freshness", etc("freshness", "--output", "json")[1])
    verification = etc("verify", "--level", "metadata", "--select", "orders_ro", "--output", "json")
    require_fit("verification", verification[1])
    require_fit("verification", etc("verify", "--level", "metadata", "--output", "json")[1])
    require_fit("history", etc("history", "payments_ro", "--output", "json")[1])
    until = ("--until", "2999-01-01", "--timeout", "0s", "--output", "json")
    require_fit("freshness", etc("wait", "*_ro", *until)[1])
    require_fit("histories", etc("history", "--select", "*_ro", "--output", "json")[1])
    for name in ("manifest", "plan", "freshness"):
        require_fit(name, (project / "target" / f"{name}.json").read_text())
