"""`--help` of every command and of every command below one."""

import click
import pytest

from etc_policy.cli.main import COMMANDS, cli, load_command


def commands():
    yield "etc", cli
    for name in COMMANDS:
        command = load_command(name)
        yield f"etc {name}", command
        for below in getattr(command, "commands", {}).values():
            yield f"etc {name} {below.name}", below


@pytest.mark.parametrize(
    ("path", "command"), list(commands()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_help_has_examples_and_fits_eighty_columns(path, command):
    context = click.Context(command, info_name=path, terminal_width=80)
    text = command.get_help(context)
    _, _, examples = text.partition("Examples:")
    assert all(line.lstrip().startswith(("etc ", "eval ")) for line in examples.strip().splitlines())
    assert examples.strip()
    assert [line for line in text.splitlines() if len(line) > 80] == []
    for option in command.params:
        assert not isinstance(option, click.Option) or option.help, option.name
        shown = option.make_metavar(context)
        assert shown.split()[0] not in ("TEXT", "INTEGER", "FLOAT"), f"{option.name} says no more than its type"


@pytest.mark.parametrize(
    ("path", "own"), [("etc plan", "--explain"), ("etc apply", "--yes"), ("etc metrics serve", "--port")]
)
def test_what_a_command_alone_has_comes_first(path, own):
    text = dict(commands())[path].get_help(click.Context(dict(commands())[path], info_name=path))
    assert text.index(own) < text.index("--project-dir") < text.index("--quiet")
    assert "(" not in text.partition("--project-dir")[2].partition("--target ")[0]
