"""Progress on stderr: one plain line per step, with the time since the command began."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import click

from etc_policy.cli.options import target_name
from etc_policy.declare.settings import read_target
from etc_policy.wiring import Environment


def progress_lines() -> Callable[[str], None]:
    """A function that prints a step; what is printed never goes to stdout."""
    began = time.monotonic()

    def show(step: str) -> None:
        click.secho(f"[{time.monotonic() - began:5.1f} s] {step}", err=True, dim=True)

    return show


def open_environment(
    project_dir: Path, target_dir: Path, confs: Mapping[str, str] | None = None, *, metadata_only: bool = False
) -> Environment:
    """The outside world of a command; Spark's log goes to the target folder, with `--debug` to the terminal.

    Spark's settings are those of the project's target; `confs` win over them.
    """
    log = None if "--debug" in sys.argv else target_dir / "spark.log"
    return Environment(
        project_dir,
        progress_lines(),
        confs or {},
        log,
        target=read_target(str(project_dir), os.environ, target_name()),
        cache_dir=target_dir / "cache",
        metadata_only=metadata_only,
    )
