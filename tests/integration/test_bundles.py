"""Tables of a payload that one bundle of Hudi merges otherwise than another: refused, or compacted by the one that is right."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from etc_policy.plan.bundles import bundle_of
from tests.integration.payload_matrix import main as play
from tests.integration.payloads.steps import SEEN, WRITTEN, cells
from tests.integration.payloads.tables import FLINK
from tests.integration.session import run_under_bundle

pytestmark = pytest.mark.spark

STEPS, KIND = "tests.integration.payloads.steps", "PostgresDebeziumAvroPayload"
PLAYED = {
    "the bundles' own": ((), (KIND, "PartialUpdateAvroPayload", "nothing said")),
    "Flink's": (
        (FLINK,),
        (
            "OverwriteWithLatestAvroPayload, no ordering field, changelog mode",
            "PartialUpdateAvroPayload, changelog mode",
        ),
    ),
}
POLICY = """version: 1
policies:
  - name: toast
    table: {table}
    event_time_column: {{column: ts, unit: ms}}
    data_latency: 1h
    strategy: {{type: event_time, granularity: file_slice}}
    writer: {{index: simple, compaction: none}}
"""


def etc(project: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("etc")), *arguments, "--project-dir", str(project)]
    environment = {key: value for key, value in os.environ.items() if key != "ETC_HUDI_BUNDLE"}
    return subprocess.run(command, capture_output=True, text=True, timeout=600, env={**environment, **variables})


@pytest.mark.extended
def test_a_value_of_postgres_that_did_not_change_is_never_lost(no_spark, tmp_path):
    """Bundle 1.2.0 writes Debezium's placeholder over it for good, and shows it in both views alike."""
    (cell,) = cells(["0.15.0"], [KIND])
    run_under_bundle("0.15.0", STEPS, "write", "0.15.0", str(tmp_path), "0.15.0", KIND, timeout_seconds=300)
    table = cell.base(tmp_path, WRITTEN)
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "toast.yml").write_text(POLICY.format(table=table))
    before = {file.name for file in table.joinpath(".hoodie").iterdir()}
    for verb in (("plan",), ("apply", "--yes")):
        refused = etc(tmp_path, *verb, ETC_HUDI_BUNDLE=bundle_of("1.2.0"))
        assert f"ETC_HUDI_BUNDLE={bundle_of('0.15.0')}" in " ".join((refused.stdout + refused.stderr).split())
    assert {file.name for file in table.joinpath(".hoodie").iterdir()} - before <= {".etc"}
    done = etc(tmp_path, "apply", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rows read by Hudi 0.15.0" in done.stdout
    run_under_bundle("0.15.0", STEPS, "read", "0.15.0", str(tmp_path), "0.15.0", KIND, timeout_seconds=300)
    seen = json.loads((table / SEEN).read_text())
    assert seen["RO"] == seen["RT"]
    assert [seen["RO"][key][1] for key in ("toast", "toast twice")] == ["old", "old"]


@pytest.mark.extended
@pytest.mark.parametrize(("writers", "kinds"), PLAYED.values(), ids=PLAYED)
def test_the_results_are_those_that_are_played(no_spark, tmp_path, monkeypatch, writers, kinds):
    """All of them are played by `python -m tests.integration.payload_matrix`."""
    if FLINK in writers and shutil.which("mvn") is None:
        pytest.skip("Maven is not installed, which fetches Flink")
    told = ["--bundles", *writers, "0.15.0", "1.2.0", "--kinds", *kinds]
    monkeypatch.setattr(sys, "argv", ["play", str(tmp_path), *told])
    with pytest.raises(SystemExit) as ended:
        play()
    assert not ended.value.code
