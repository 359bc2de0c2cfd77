"""A secret among Spark's settings reaches the engine and no list of processes."""

from pathlib import Path

import pytest

from tests.integration.conftest import SECRET, SECRET_KEY

pytestmark = pytest.mark.spark


def test_a_secret_is_no_argument_of_a_process(spark):
    assert spark.sparkContext.getConf().get(SECRET_KEY) == SECRET
    assert spark._jsc.hadoopConfiguration().get(SECRET_KEY.removeprefix("spark.hadoop.")) == SECRET
    commands = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            commands.append(file.read_bytes())
        except OSError:  # the process has ended
            continue
    assert any(b"spark.default.parallelism=2" in command for command in commands)
    assert not any(SECRET.encode() in command for command in commands)
