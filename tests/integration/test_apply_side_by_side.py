"""`etc apply --jobs 2` as a process: tables of two zones in one Spark, one that fails, and Ctrl-C while two are compacted."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests.integration.history import EPOCH_MS, HISTORY, Oracle, Views
from tests.integration.test_apply_process import REPOSITORY

pytestmark = [pytest.mark.spark, pytest.mark.extended]
T = 210
NOW_MS = EPOCH_MS + (T + 10) * 1000
POLICY = "  - {{name: {0}, table: {0}, event_time_column: {{column: ts, unit: ms}}, data_latency: 10s, verify: {{level: {1}}}}}\n"
#: Whose rows are compared by `etc` too.
LEVELS = {"a": "data", "b": "metadata", "c": "data", "d": "metadata", "e": "metadata"}
ORACLE = Oracle.of(HISTORY)


@pytest.fixture
def lake(written_table, tmp_path):
    """Five copies of a table; the timeline of `c` is in another zone than the others'."""
    for name in LEVELS:
        shutil.copytree(written_table, tmp_path / name)
    properties = tmp_path / "c" / ".hoodie" / "hoodie.properties"
    lines = [line for line in properties.read_text().splitlines() if "timeline.timezone" not in line]
    properties.write_text("\n".join([*lines, "hoodie.table.timeline.timezone=UTC\n"]))
    properties.with_name(".hoodie.properties.crc").unlink(missing_ok=True)
    (tmp_path / "policies").mkdir()
    policies = "".join(POLICY.format(name, level) for name, level in LEVELS.items())
    (tmp_path / "policies" / "a.yml").write_text(f"version: 1\npolicies:\n{policies}")
    return tmp_path


def start(lake, *arguments):
    command = [sys.executable, "-m", "etc_policy.cli.main", "apply", "--yes", "--jobs", "2", "--at", str(NOW_MS)]
    return subprocess.Popen(
        [*command, "--project-dir", str(lake), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        env={**os.environ, "TZ": "UTC"},
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def apply(lake, *arguments):
    """The exit code, (policy, status, verdict) of each table, and stderr."""
    out, err = (process := start(lake, *arguments, "--output", "json")).communicate(timeout=300)
    tables = json.loads(out)["tables"]
    verdicts = [(one["policy"], one["status"], (one["verification"] or {}).get("status")) for one in tables]
    return process.returncode, verdicts, err


def made(lake, name, pattern):
    """When a table's file of the timeline was made, in seconds; None before it is made."""
    found = sorted((lake / name / ".hoodie" / "timeline").glob(pattern))
    return found[0].stat().st_mtime if found else None


def break_base_files(table):
    """The base files of a table without content; returns what puts it back."""
    files = {file: file.read_bytes() for file in table.glob("*/*.parquet")}
    for file, content in files.items():
        file.write_bytes(b"\0" * len(content))
    return lambda: [file.write_bytes(content) for file, content in files.items()]


def assert_right(lake, name):
    """Both views by hudi-rs: RT is what was written, RO has every row up to T."""
    views = Views(None, lake / name)
    read_optimized, promised = views.rust(read_optimized=True), ORACLE.rt_up_to(T)
    assert views.rust() == ORACLE.rt()
    assert {key: read_optimized.get(key) for key in promised} == promised
    assert set(read_optimized) <= set(ORACLE.rt())


def interrupt_at_work(lake, names):
    """Freeze an apply once it has begun all these tables, then Ctrl-C; its exit code and stderr.

    Java goes on a little later than the command: else a busy machine may let it commit both tables first.
    """
    process = start(lake, "--select", " ".join(names))
    deadline = time.monotonic() + 120
    while not all(made(lake, name, "*.compaction.inflight") for name in names):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGSTOP)
    os.kill(process.pid, signal.SIGINT)
    os.kill(process.pid, signal.SIGCONT)
    time.sleep(2)
    os.killpg(process.pid, signal.SIGCONT)
    _, err = process.communicate(timeout=60)
    return process.returncode, err


def test_tables_are_compacted_side_by_side(no_spark, lake):
    mend = break_base_files(lake / "b")
    code, verdicts, err = apply(lake, "--select", "a b c")
    assert (code, verdicts) == (3, [("a", "compacted", "pass"), ("b", "failed", None), ("c", "compacted", "pass")]), err
    assert err.count("error[") == 1
    assert "error[ETC326]: Hudi cannot compact" in err
    assert "the plan is withdrawn" in err
    for name in ("a", "c"):
        assert f"{name}: compacted, verified PASS; " in err
        assert_right(lake, name)

    code, err = interrupt_at_work(lake, ("d", "e"))
    assert code == 130, err
    assert "the next `etc apply` finishes what was begun" in err
    assert "Traceback" not in err
    assert any(made(lake, name, "*.commit") is None for name in "de")

    mend()
    code, verdicts, err = apply(lake)
    assert (code, [name for name, _, _ in verdicts]) == (0, list(LEVELS)), err
    assert {verdict for _, _, verdict in verdicts} == {"pass"}
    ended = {name: status for name, status, _ in verdicts}
    assert (ended["a"], ended["b"], ended["c"]) == ("nothing_due", "compacted", "nothing_due")
    assert {ended["d"], ended["e"]} <= {"resumed", "nothing_due"}
    for name in LEVELS:
        assert_right(lake, name)
