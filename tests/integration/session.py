"""Spark's processes: the end of a session with its Java, so that the next one starts afresh; tests under another bundle."""

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def stop_spark(spark) -> None:
    """Stops Spark and waits until its Java process is gone."""
    gateway = spark.sparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=60)
    type(spark.sparkContext)._gateway = type(spark.sparkContext)._jvm = None


def run_under_bundle(
    version: str, module: str, *arguments: str, timeout_seconds: int, python: str = sys.executable
) -> str:
    """What a module of the tests prints that runs as a process of its own under a bundle of Hudi, and ends well.

    `ETC_HUDI_BUNDLE_1_0` and the like, by the first two numbers of the version, name other bundles than Maven's.
    """
    other = "ETC_HUDI_BUNDLE_" + "_".join(version.split(".")[:2])
    bundle = os.environ.get(other, f"org.apache.hudi:hudi-spark3.5-bundle_2.12:{version}")
    result = subprocess.run(
        [python, "-m", module, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
        cwd=REPOSITORY,
        env={**os.environ, "ETC_HUDI_BUNDLE": bundle, "PYSPARK_PYTHON": python},
    )
    assert result.returncode == 0, result.stdout + result.stderr[-4000:]
    return result.stdout
