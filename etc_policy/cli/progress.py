"""Progress on stderr: one plain line per step, with the time since the command began."""

from __future__ import annotations

import time
from collections.abc import Callable

import click


def progress_lines() -> Callable[[str], None]:
    """A function that prints a step; what is printed never goes to stdout."""
    began = time.monotonic()

    def show(step: str) -> None:
        click.secho(f"[{time.monotonic() - began:5.1f} s] {step}", err=True, dim=True)

    return show
