"""`etc apply` beside a lock that a stranger left, by the file that Hudi's own lock provider knows; its own: `test_kills.py`."""

import os
import time

import pytest

from tests.integration.kills import LOCK, Project

pytestmark = [pytest.mark.spark, pytest.mark.extended]


def test_a_strangers_lock_is_shown_and_ends_the_run_in_time(no_spark, written_table, tmp_path):
    project = Project(tmp_path)
    table = project.add("t", written_table, level="metadata", lock=LOCK)
    lock = table.meta / "lock"
    lock.touch()
    long_ago = time.time() - 7200
    os.utime(lock, (long_ago, long_ago))
    process = project.start("apply", "--yes")
    assert process.wait(timeout=240) == 4, project.stderr
    assert f"waiting for the lock `{lock}`, held by a process of user " in project.stderr
    assert "error[ETC422]" in project.stderr
    assert f"`rm {lock}`" in " ".join(project.stderr.split())
    assert lock.exists()
    lock.unlink()
    assert project.apply()["t"]["status"] == "compacted"
