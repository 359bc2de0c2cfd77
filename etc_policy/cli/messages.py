"""What goes to stderr: notes, progress, warnings and errors; as text for people or as JSON, one object a line.

`--quiet`, `--log-format`, `--debug` and NO_COLOR are read once, from the bare arguments: what fails before the command
line is understood is reported in the right form too.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

import click

from etc_policy.errors import Issue

_COLOURS = {"error": "red", "warning": "yellow"}
_WIDEST, _NARROWEST = 120, 60
_LABEL = re.compile(r"^(error|warning)\[\w+\]|^hint")


@dataclass(slots=True)
class MessageSettings:
    """How messages are shown; `colour` is about stderr, `colour_output` about stdout, `plain` means nobody watches a terminal.

    `said` is whether a report is already above, on the same terminal. `pause` ends a moving line of progress, so that
    something can be printed.
    """

    quiet: bool = False
    json: bool = False
    debug: bool = False
    colour: bool = False
    colour_output: bool = False
    plain: bool = True
    said: bool = False
    pause: Callable[[], None] = lambda: None


SETTINGS = MessageSettings()


def configure(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """Take the settings from the command line as it was typed, and from the environment."""
    SETTINGS.pause, SETTINGS.said = lambda: None, False
    SETTINGS.quiet = bool({"--quiet", "-q"} & set(arguments))
    SETTINGS.json = "--log-format=json" in arguments or ("--log-format", "json") in pairwise(arguments)
    SETTINGS.debug = "--debug" in arguments
    terminal = sys.stderr.isatty() and environ.get("TERM") != "dumb"
    coloured = not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
    SETTINGS.colour = terminal and coloured and not SETTINGS.json
    SETTINGS.colour_output = sys.stdout.isatty() and coloured
    SETTINGS.plain = not terminal or bool(environ.get("CI")) or SETTINGS.json


def show_note(text: str) -> None:
    """A note that nobody has to read."""
    if not SETTINGS.quiet:
        SETTINGS.pause()
        _line("info", text)


def show_step(text: str, elapsed_seconds: float) -> None:
    """A step of a longer work, with the seconds since the command began."""
    if SETTINGS.quiet:
        return
    if SETTINGS.json:
        _line("info", text, elapsed_seconds=round(elapsed_seconds, 1))
    else:
        click.secho(f"[{elapsed_seconds:5.1f} s] {text}", err=True, dim=True, color=SETTINGS.colour)


def show_issues(issues: Sequence[Issue], *, cause: str | None = None, stack: str | None = None) -> None:
    """Errors and warnings; `--quiet` hides warnings. The engine's own words and the stack follow the last."""
    SETTINGS.pause()
    shown = [issue for issue in issues if issue.level == "error" or not SETTINGS.quiet]
    if SETTINGS.json:
        for issue in shown:
            more = {"cause": cause, "stack": stack} if issue is shown[-1] else {}
            _line(issue.level, issue.message, **_fields(issue), **more)
        return
    parts = [_painted(issue) for issue in shown]
    parts += [f"cause: {cause.strip()}"] if cause else []
    parts += [stack.rstrip()] if stack else []
    if parts:
        parts[0] = "\n" * SETTINGS.said + parts[0]
        click.echo("\n\n".join(parts), err=True, color=SETTINGS.colour)


def show_warning(issue: Issue) -> None:
    """A warning while the command goes on, with an empty line behind it."""
    show_issues([issue])
    if not SETTINGS.quiet and not SETTINGS.json:
        click.echo(err=True)


def _line(level: str, message: str, **fields: object) -> None:
    if not SETTINGS.json:
        click.echo(message, err=True, color=SETTINGS.colour)
        return
    import json

    always = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "level": level, "message": message.strip()}
    known = {name: value for name, value in fields.items() if value is not None}
    click.echo(json.dumps({**always, **known}), err=True)


def _fields(issue: Issue) -> dict[str, object]:
    where = issue.where
    place = (
        {"path": where.path, "line": where.line, "column": where.column, "policy": where.object_name} if where else {}
    )
    return {"code": str(issue.code), **place, "hint": issue.hint}


def _painted(issue: Issue) -> str:
    text = str(issue)
    if sys.stderr.isatty():
        import shutil

        width = max(_NARROWEST, min(shutil.get_terminal_size().columns, _WIDEST))
        text = "\n".join(_folded(line, width) for line in text.splitlines())
    if not SETTINGS.colour:
        return text
    colour = _COLOURS.get(issue.level, "red")
    return re.sub(
        _LABEL.pattern,
        lambda found: (
            click.style(found[0], fg="cyan") if found[0] == "hint" else click.style(found[0], colour, bold=True)
        ),
        text,
        flags=re.MULTILINE,
    )


def _folded(line: str, width: int) -> str:
    """A long line folded between words; places and source lines (indented) stay whole, so that they can be clicked."""
    if len(line) <= width or line.startswith(" "):
        return line
    import textwrap

    return textwrap.fill(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
