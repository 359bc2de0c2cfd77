"""What goes to stderr: notes, progress, warnings and errors; as text for people or as JSON, one object a line.

`--quiet`, `--log-format`, `--debug` and NO_COLOR are read from the bare arguments first: what fails before the command line is
understood is reported in the right form too. What click has understood then counts instead: `-qs NAME`, the last of two.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import click

from etc_policy.cli.terminal import print_json, print_text
from etc_policy.errors import EtcError, Issue, SeveralErrors
from etc_policy.errors.plain_text import one_line

Function = TypeVar("Function", bound=Callable[..., Any])

_COLOURS = {"error": "red", "warning": "yellow"}
_WIDEST, _NARROWEST = 120, 60
_GIVEN = "etc_policy.messages"
_LABEL = re.compile(r"^(error|warning)\[\w+\]|^hint(?=: )", re.MULTILINE)
#: So many of a kind are shown whole; from one more on they are folded.
SHOWN_WHOLE = 3
#: As much of a message is shown.
_MOST_LETTERS = 20_000
#: What is no longer may be in a report by chance.
_SHORT = 40
#: So many places of the others are named.
NAMED = 10
#: So many warnings are known again: a process may go on for weeks, and each of its rounds may have other ones.
_MOST_WARNED = 1_000
#: What differs between findings of one kind besides the policy's name: paths, instants.
_DIFFERING = re.compile(r"/[^\s,;:`]+|\d{14,}")


@dataclass(slots=True)
class MessageSettings:
    """How messages are shown; `colour` is about stderr, `colour_output` about stdout, `plain` means nobody watches a terminal.

    `said` is whether a report is already above, on the same terminal, and `above` what it says. `pause` ends a moving line of
    progress, so that something can be printed. `warned` is what this command has warned of, and of what kind each is.
    """

    quiet: bool = False
    json: bool = False
    debug: bool = False
    colour: bool = False
    colour_output: bool = False
    plain: bool = True
    said: bool = False
    above: str = ""
    pause: Callable[[], None] = lambda: None
    warned: dict[Issue, tuple[str, ...]] = field(default_factory=dict)


SETTINGS = MessageSettings()


def _keep(context: click.Context, parameter: click.Parameter, value: str | bool | None) -> None:
    """Take the setting that click has understood: before the command's name, or behind it, which wins."""
    name, given = str(parameter.name), context.meta.setdefault(_GIVEN, {})
    given[name] = value or given.get(name)
    if isinstance(context.command, click.Group):  # what comes behind it is not yet understood
        return
    if name == "log_format":
        _set_form(os.environ, json=given[name] == "json")
    else:
        setattr(SETTINGS, name, bool(given[name]))


_MESSAGE_OPTIONS = (
    click.option(
        "--quiet",
        "-q",
        is_flag=True,
        expose_value=False,
        callback=_keep,
        help="No progress, notes or warnings; errors only.",
    ),
    click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        expose_value=False,
        callback=_keep,
        help="Form of what goes to stderr; json is an object a line.  [default: text]",
    ),
    click.option("--debug", is_flag=True, expose_value=False, callback=_keep, help="Show the stack of an error."),
)


def message_options(function: Function) -> Function:
    """Adds `--quiet`, `--log-format` and `--debug`, which set how messages are shown."""
    for option in reversed(_MESSAGE_OPTIONS):
        function = option(function)
    return function


