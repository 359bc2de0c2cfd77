"""A stock writer in a process of its own beside `etc apply`, and a look at its table when all is done."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable

from tests.integration.history import HISTORY, Oracle, Views, write_history
from tests.integration.kills import SECOND, Project, Table, spawn
from tests.integration.session import stop_spark


def start_writer(table: Table, kind: str) -> subprocess.Popen:
    """The stock writer, once its first commit stands."""
    command = [sys.executable, "-m", "tests.integration.stock_writer", str(table.base), kind]
    with (table.base.parent / "writer.out").open("w") as output:
        process = spawn(command, stdout=output)
    while not written(table)[0]:
        assert process.poll() is None
        time.sleep(0.1)
    return process


def written(table: Table) -> tuple[list[int], list[str]]:
    """The numbers of the commits that stand, and those that failed with their reasons."""
    lines = (table.base.parent / "writer.out").read_text().splitlines()
    return [int(line) for line in lines if line.isdigit()], [line for line in lines if not line.isdigit()]


def wait_for_commits(table: Table, writer: subprocess.Popen, count: int) -> None:
    """Return once so many commits stand, or the writer has ended."""
    while len(written(table)[0]) < count and writer.poll() is None:
        time.sleep(0.1)


def stop_writer(table: Table, writer: subprocess.Popen) -> tuple[list[int], str]:
    """Let the writer end; the numbers of its commits that stand, and a line about them."""
    (table.base.parent / "stop").touch()
    writer.wait(timeout=120)
    done, failed = written(table)
    return done, f"the writer made {len(done)} commits, {len(failed)} failed: {failed[:3]}"


def look_afterwards(project: Project, table: Table, done: Iterable[int]) -> list[str]:
    """One more run, which must pass, and a look at the views of the history with the writer's commits `done`."""
    from tests.integration.stock_writer import write_of

    result = project.apply()["t"]
    assert result["verification"]["status"] in ("pass", "warn"), result
    afterwards = f"afterwards: {result['status']}, {result['verification']['status']}"
    return [afterwards, *look(table, Oracle.of((*HISTORY, *map(write_of, done))))]


def words_of(project: Project) -> list[str]:
    """The errors of a command, and the verdicts in its report that are not good."""
    report = (project.folder / "stdout").read_text().splitlines()
    errors = [line for line in project.stderr.splitlines() if line.startswith("error")]
    shown = [number for number, line in enumerate(report) if line.lstrip().startswith(("error", "fail", "verified"))]
    return [*errors, *(" ".join(map(str.strip, report[number : number + 3])) for number in shown)]


def look(table: Table, oracle: Oracle) -> list[str]:
    """Both views after all is done, and after one more stock write."""
    from etc_policy.spark.session import start_spark
    from tests.integration.stock_writer import write_of

    commits = table.timeline("*_*.commit")
    instants = [path.name.split("_")[0] for path in commits]
    assert len(set(instants)) == len(instants), f"a compaction was committed twice: {instants}"
    spark = start_spark({"spark.sql.shuffle.partitions": "2"}, table.base.parent / "look.log")
    try:
        views = Views(spark, table.base)
        assert views.rt_without_mdt() == oracle.rt(), "RT without the metadata table"
        assert views.rt() == oracle.rt(), "RT"
        assert views.rust() == oracle.rt(), "RT by hudi-rs"
        promised, ro = oracle.rt_up_to(SECOND), views.ro()
        assert {key: ro.get(key) for key in promised} == promised, "RO up to T"
        assert views.rust(read_optimized=True) == ro, "RO by hudi-rs"
        write_history(spark, table.base, (write_of(999),), first=999)
        assert views.rt()[999 % 12] == "w999"
    finally:
        stop_spark(spark)
    return [f"{len(commits)} compactions, all views right"]
