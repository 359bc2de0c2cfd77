"""`etc apply` beside others at work on the same table: `python -m tests.integration.beside [SCENE ...]`.

`shared` and `alone` are stock writers in a process of their own that never stop: with optimistic concurrency and a lock that
the policy declares, and a single writer without any. With `cleaner` it cleans and archives at low limits, with `inline` it runs
any pending compaction, ours too. `frozen` holds a run at a step of its commit while a single writer without a lock commits
beside it, `frozen writer` holds such a writer while a run goes to its end. `stolen` is a run that was frozen, lost its lease
by force, and wakes up again. `interrupted` gets a Ctrl-C at each step, and the next run finishes what it had begun.
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

from tests.integration.beside_writer import look_afterwards, start_writer, stop_writer, words_of
from tests.integration.held import AT_STEPS, freeze
from tests.integration.history import HISTORY, Oracle, write_history
from tests.integration.kill_checks import check_files, check_views
from tests.integration.kills import (
    REPOSITORY,
    Project,
    exit_when_told,
    wait_for_group,
)
from tests.integration.session import stop_spark

SCENES = (
    "shared cleaner",
    "alone cleaner",
    "shared inline",
    "alone inline",
    "frozen",
    "frozen writer",
    "stolen",
    "interrupted",
)
ROUNDS = 4
LOCK = """    writer:
      lock:
        hoodie.write.lock.provider: org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider
        hoodie.write.lock.filesystem.path: {path}
        hoodie.write.lock.filesystem.expire: "1"
        hoodie.write.lock.wait_time_ms_between_retry: "200"
        hoodie.write.lock.num_retries: "100"
"""


def beside_writer(project: Project, source: Path, kind: str) -> list[str]:
    """Several runs beside a writer that goes on, and one after it; returns what happened."""
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
    done, line = stop_writer(table, writer)
    return [*told, line, *look_afterwards(project, table, done)]


def stolen(project: Project, source: Path, step: str) -> list[str]:
    """A run is frozen, its lease removed by force and its heartbeat old: another takes over; then the first wakes up."""
    from etc_policy.spark.session import start_spark

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
    assert (code, "ETC009" in first_words.read_text()) == (3, False), first_words.read_text()
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
    if scene in AT_STEPS:
        held, steps = AT_STEPS[scene]
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
    from etc_policy.spark.session import start_spark

    spark = start_spark({"spark.sql.shuffle.partitions": "2"}, folder / "spark.log")
    write_history(spark, folder / "source")
    stop_spark(spark)
    return folder / "source"


if __name__ == "__main__":
    sys.exit(main())