def configure(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """Take the settings from the command line as it was typed, and from the environment."""
    SETTINGS.pause, SETTINGS.said, SETTINGS.above = lambda: None, False, ""
    SETTINGS.warned.clear()
    SETTINGS.quiet = bool({"--quiet", "-q"} & set(arguments))
    SETTINGS.debug = "--debug" in arguments
    is_json = "--log-format=json" in arguments or ("--log-format", "json") in pairwise(arguments)
    _set_form(environ, json=is_json)


def _set_form(environ: Mapping[str, str], *, json: bool) -> None:
    SETTINGS.json = json
    terminal = sys.stderr.isatty() and environ.get("TERM") != "dumb"
    coloured = not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
    SETTINGS.colour = terminal and coloured and not SETTINGS.json
    SETTINGS.colour_output = sys.stdout.isatty() and coloured
    SETTINGS.plain = not terminal or bool(environ.get("CI")) or SETTINGS.json


def show_note(text: str) -> None:
    """A note that nobody has to read."""
    if not SETTINGS.quiet:
        SETTINGS.pause()
        _line("info", text if SETTINGS.json else _folded(text))


def show_text(text: str) -> None:
    """A text that `--quiet` does not hide: help where a command is missing, what somebody is asked."""
    SETTINGS.pause()
    _line("info", text)


def show_step(text: str, elapsed_seconds: float) -> None:
    """A step of a longer work, with the seconds since the command began."""
    if SETTINGS.quiet:
        return
    if SETTINGS.json:
        _line("info", text, elapsed_seconds=round(elapsed_seconds, 1))
    else:
        paint = partial(click.style, dim=True) if SETTINGS.colour else None
        print_text(_folded(f"[{elapsed_seconds:5.1f} s] {one_line(text)}"), err=True, paint=paint)


def show_issues(issues: Sequence[Issue], *, cause: str | None = None, stack: str | None = None) -> None:
    """Errors and warnings; `--quiet` hides warnings. The cause of all of the errors and the stack follow the last."""
    SETTINGS.pause()
    shown = [issue for issue in issues if issue.level == "error" or not SETTINGS.quiet]
    if SETTINGS.json:
        for issue in shown:
            more = {"cause": cause if issue.level == "error" else None, "stack": stack if issue is shown[-1] else None}
            _line(**{**issue_fields(issue), **more})
        return
    parts = [_folded(_shortened(text)) for text in fold_alike(map(_once, shown))]
    parts += [_shortened(f"cause: {cause.strip()}")] if cause else []
    parts += [stack.rstrip()] if stack else []
    if parts:
        parts[0] = "\n" * SETTINGS.said + parts[0]
        print_text("\n\n".join(parts), err=True, paint=_painted if SETTINGS.colour else None)


def show_error(error: EtcError) -> None:
    """All that an error says, of several tables those first that have no cause, and each cause once; the stack with `--debug`."""
    groups: dict[str | None, list[Issue]] = {None: []}
    for one in error.errors if isinstance(error, SeveralErrors) else (error,):
        groups.setdefault(one.cause, []).extend(one.issues)
    last = next(reversed(groups))
    for cause, issues in groups.items():
        if issues:
            show_issues(issues, cause=cause, stack=stack_of(error) if cause == last else None)
        if issues and cause != last and not SETTINGS.json and not SETTINGS.said:
            print_text(err=True)
    errors = sum(issue.level == "error" for issue in error.issues)
    if errors > 1 and not SETTINGS.json:
        show_note(f"\n{errors} errors")


def unexpected_text(error: BaseException) -> str:
    """What is said of an error that nobody has foreseen."""
    text = " ".join(str(error).split()) or "no message"
    return f"unexpected {type(error).__name__}: {text[:500]}"


def stack_of(error: BaseException) -> str | None:
    """Where an error came from, with `--debug`."""
    if not SETTINGS.debug:
        return None
    import traceback

    gathered = error.errors if isinstance(error, SeveralErrors) else (error,)
    return "\n".join("".join(traceback.format_exception(one)) for one in gathered)


def _once(issue: Issue) -> Issue:
    """The issue; without its reason and its hint where the report above has them."""
    head, _, reason = issue.message.partition(": ")
    is_above = len(reason) > _SHORT and " ".join(reason.split()) in SETTINGS.above
    hint = None if issue.hint and " ".join(issue.hint.split()) in SETTINGS.above else issue.hint
    return replace(issue, message=f"{head}, as said above" if is_above else issue.message, hint=hint)


def show_warning(issue: Issue) -> bool:
    """A warning while the command goes on, an empty line behind it; of many alike only their places, and each place and each
    hint once.

    False where the very same one was before.
    """
    if issue in SETTINGS.warned:
        return False
    if len(SETTINGS.warned) >= _MOST_WARNED:
        SETTINGS.warned.clear()
    kind = kind_of(issue)
    alike = [one for one, other in SETTINGS.warned.items() if other == kind]
    is_hinted = not SETTINGS.json and any(one.hint == issue.hint for one in SETTINGS.warned)
    SETTINGS.warned[issue] = kind
    if not SETTINGS.json and issue.where and any(_place(one) == _place(issue) for one in alike):
        return True
    if len(alike) >= SHOWN_WHOLE and not SETTINGS.json:
        show_note(f"{issue.level}[{issue.code}] too: {one_line(str(issue.where) if issue.where else issue.message)}")
        return True
    show_issues([replace(issue, hint=None) if is_hinted else issue])
    if not SETTINGS.quiet and not SETTINGS.json:
        print_text(err=True)
    return True


def _place(issue: Issue) -> tuple[str, int | None, int | None] | None:
    """What defaults of many policies share."""
    return (issue.where.path, issue.where.line, issue.where.column) if issue.where else None


def _line(level: str, message: str, **fields: object) -> None:
    if not SETTINGS.json:
        print_text(message, err=True)
        return
    import json

    always = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "level": level, "message": message.strip()}
    known = {name: value for name, value in fields.items() if value is not None}
    print_json(json.dumps({**always, **known}), err=True)


