"""Commands that messages, hints and pages name are commands that `etc` has; some of a table's hints are run."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest

from etc_policy.cli.main import cli
from etc_policy.policy.hudi_options import EXPIRY, FILE_PROVIDER, PROVIDER
from tests.unit.hudi.table_folder import TableFolder, at, base, log

REPOSITORY = Path(__file__).resolve().parents[3]
COMMAND = re.compile(r"`(etc [^`]*)`")
#: What Prometheus fills in.
VALUE = re.compile(r"\{\{.*?\}\}")


def commands():
    """Each command of etc in backticks of a text of the package that is no docstring; a value's place is `{}`."""
    found = {}
    for path in sorted((REPOSITORY / "etc_policy").rglob("*.py")):
        source = path.read_text("utf-8")
        for text, line in texts(ast.parse(source)) if "`etc " in source else ():
            for command in COMMAND.findall(text):
                found.setdefault(command, f"{path.relative_to(REPOSITORY)}:{line}")
    return found


def texts(tree):
    nodes = list(ast.walk(tree))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if id(node) in docstrings or id(node) in parts:
            continue
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values), node.lineno
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value, node.lineno


def commands_for_people():
    """Each command of etc in backticks: of messages, of pages and of what is written from templates."""
    pages = [REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md"), *(REPOSITORY / "templates").rglob("*.*")]
    found = commands()
    for page in sorted(pages):
        for command in COMMAND.findall(page.read_text("utf-8")):
            found.setdefault(" ".join(VALUE.sub("{}", command).split()), str(page.relative_to(REPOSITORY)))
    return {command: place for command, place in found.items() if "COMMAND" not in command}


FOR_PEOPLE = commands_for_people()


@pytest.mark.parametrize("command", sorted(FOR_PEOPLE))
def test_it_is_a_command_of_etc_with_its_options_and_arguments(command):
    words, found = shlex.split(command.replace("{}", "x").partition(" > ")[0])[1:], cli
    context = click.Context(cli)
    while words and isinstance(found, click.Group) and not words[0].startswith("--"):
        name = words.pop(0)
        found = found.get_command(context, name)
        assert found is not None, f"{FOR_PEOPLE[command]}: there is no command `{name}`"
    try:
        _, surplus, _ = found.make_parser(click.Context(found)).parse_args(words)
    except click.UsageError as error:
        surplus = [error.format_message()]
    assert surplus == [], FOR_PEOPLE[command]


def test_no_message_and_no_page_for_users_needs_a_statistician():
    """What a figure means for the reader is said in words of the day."""
    sources = {path: texts(ast.parse(path.read_text("utf-8"))) for path in (REPOSITORY / "etc_policy").rglob("*.py")}
    found = [(path, text) for path, said in sources.items() for text, _ in said]
    pages = [REPOSITORY / "README.md", *(REPOSITORY / "docs").glob("*/*.md"), *(REPOSITORY / "docs").glob("*.md")]
    found += [(page, page.read_text("utf-8")) for page in pages if page.parent.name not in ("facts", "upstream")]
    words = re.compile(r"chance of|\b1 in \d|probabilit|confidence interval|standard deviation|percentile|median")
    assert [(path.name, word[0]) for path, text in found if (word := words.search(text))] == []


@pytest.fixture
def table(project):
    """A delta commit, and late data in a log file that nobody has compacted."""
    table = TableFolder(project / "lake" / "orders")
    table.commit(at("09:00:00"), at("09:00:05"), base("f"))
    table.commit(at("10:00:00"), at("10:00:05"), log("f", min_event=1_700_000_000_000))
    return table


def test_a_wait_that_timed_out_names_a_plan(etc, table):
    until = ("--until", "2026-01-01T10:00:00Z", "--timeout", "0s")
    code, _, err = etc("wait", "--select", "orders_ro", *until)
    assert code == 4
    (command,) = re.findall(r"`etc (plan [^`]*)`", err)
    code, out, _ = etc(*command.split(), "--output", "json")
    assert (code, [one["action"] for one in json.loads(out)["tables"]]) == (0, ["compact"])


def test_a_lock_that_a_dead_writer_left_is_removed_as_debug_says(etc, project, table):
    policy = project / "policies" / "a.yml"
    lock = f"writer: {{lock: {{{PROVIDER}: {FILE_PROVIDER}, {EXPIRY}: '5'}}, lock_wait: 1s}}"
    policy.write_text(
        policy.read_text().replace("log_file_max_size: 1 MiB", lock).replace("lake/orders", "my lake/orders")
    )
    (project / "lake").rename(project / "my lake")
    left = project / "my lake" / "orders" / ".hoodie" / "lock"
    left.touch()
    os.utime(left, (1_700_000_000, 1_700_000_000))

    def hint():
        _, out, _ = etc("debug", "--select", "orders_ro", "--output", "json")
        return next(one["hint"] for one in json.loads(out)["findings"] if one["check"] == "lock")

    (command,) = re.findall(r"`(rm [^`]*)`", hint())
    subprocess.run(shlex.split(command), check=True)
    assert not left.exists()
    assert "rm " not in (hint() or "")
