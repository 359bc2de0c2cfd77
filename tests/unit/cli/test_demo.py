"""The demo, as far as it needs no Spark."""

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
