"""The command blocks of the pages: which test runs which, and how they are run, in order, by one shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]

#: Test -> page -> its `sh` blocks that the test runs, in order; `command_blocks_of` gives them to it.
RUN_BY: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "test_a_wheel_and_git_give_the_command": {"docs/how-to/install.md": (0, 1, 2)},
    "test_a_reviewed_plan_and_a_job_that_waits": {"docs/how-to/ci.md": (1, 2)},
    "test_a_table_is_looked_at_before_it_is_adopted": {"docs/how-to/existing-table.md": (0, 1, 2)},
    "test_a_daily_job_starts_when_its_partition_is_complete": {"docs/how-to/partitions.md": (0,)},
    "test_a_report_is_started_by_an_event": {"docs/how-to/partitions.md": (2,)},
    "test_a_refused_table_is_explained": {"docs/how-to/refused.md": (0, 1, 2)},
    "test_the_writers_lock_is_declared": {"docs/how-to/locks.md": (0, 1)},
    "test_a_lake_becomes_a_project": {"docs/how-to/existing-table.md": (4, 5, 6, 7, 8)},
    "test_a_part_of_many_tables": {"docs/how-to/many-tables.md": (0, 1)},
    "test_without_workers_it_ends_in_time_and_the_next_run_compacts_on_executors": {"docs/how-to/cluster.md": (0,)},
    "test_etc_is_the_program_of_a_spark_submit": {"docs/how-to/cluster.md": (1, 2)},
    "test_a_driver_in_the_cluster": {"docs/how-to/cluster.md": (3,)},
    "test_a_stream_with_deletes_in_a_bucket": {"docs/how-to/stream-in-bucket.md": (0, 1, 2)},
    "test_a_table_is_replayed_by_the_page": {"docs/how-to/simulate.md": (0,)},
    "test_the_exporter_answers": {"docs/how-to/monitor.md": (0,)},
    "test_metrics_rules_and_dashboard_are_written": {"docs/how-to/monitor.md": (1,)},
    "test_a_wrong_time_is_shown_renamed_and_proved": {"docs/how-to/repair.md": (0, 1, 2)},
    "test_late_data_are_shown": {"docs/how-to/verify.md": (0,)},
    "test_the_tutorial_up_to_its_first_run": {"docs/tutorial.md": (1, 2)},
    "test_the_whole_tutorial": {"docs/tutorial.md": (1, 2, 3, 4, 5, 6)},
    "test_a_table_of_every_kind_is_adopted_by_the_page": {"docs/how-to/existing-table.md": (0, 1, 2, 3)},
    "test_the_plan_that_was_reviewed_is_carried_out": {"docs/how-to/ci.md": (1,)},
    "test_a_project_gets_the_files_that_run_etc": {"docs/how-to/ci.md": (0,)},
    "test_a_day_is_waited_for_compacted_and_reported": {"docs/how-to/airflow.md": (1,)},
    "test_a_day_is_checked_and_reported": {"docs/how-to/dagster.md": (1,)},
    "test_dbt_judges_a_source_and_waits_for_it": {"docs/how-to/dbt.md": (0, 1)},
    "test_spans_are_sent_as_the_page_says": {"docs/how-to/tracing.md": (1,)},
    "test_events_are_written_as_the_page_says": {"docs/how-to/openlineage.md": (1,)},
}
#: Blocks that no test runs, and why.
NOT_RUN: Mapping[tuple[str, int], str] = {
    ("README.md", 0): "makes an environment of some 500 MB; test_the_demo runs its `etc demo`",
    ("README.md", 1): "is how the tests are run: `.ci/run` takes it from README",
    (
        "docs/how-to/object-stores.md",
        0,
    ): "needs an index of packages that has etc-policy; what the extra brings is tested",
    (
        "docs/how-to/hdfs.md",
        0,
    ): "needs an index of packages, as the block of object-stores.md; what the extra brings is tested",
    ("docs/how-to/partitions.md", 1): "ends with a job of the reader's own; the wait itself is run by the block before",
    (
        "docs/how-to/airflow.md",
        0,
    ): "needs an index of packages, as the block of object-stores.md; the test of the page installs the extra",
    (
        "docs/how-to/dagster.md",
        0,
    ): "needs an index of packages, as the block of object-stores.md; the test of the page installs the extra",
    (
        "docs/how-to/openlineage.md",
        0,
    ): "needs an index of packages, as the block of object-stores.md; the test of the page installs what the extra has",
    (
        "docs/how-to/tracing.md",
        0,
    ): "needs an index of packages, as the block of object-stores.md; the test of the page installs what the extra has",
    (
        "docs/how-to/assistants.md",
        0,
    ): "needs an index of packages, as the block of object-stores.md; test_mcp.py installs what the extra has",
    ("docs/tutorial.md", 0): "as README's first block, with a wheel; test_the_demo runs its `etc demo`",
    (
        "docs/upstream/README.md",
        0,
    ): "reproducers for Hudi's maintainers with stock releases; what they print is in the reports",
}


def command_blocks(page: str) -> list[str]:
    """The `sh` blocks of a page, without the indent of the list item that they are in."""
    text = (REPOSITORY / page).read_text("utf-8")
    found = re.findall(r"^( *)```sh\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)
    return ["".join(line.removeprefix(indent) for line in body.splitlines(keepends=True)) for indent, body in found]


def command_blocks_of(test: str) -> list[str]:
    """The blocks that a test runs."""
    return [command_blocks(page)[number] for page, numbers in RUN_BY[test].items() for number in numbers]


def pages_with_commands() -> list[str]:
    """README and every page below docs that has a command block."""
    pages = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
    names = [page.relative_to(REPOSITORY).as_posix() for page in pages]
    return [name for name in names if command_blocks(name)]


class Shell:
    """One shell in a folder, as a reader has it: `cd` lasts, `etc` is on the path, and nothing is asked.

    `commands` are further commands by name, as scripts: what stands in for programs that are not here.
    """

    def __init__(self, folder: Path, commands: Mapping[str, str] | None = None, **environment: str) -> None:
        self.folder = folder
        own = folder / ".commands"
        own.mkdir(exist_ok=True)
        for name, script in (commands or {}).items():
            (own / name).write_text(f"#!/bin/sh\n{script}")
            (own / name).chmod(0o755)
        path = f"{own}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **environment}
        self._place = own / "place"

    def run(self, block: str, *, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """Run a block; it ends at the first command that fails."""
        script = f"trap 'pwd > {self._place}' EXIT\n{block}"
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-euo", "pipefail", "-c", script],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        self.folder = Path(self._place.read_text().strip())
        return done

    def succeeds(self, block: str, *, code: int = 0, timeout: float = 300) -> str:
        """What a block prints to stdout; it has to end with this exit code."""
        done = self.run(block, timeout=timeout)
        assert done.returncode == code, f"{block}\nexit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout
