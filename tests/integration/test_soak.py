"""Short soaks of the default index, on disk and in a bucket. Longer ones: `python -m tests.integration.soak`."""

import re
import subprocess
import sys

import pytest

from tests.integration.kills import REPOSITORY

pytestmark = [pytest.mark.spark, pytest.mark.extended]
MINUTES, BATCHES, SEED = 1, 5, 1
#: Of a table in a bucket, with Hudi's storage-based lock: two runs of etc, and a cleaner.
IN_A_BUCKET = ("--where", "moto", "--beside", "1", "--cleaner")


@pytest.mark.parametrize("where", [(), IN_A_BUCKET], ids=["disk", "bucket"])
def test_a_minute_beside_two_writers(no_spark, tmp_path, where):
    """Its last lines say what happened; it ends with 1 where a row was lost, doubled or promised too early."""
    lasts = ["--minutes", str(MINUTES), "--batches", str(BATCHES), "--expire", "0"]
    command = [sys.executable, "-m", "tests.integration.soak", "--index", "simple", "--seed", str(SEED), *lasts]
    command += ["--folder", str(tmp_path / "soak"), *where]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = re.search(
        r"(\d+) batches acknowledged.* (\d+) applies, (\d+) compactions.* (\d+) checkpoints", done.stdout
    )
    assert counts, done.stdout
    batches, applies, compactions, checkpoints = map(int, counts.groups())
    assert batches >= BATCHES
    assert applies >= 2
    assert compactions >= 1
    assert checkpoints == 1