def issue_fields(issue: Issue) -> dict[str, Any]:
    """An issue as JSON has it."""
    where = issue.where
    return {
        "level": issue.level,
        "code": str(issue.code),
        "message": issue.message,
        "path": where.path if where else None,
        "line": where.line if where else None,
        "column": where.column if where else None,
        "policy": where.object_name if where else None,
        "hint": issue.hint,
    }


def _painted(text: str) -> str:
    """The text with coloured labels."""
    return _LABEL.sub(_coloured, text)


def _coloured(label: re.Match[str]) -> str:
    return click.style(label[0], _COLOURS[label[1]], bold=True) if label[1] else click.style(label[0], fg="cyan")


def _shortened(text: str) -> str:
    """The text, of one that nobody reads its begin and end: a name may have a million letters."""
    if len(text) <= _MOST_LETTERS:
        return text
    half = _MOST_LETTERS // 2
    return f"{text[:half]} ... {len(text) - 2 * half:,} characters ... {text[-half:]}"


def _folded(text: str) -> str:
    """The text with long lines folded where a terminal shows it."""
    if not sys.stderr.isatty():
        return text
    import shutil

    width = max(_NARROWEST, min(shutil.get_terminal_size().columns, _WIDEST))
    return "\n".join(_folded_line(line, width) for line in text.split("\n"))


def _folded_line(line: str, width: int) -> str:
    """A long line folded between words; places and source lines (indented) stay whole, so that they can be clicked."""
    if len(line) <= width or line.startswith(" "):
        return line
    import textwrap

    return textwrap.fill(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def fold_alike(issues: Iterable[Issue]) -> Iterator[str]:
    """A text for each finding, or for each kind of which there are many, in the order in which they come first."""
    kinds: dict[tuple[str, ...], list[Issue]] = {}
    for issue in issues:
        kinds.setdefault(kind_of(issue), []).append(issue)
    for kind in kinds.values():
        if len(kind) <= SHOWN_WHOLE:
            yield from map(str, kind)
        else:
            yield f"{kind[0]}\n\n{_others(kind[1:])}"


def kind_of(issue: Issue) -> tuple[str, ...]:
    """What findings of one kind share; another key, value or reason is another kind."""
    name = issue.where.object_name if issue.where and issue.where.object_name else ""
    texts = (text.replace(f"`{name}`", "``") if name else text for text in (issue.message, issue.hint or ""))
    return (issue.level, issue.code, *(_DIFFERING.sub("", text).replace(f" {name}`", " `") for text in texts))


def _others(issues: Sequence[Issue]) -> str:
    lines = [f"{len(issues)} more like it:"]
    lines += [f"  --> {one_line(str(issue.where) if issue.where else issue.message)}" for issue in issues[:NAMED]]
    if len(issues) > NAMED:
        lines.append(f"  and {len(issues) - NAMED} more")
    return "\n".join(lines)
