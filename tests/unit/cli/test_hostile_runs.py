"""The target folder's records of runs, written by somebody else: each is a warning of its own, and the others are shown."""

import json
import os

import pytest

from etc_policy.api import run_records
from etc_policy.report.results import RunResults
from etc_policy.report.run_files import read_run_files
from etc_policy.run.results import TableResult, timed
from tests.unit.hudi.table_folder import TableFolder, at, base

GOOD = {"schema_version": 1, "kind": "verify", "recorded_at": "2026-01-01T12:00:00.000Z", "git_sha": "abc"}


@pytest.fixture
def runs(project):
    TableFolder(project / "lake" / "orders").commit(at("08:00:00"), at("08:00:05"), base("f1"))
    folder = project / "target" / "runs"
    folder.mkdir(parents=True)
    (folder / "20260101T120000000Z-verify-1.json").write_text(json.dumps(GOOD))
    return folder


def _surrogate(path):
    path.write_text('{"schema_version": 1, "kind": "apply", "recorded_at": "\\ud800", "git_sha": "\\udfff"}')


def _pipe(path):
    os.mkfifo(path)


def _sparse(path):
    with path.open("wb") as file:
        file.truncate(300 * 1024**2)


def _link(path):
    secret = path.parents[1] / "secret.json"
    secret.write_text(json.dumps({**GOOD, "git_sha": "secret"}))
    path.symlink_to(secret)


def _endless(path):
    path.write_text('{"schema_version": ' + "1" * 5000 + "}")


def _deep(path):
    path.write_text("[" * 100_000)


HOSTILE = [_surrogate, _pipe, _sparse, _link, _endless, _deep]


@pytest.mark.parametrize("make", HOSTILE)
@pytest.mark.parametrize(
    "verb", ["history orders_ro", "history orders_ro --output json", "docs generate", "metrics write m.prom"]
)
def test_one_bad_record_is_left_out(etc, runs, make, verb):
    make(runs / "20260101T130000000Z-apply-2.json")
    code, out, err = etc(*verb.split())
    assert code == 0
    assert "ETC009" not in err
    if "metrics" not in verb:
        assert err.count("warning[ETC611]") == (make is not _surrogate)  # half a character is shown, and hides nothing
    assert "secret" not in out
    if verb.endswith("json"):
        json.loads(out)


@pytest.mark.parametrize("make", HOSTILE)
def test_bad_results_of_the_last_run_are_a_warning(etc, runs, make):
    make(runs.parent / "run_results.json")
    code, _, err = etc("metrics", "write", "m.prom")
    assert (code, "ETC009" in err, "ETC343" in err) == (0, False, True)


def test_an_earlier_manifest_that_is_a_pipe_is_not_waited_for(etc, runs):
    os.mkfifo(runs.parent / "manifest.json")
    code, _, err = etc("ls", "--select", "state:modified", "--state", "target")
    assert (code, "error[ETC007]" in err, "not a regular file" in err) == (64, True, True)


def test_half_a_character_of_one_table_hides_no_record(etc, runs, tmp_path):
    """What a table says came into the records of all as it was written, and they could not be read any more."""
    values = {"base_path": str(runs.parents[1] / "lake" / "orders"), **timed(0, 1)}
    tables = (
        TableResult(policy="bad", status="failed", reason="x\ud800y", **values),
        TableResult(policy="orders_ro", status="nothing_due", **values),
    )
    assert run_records.record_apply(tmp_path / "target", RunResults(tables=tables), None, None) == ()
    (only,) = runs.glob("*-apply-*.json")
    assert read_run_files([(str(only), only.read_text())]).files[0].results.tables == tables
    assert run_records.last_tables(tmp_path / "target") == {"orders_ro": values["base_path"]}
    for verb in ("history orders_ro", "docs generate", "metrics write m.prom", "ls --select result:error"):
        code, _, err = etc(*verb.split())
        assert (code, "ETC611" in err, "ETC343" in err) == (0, False, False)
