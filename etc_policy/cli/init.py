"""`etc init`: a project to start from."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import click

from etc_policy.api.artifacts import create_text, write_text
from etc_policy.cli.messages import message_options, show_note
from etc_policy.cli.options import examples, output_option
from etc_policy.cli.terminal import print_json, print_text
from etc_policy.cli.value_types import PLACE
from etc_policy.errors import UsageError
from etc_policy.errors.codes import Code
from etc_policy.policy.files import POLICY_SCHEMA, read_schemas, read_template

#: File of the project -> file of the template.
_FILES = {"policies/orders.yml": "policies/orders.yml", "README.md": "README.md", ".gitignore": "gitignore"}
#: Those that a repository often has already: they stay as they are.
_MAY_BE_THERE = ("README.md", ".gitignore")


@click.command(
    "init",
    short_help="Start a project with one commented policy",
    epilog=examples("etc init warehouse", "etc init ."),
)
@click.argument("directory", metavar="DIR", type=PLACE)
@output_option
@message_options
def command(directory: Path, output: str) -> None:
    """Start a project with one commented policy.

    Makes DIR with policies/orders.yml, a README, a .gitignore, and the JSON Schema by which editors complete and check
    policy files. An existing file is never overwritten: a README and a .gitignore stay as they are.
    """
    present = [name for name in _FILES if os.path.lexists(directory / name)]
    if refused := [name for name in present if name not in _MAY_BE_THERE]:
        hint = "name another folder, or add policy files to this one by hand"
        raise UsageError(Code.ALREADY_THERE, f"`{directory / refused[0]}` is already there", hint=hint)
    new = [name for name in _FILES if name not in present]
    for name in new:
        create_text(directory, name, read_template(f"project/{_FILES[name]}"), "DIR")
    written = [directory / name for name in new]
    schema = f".etc/{POLICY_SCHEMA}"  # the modeline in policy files names it; one of an older version is replaced
    write_text(directory, schema, read_schemas()[POLICY_SCHEMA], "DIR")
    written.append(directory / schema)
    if output == "json":
        print_json(json.dumps({"schema_version": 1, "files": [str(path) for path in written]}, indent=2))
        return
    for path in written:
        print_text(str(path))
    if present:
        show_note(f"left as they are: {', '.join(present)}; `target/`, where commands write, belongs in .gitignore")
    show_note(f"\nnext: edit {written[0]}, then run\n  etc parse --project-dir {shlex.quote(str(directory))}")
