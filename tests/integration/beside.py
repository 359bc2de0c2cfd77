"""`etc apply` beside others at work on the same table: `python -m tests.integration.beside [SCENE ...]`.

`shared` and `alone` are stock writers in a process of their own that never stop: with optimistic concurrency and a lock that
the policy declares, and a single writer without any. With `cleaner` it cleans and archives at low limits, with `inline` it runs
any pending compaction, ours too. `frozen` holds a run at a step of its commit while a single writer without a lock commits
beside it, `frozen writer` holds such a writer while a run goes to its end. `stolen` is a run that was frozen, lost its lease
by force, and wakes up again.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.integration.history import HISTORY, Oracle, Views, write_history
from tests.integration.kills import (
    REPOSITORY,
    SECOND,
    Project,
    Table,
    check_files,
    check_views,
    exit_when_told,
    spawn,
    wait_for_group,
)
from tests.integration.session import stop_spark

SCENES = ("shared cleaner", "alone cleaner", "shared inline", "alone inline", "frozen", "frozen writer", "stolen")
#: Where `frozen` holds a run or a writer: what the other, with no lock between them, may find half done.
FROZEN = ("published", "executing", "committing to the metadata table", "committed to the metadata table")
FROZEN_WRITER = ("writing", *FROZEN[2:])
ROUNDS = 4
LOCK = """    writer:
      lock:
        hoodie.write.lock.provider: org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider
        hoodie.write.lock.filesystem.path: {path}
        hoodie.write.lock.filesystem.expire: "1"
        hoodie.write.lock.wait_time_ms_between_retry: "200"
        hoodie.write.lock.num_retries: "100"
