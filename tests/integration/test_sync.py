"""What the RO table's properties say, in a Hive metastore over thrift and in one on Derby inside Spark."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.metastore import metastore_jars, missing_tools, network_namespace

pytestmark = [pytest.mark.spark, pytest.mark.extended]
REPOSITORY = Path(__file__).resolve().parents[2]


def play(*arguments, within=()):
    done = subprocess.run(
        [*within, sys.executable, "-m", "tests.integration.sync_scenario", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=1200,
        cwd=REPOSITORY,
    )
    assert (done.returncode, done.stdout) == (0, "passed\n"), done.stderr[-6000:]


def test_metastore_over_thrift(no_spark, tmp_path):
    missing = missing_tools()
    if missing and not os.environ.get("CI"):
        pytest.skip(f"not here: {', '.join(missing)}")
    assert not missing
    jars = metastore_jars()
    with network_namespace() as name:
        play("thrift", tmp_path, jars, within=("ip", "netns", "exec", name))


def test_derby_in_this_process(no_spark, tmp_path):
    play("derby", tmp_path)
