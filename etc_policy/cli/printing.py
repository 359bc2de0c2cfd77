"""Text for people: paths below the current folder are shown from there."""

from __future__ import annotations

from pathlib import Path

import click


def say(text: str, *, err: bool = False) -> None:
    """Print a text for people; JSON is never passed through here."""
    click.echo(text.replace(f"{Path.cwd()}/", ""), err=err)
