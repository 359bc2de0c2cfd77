"""What benchmarks share: an environment with Spark, and their figures as JSON, with the machine and the versions of them."""

from __future__ import annotations

import argparse
import json
import os
import platform
from contextlib import AbstractContextManager, closing
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from etc_policy.spark.session import DEFAULT_BUNDLE
from etc_policy.wiring import Environment

_PACKAGES = ("etc-policy", "pyspark", "great-expectations", "fastavro", "pydantic", "obstore")


def environment_in(folder: Path) -> AbstractContextManager[Environment]:
    """An environment without a project, whose Spark ends with the block; its log is in the folder."""
    return closing(Environment(folder, progress=lambda _: None, spark_log=folder / "spark.log"))


def add_json(parser: argparse.ArgumentParser) -> None:
    """The option that all benchmarks share."""
    parser.add_argument("--json", type=Path, help="write the figures to this file too")


def write_figures(path: Path | None, figures: object) -> None:
    """The file that `--json` names, if it names one."""
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**machine(), "figures": figures}, indent=1) + "\n", encoding="utf-8")


def read_figures(path: Path) -> Any:
    """The figures of a file."""
    return json.loads(path.read_text(encoding="utf-8"))["figures"]


def machine() -> dict[str, Any]:
    """What a figure depends on besides the code."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    return {
        "processors": os.cpu_count(),
        "model": models[0] if models else platform.processor(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "python": platform.python_version(),
        "bundle": os.environ.get("ETC_HUDI_BUNDLE", DEFAULT_BUNDLE),
        "versions": {name: found for name in _PACKAGES if (found := _version_of(name))},
    }


def _version_of(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
