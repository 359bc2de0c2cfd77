"""Text for people: paths below the current folder are shown from there."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from etc_policy.cli.messages import SETTINGS, show_text
from etc_policy.cli.terminal import print_json, print_text
from etc_policy.table.formats import TEXT_WIDTH

if TYPE_CHECKING:
    from etc_policy.cli.options import Flags
    from etc_policy.policy.manifest import Frozen

_NARROWEST = 60
#: The first line of a table's block: its policy, two spaces, its path.
_HEAD = re.compile(r"[a-z][\w-]*(  \S|$)")
_COLOURS = {"PASS": "green", "WARN": "yellow", "FAIL": "red", "ERROR": "red", "UNKNOWN": "red"}
#: Not inside a path or a URI, nor where a quote begins: what is quoted so is part of a command, which is run anywhere.
_PATH_BEGINS = r"(?<![^\s`\"(\[])"
#: A verdict anywhere, and at the beginning of its line that of a check that did not pass.
_VERDICT = re.compile(rf"\b({'|'.join(_COLOURS)})\b|^ {{16}}(warn|fail|error)(?= )", re.MULTILINE)


def say(text: str, *, err: bool = False) -> None:
    """Print a text for people, nothing if it is empty; JSON is never passed through here."""
    if not text:
        return
    shown = from_here(text)
    if err and SETTINGS.json:
        show_text(shown)
        return
    SETTINGS.pause()
    coloured = SETTINGS.colour if err else SETTINGS.colour_output
    print_text(shown, err=err, paint=_painted if coloured else None)
    SETTINGS.said = sys.stdout.isatty() and sys.stderr.isatty()
    SETTINGS.above = " ".join(shown.split()) if SETTINGS.said else ""


def announce(text: str, *, asks: bool) -> None:
    """Print to stderr what is about to be done; with `--quiet` only where somebody is asked whether it may be."""
    if asks or not SETTINGS.quiet:
        say(text, err=True)


def show(flags: Flags, report: Frozen, text: Callable[[], str]) -> None:
    """Print a report to stdout in the form that was asked for."""
    if flags.output == "json":
        print_json(report.as_json(indent=2))
    else:
        say(text())


def from_here(text: str) -> str:
    """The text with paths below the current folder as they are seen from there; all paths are below the root folder."""
    try:
        here = str(Path.cwd())
    except OSError:  # the folder was removed
        return text
    return text if here == "/" else re.sub(rf"{_PATH_BEGINS}{re.escape(here)}/(?=\S)", "", text)


def _painted(text: str) -> str:
    """The text with bold names of tables and coloured verdicts."""
    lines = (click.style(line, bold=True) if _HEAD.match(line) else line for line in text.split("\n"))
    return _VERDICT.sub(_coloured, "\n".join(lines))


def _coloured(verdict: re.Match[str]) -> str:
    return click.style(verdict[0], fg=_COLOURS[verdict[0].strip().upper()], bold=True)


def text_width() -> int:
    """The columns to fold at: those of the terminal, but no longer lines than people read; the default where none is."""
    if not sys.stdout.isatty():
        return TEXT_WIDTH
    return max(_NARROWEST, min(shutil.get_terminal_size().columns, TEXT_WIDTH))


def ask(question: str) -> bool:
    """Ask on stderr, so that stdout stays data; only `y` and `yes` are a yes, and an end of input is an interruption."""
    SETTINGS.pause()
    if SETTINGS.json:
        show_text(f"{question} [y/N]")
    else:
        print_text(f"{question} [y/N]: ", newline=False, err=True)
    answer = sys.stdin.readline()
    if not answer:
        raise click.Abort
    return answer.strip().lower() in ("y", "yes")
