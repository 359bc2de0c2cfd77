"""OpenLineage without its package: the names of datasets, and that a missing package is one line."""

import sys

import pytest

from etc_policy.api.observers import ObservedTable
from etc_policy.errors import install_hint
from etc_policy.integrations.openlineage import dataset_of, is_configured
from etc_policy.verify.ports import Coverage, ExpectationResult, Verification
from tests.unit.cli.conftest import etc  # noqa: F401 - a fixture
from tests.unit.cli.test_apply import outside  # noqa: F401 - a fixture
from tests.unit.report.test_metrics import RUN


@pytest.mark.parametrize(
    ("location", "dataset"),
    [
        ("/lake/orders/", ("file", "/lake/orders")),
        ("file:///lake/orders", ("file", "/lake/orders")),
        ("s3a://bucket/lake//orders", ("s3://bucket", "lake/orders")),
        ("gs://bucket/orders", ("gs://bucket", "orders")),
        ("abfs://c@a.dfs.core.windows.net/orders", ("abfss://c@a.dfs.core.windows.net", "orders")),
        ("hdfs://name:9000/lake/orders", ("hdfs://name:9000", "/lake/orders")),
        ("hdfs:///lake/orders", ("hdfs", "/lake/orders")),
    ],
)
def test_a_table_has_the_name_that_the_specification_gives_it(location, dataset):
    assert dataset_of(location) == dataset


def test_it_is_off_unless_its_own_variables_say_otherwise(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    url = {"OPENLINEAGE_URL": "http://127.0.0.1"}
    assert not is_configured({})
    assert not is_configured({"OPENLINEAGE_URL": ""})
    assert is_configured(url)
    assert is_configured({"OPENLINEAGE__TRANSPORT__TYPE": "console"})
    assert not is_configured({**url, "OPENLINEAGE_DISABLED": "True"})
    (tmp_path / ".openlineage").mkdir()
    (tmp_path / ".openlineage" / "openlineage.yml").touch()
    assert is_configured({})


def test_a_missing_package_is_one_line_with_the_command(etc, outside, monkeypatch):  # noqa: F811
    monkeypatch.setitem(sys.modules, "openlineage.client", None)
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1")
    code, _, err = etc("apply", "--at", "2026-01-01T12:00:00Z", "--yes")
    assert (code, err.count("ETC357"), err.count(install_hint("openlineage"))) == (0, 1, 1)


def test_checks_of_a_part_of_the_rows_say_of_which():
    checked = (("expect_no_key_twice", None), ("expect_no_deleted_rows", "gone"), ("expect_freshness_within", None))
    found = tuple(ExpectationResult(expectation=name, status="pass", message=said) for name, said in checked)
    part = Coverage(file_groups=30, file_groups_read=3, seed=7)
    verification = Verification(level="sample", status="pass", threshold_ms=1, coverage=part, expectations=found)
    table = ObservedTable("orders_ro", "/t", "", RUN.model_copy(update={"verification": verification}))
    said = "rows read: 3 of 30 file groups (seed 7); nothing is proved of other rows"
    assert [message for _, _, message in table.checks] == [said, "gone", None]
