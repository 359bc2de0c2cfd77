"""Text for people: paths below the current folder are shown from there."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

from etc_policy.plan.formats import TEXT_WIDTH

_NARROWEST = 60


def say(text: str, *, err: bool = False) -> None:
    """Print a text for people; JSON is never passed through here."""
    click.echo(text.replace(f"{Path.cwd()}/", ""), err=err)


def text_width() -> int:
    """The columns to fold at: those of the terminal, but no longer lines than people read; the default where none is."""
    if not sys.stdout.isatty():
        return TEXT_WIDTH
    return max(_NARROWEST, min(shutil.get_terminal_size().columns, TEXT_WIDTH))


def ask(question: str) -> bool:
    """Ask on stderr, so that stdout stays data; only `y` and `yes` are a yes, and an end of input is an interruption."""
    click.echo(f"{question} [y/N]: ", nl=False, err=True)
    answer = sys.stdin.readline()
    if not answer:
        raise click.Abort
    return answer.strip().lower() in ("y", "yes")
