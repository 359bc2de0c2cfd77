"""Scenes of `beside.py` in which a run or a writer is stopped at a step of its commit."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from tests.integration.beside_writer import (
    look_afterwards,
    start_writer,
    stop_writer,
    wait_for_commits,
    words_of,
    written,
)
from tests.integration.kills import Project, Table, wait_for_group

#: Where a run or a writer is held: what another, with no lock between them, may find half done.
FROZEN = ("published", "executing", "committing to the metadata table", "committed to the metadata table")
FROZEN_WRITER = ("writing", *FROZEN[2:])


def frozen(folder: Path, source: Path, step: str) -> list[str]:
    """A run stands still at a step while a single writer without a lock commits, and then goes on."""
    project = Project(folder)
    table = project.add("t", source)
    first = freeze(project, table, step)
    held = table.step
    writer = start_writer(table, "alone cleaner")
    wait_for_commits(table, writer, 3)
    done, told = stop_writer(table, writer)
    os.killpg(first.pid, signal.SIGCONT)
    code = first.wait(timeout=300)
    words = f"held at `{held}`: exit {code} {words_of(project)}"
    return [words, told, *look_afterwards(project, table, done)]


def frozen_writer(folder: Path, source: Path, step: str) -> list[str]:
    """A single writer without a lock stands still at a step of its commit while a run goes to its end."""
    project = Project(folder)
    table = project.add("t", source)
    writer = start_writer(table, "alone")
    hold_writer(writer, table, step)
    process = project.start("apply", "--yes")
    code = process.wait(timeout=300)
    words = f"the writer held at `{writer_step(table)}`: exit {code} {words_of(project)}"
    os.killpg(writer.pid, signal.SIGCONT)
    wait_for_commits(table, writer, len(written(table)[0]) + 2)
    done, told = stop_writer(table, writer)
    assert code in (0, 3, 4), words
    return [words, told, *look_afterwards(project, table, done)]


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
    return [f"interrupted at `{held}`", *look_afterwards(project, table, ())]


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
    if in_metadata_table := table.metadata_step(newest):
        return in_metadata_table
    return "writing" if table.timeline(f"{newest}.deltacommit.inflight") else "requested"


AT_STEPS = {
    "frozen": (frozen, FROZEN),
    "frozen writer": (frozen_writer, FROZEN_WRITER),
    "interrupted": (interrupted, (*FROZEN, "committed")),
}