"""


def start_writer(table: Table, kind: str) -> subprocess.Popen:
    """The stock writer, once its first commit stands."""
    command = [sys.executable, "-m", "tests.integration.stock_writer", str(table.base), kind]
    output = (table.base.parent / "writer.out").open("w")
    process = spawn(command, stdout=output)
    while not written(table)[0]:
        assert process.poll() is None
        time.sleep(0.1)
    return process


def written(table: Table) -> tuple[list[int], list[str]]:
    """The numbers of the commits that stand, and those that failed with their reasons."""
    lines = (table.base.parent / "writer.out").read_text().splitlines()
    return [int(line) for line in lines if line.isdigit()], [line for line in lines if not line.isdigit()]


def beside_writer(project: Project, source: Path, kind: str) -> list[str]:
    """Several runs beside a writer that goes on, and one after it; returns what happened."""
    from tests.integration.stock_writer import write_of

    table, told = project.add("t", source), []
    if "shared" in kind:
        policy = project.folder / "policies" / "t.yml"
        policy.write_text(policy.read_text() + LOCK.format(path=table.base.parent / "locks"))
    writer = start_writer(table, kind)
    for _ in range(ROUNDS):
        process = project.start("apply", "--yes")
        code = process.wait(timeout=300)
        told.append(f"exit {code} {words_of(project)}")
        assert code in (0, 3, 4), project.stderr
    (table.base.parent / "stop").touch()
    writer.wait(timeout=120)
    done, failed = written(table)
    told.append(f"the writer made {len(done)} commits, {len(failed)} failed: {failed[:3]}")
    result = project.apply()["t"]
    told.append(f"afterwards: {result['status']}, {result['verification']['status']}")
    assert result["verification"]["status"] in ("pass", "warn"), result
    return [*told, *look(table, Oracle.of((*HISTORY, *map(write_of, done))))]


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


def freeze(project: Project, table: Table, step: str) -> subprocess.Popen:
    """An apply that was stopped when its table showed the step."""
    process = project.start("apply", "--yes")
    while table.step != step:
        assert process.poll() is None, project.stderr
        time.sleep(0.001)
    os.killpg(process.pid, signal.SIGSTOP)
    return process


def words_of(project: Project) -> list[str]:
    """The errors of a command, and the verdicts in its report that are not good."""
    report = (project.folder / "stdout").read_text().splitlines()
    errors = [line for line in project.stderr.splitlines() if line.startswith("error")]
    shown = [number for number, line in enumerate(report) if line.lstrip().startswith(("error", "fail", "verified"))]
    return [*errors, *(" ".join(map(str.strip, report[number : number + 3])) for number in shown)]


def look(table: Table, oracle: Oracle) -> list[str]:
    """Both views after all is done, and after one more stock write."""
    from etc_policy.adapters.spark_session import start_spark
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


def stolen(project: Project, source: Path, step: str) -> list[str]:
    """A run is frozen, its lease removed by force and its heartbeat old: another takes over; then the first wakes up."""
    from etc_policy.adapters.spark_session import start_spark

    table = project.add("t", source)
    first = freeze(project, table, step)
    beside = Project(project.folder)
    refused = subprocess.run(
        [sys.executable, "-m", "etc_policy.cli.main", "apply", "--yes", "--project-dir", str(project.folder)],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
    )
    assert refused.returncode == 4, refused.stderr
    assert "another `etc apply`" in refused.stderr
    for name in ("apply.lease", "java.lease"):
        (table.meta / ".etc" / name).unlink()
    long_ago = time.time() - 3600
    for path in [*(table.meta / ".heartbeat").glob("*"), *table.meta.glob("timeline/*.inflight")]:
        os.utime(path, (long_ago, long_ago))
    for path in (table.meta / ".temp").glob("**/*"):
        os.utime(path, (long_ago, long_ago))
    kept = project.folder / "stderr"
    first_words = kept.rename(project.folder / "stderr of the first")
    result = beside.apply()["t"]
    os.killpg(first.pid, signal.SIGCONT)
    code = first.wait(timeout=300)
    wait_for_group(first.pid)
    words = [line for line in first_words.read_text().splitlines() if line.startswith("error")]
    assert code == 3, first_words.read_text()
    check_files(table)
    spark = start_spark({"spark.sql.shuffle.partitions": "2"}, project.folder / "look.log")
    try:
        check_views(spark, table, Oracle.of(HISTORY))
    finally:
        stop_spark(spark)
    return [f"the second: {result['status']}; the first, woken: exit {code} {words}; one commit, all views right"]


def play(scene: str, folder: Path, source: Path) -> list[str]:
    folder.mkdir(parents=True)
    if scene.startswith("stolen"):
        return stolen(Project(folder), source, "executing")
    if scene.startswith("frozen"):
        held, steps = (frozen_writer, FROZEN_WRITER) if "writer" in scene else (frozen, FROZEN)
        return [line for step in steps for line in held(folder / step.replace(" ", "_"), source, step)]
    return beside_writer(Project(folder), source, scene)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scene", nargs="*", default=SCENES, help=f"any of {', '.join(SCENES)}")
    parser.add_argument("--source", type=Path, help="a table of the history, else one is written")
    arguments = parser.parse_args()
    exit_when_told()
    folder, failed = Path(tempfile.mkdtemp()), 0
    source = arguments.source or write_source(folder)
    for scene in arguments.scene:
        try:
            told = play(scene, folder / scene.replace(" ", "_"), source)
            shutil.rmtree(folder / scene.replace(" ", "_"))
        except AssertionError as error:
            failed += 1
            told = [f"FAILED: {error}", f"tables in {folder}"]
        print("\n  ".join([scene, *told]), flush=True)
    return 1 if failed else 0


def write_source(folder: Path) -> Path:
    from etc_policy.adapters.spark_session import start_spark

    spark = start_spark({"spark.sql.shuffle.partitions": "2"}, folder / "spark.log")
    write_history(spark, folder / "source")
    stop_spark(spark)
    return folder / "source"


if __name__ == "__main__":
    sys.exit(main())
