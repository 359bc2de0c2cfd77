"""Scenes of `beside.py` in which a run or a writer is stopped at a step of its commit."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from tests.integration.beside_writer import look, start_writer, words_of, written
from tests.integration.history import HISTORY, Oracle
from tests.integration.kills import Project, Table, wait_for_group

#: Where a run or a writer is held: what another, with no lock between them, may find half done.
FROZEN = ("published", "executing", "committing to the metadata table", "committed to the metadata table")
FROZEN_WRITER = ("writing", *FROZEN[2:])


def frozen(folder: Path, source: Path, step: str) -> list[str]:
    """A run stands still at a step while a single writer without a lock commits, and then goes on."""
    from tests.integration.stock_writer import write_of

    project = Project(folder)
    table = project.add("t", source)
    first = freeze(project, table, step)
    held = table.step
    writer = start_writer(table, "alone cleaner")
    while len(written(table)[0]) < 3 and writer.poll() is None:
        time.sleep(0.1)
    (table.base.parent / "stop").touch()
    writer.wait(timeout=120)
    os.killpg(first.pid, signal.SIGCONT)
    code = first.wait(timeout=300)
    done, failed = written(table)
    told = [
        f"held at `{held}`: exit {code} {words_of(project)}",
        f"the writer made {len(done)} commits; failed: {failed}",
    ]
    result = project.apply()["t"]
    told.append(f"afterwards: {result['status']}, {result['verification']['status']}")
    assert result["verification"]["status"] in ("pass", "warn"), result
    return [*told, *look(table, Oracle.of((*HISTORY, *map(write_of, done))))]


def frozen_writer(folder: Path, source: Path, step: str) -> list[str]:
    """A single writer without a lock stands still at a step of its commit while a run goes to its end."""
    from tests.integration.stock_writer import write_of

    project = Project(folder)
    table = project.add("t", source)
    writer = start_writer(table, "alone")
    hold_writer(writer, table, step)
    process = project.start("apply", "--yes")
    code = process.wait(timeout=300)
    told = [f"the writer held at `{writer_step(table)}`: exit {code} {words_of(project)}"]
    os.killpg(writer.pid, signal.SIGCONT)
    before = len(written(table)[0])
    while len(written(table)[0]) < before + 2 and writer.poll() is None:
        time.sleep(0.1)
    (table.base.parent / "stop").touch()
    writer.wait(timeout=120)
    done, failed = written(table)
    told.append(f"the writer made {len(done)} commits; failed: {failed}")
    result = project.apply()["t"]
    told.append(f"afterwards: {result['status']}, {result['verification']['status']}")
    assert code in (0, 3, 4), told
    assert result["verification"]["status"] in ("pass", "warn"), result
    return [*told, *look(table, Oracle.of((*HISTORY, *map(write_of, done))))]


def interrupted(folder: Path, source: Path, step: str) -> list[str]:
    """A run gets a Ctrl-C at a step: it ends at once and says so in a line; the next finishes it."""
    project = Project(folder)
    table = project.add("t", source)
    process = freeze(project, table, step, by=signal.SIGINT)
    code = process.wait(timeout=20)
    wait_for_group(process.pid)
    held, words = table.step, project.stderr
    assert code == 130, words
    assert not any(word in words for word in ("Traceback", "error[")), words
    result = project.apply()["t"]
    assert result["verification"]["status"] in ("pass", "warn"), result
    return [f"interrupted at `{held}`; the next: {result['status']}", *look(table, Oracle.of(HISTORY))]


def freeze(project: Project, table: Table, step: str, by: signal.Signals = signal.SIGSTOP) -> subprocess.Popen:
    """An apply that was stopped, or what the signal `by` does, when its table showed the step."""
    process = project.start("apply", "--yes")
    while table.step != step:
        assert process.poll() is None, project.stderr
        time.sleep(0.001)
    os.killpg(process.pid, by)
    return process


def hold_writer(writer: subprocess.Popen, table: Table, step: str) -> None:
    """Stop the writer while its commit is at the step; one that got further meanwhile goes on until the next."""
    while True:
        if writer_step(table) == step:
            os.killpg(writer.pid, signal.SIGSTOP)
            time.sleep(0.05)
            if writer_step(table) == step:
                return
            os.killpg(writer.pid, signal.SIGCONT)
        assert writer.poll() is None
        time.sleep(0.0005)


def writer_step(table: Table) -> str:
    """How far the newest delta commit has got."""
    newest = max(table.timeline("*.deltacommit.requested")).name.split(".")[0]
    if table.timeline(f"{newest}_*.deltacommit"):
        return "committed"
    metadata_table = table.meta / "metadata" / ".hoodie" / "timeline"
    if list(metadata_table.glob(f"{newest}_*.deltacommit")):
        return "committed to the metadata table"
    if (metadata_table / f"{newest}.deltacommit.inflight").exists():
        return "committing to the metadata table"
    return "writing" if table.timeline(f"{newest}.deltacommit.inflight") else "requested"


AT_STEPS = {
    "frozen": (frozen, FROZEN),
    "frozen writer": (frozen_writer, FROZEN_WRITER),
    "interrupted": (interrupted, (*FROZEN, "committed")),
}
