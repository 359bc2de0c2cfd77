"""All options of the command line, made from the commands themselves, for docs/reference/options.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import NamedTuple

import click

from etc_policy.cli.main import COMMANDS, load_command

#: An option of at least so many commands is described once.
_SHARED = 4


class Row(NamedTuple):
    """An option as the page shows it."""

    name: str
    spelling: str
    says: str
    default: str


def leaf_commands() -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, with what is typed for it."""
    for name in COMMANDS:
        command = load_command(name)
        if isinstance(command, click.Group):
            yield from ((f"etc {name} {below}", found) for below, found in command.commands.items())
        else:
            yield f"etc {name}", command


def render_options() -> str:
    """What each command alone has, then what many have."""
    commands = dict(leaf_commands())
    users = Counter(row for command in commands.values() for row in rows_of(command))
    shared = {row for row, count in users.items() if count >= _SHARED}
    parts = list[str]()
    for name, command in commands.items():
        pieces = command.collect_usage_pieces(click.Context(command))
        usage = " ".join([name, *pieces]).replace("[[", "[").replace("]]", "]")  # doubled by click before 8.4
        parts += [f"## {name}\n", f"    {usage}\n", *_table(set(rows_of(command)) - shared)]
        names = ", ".join(f"`{row.name}`" for row in sorted(shared & set(rows_of(command))))
        parts.append(f"Of the [options of many commands](#options-of-many-commands): {names}.\n")
    return "\n".join([*parts, "## Options of many commands\n", *_table(shared)])


def rows_of(command: click.Command) -> list[Row]:
    """The options of a command, but for `--help`."""
    return [_row(one) for one in command.params if isinstance(one, click.Option)]


def _row(option: click.Option) -> Row:
    *short, name = sorted(option.opts, key=len)
    metavar = option.make_metavar(_CONTEXT)
    spelling = f"`{name}`" if option.is_flag else f"`{name} {metavar}`"
    says, _, default = (option.help or "").partition("  [default: ")
    shown = default.rstrip("]") or (str(option.default) if option.show_default else "")
    return Row(name, ", ".join([spelling, *(f"`{one}`" for one in short)]), says, shown)


_CONTEXT = click.Context(click.Command("etc"))


def _table(rows: Collection[Row]) -> Iterator[str]:
    if rows:
        yield "| option | says | default |\n|---|---|---|"
        yield from (f"| {' | '.join(cell.replace('|', _BAR) for cell in row[1:])} |" for row in sorted(rows))
        yield ""


_BAR = r"\|"
