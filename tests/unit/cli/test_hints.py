"""Every command that a message or a hint names: it is one that `etc` has, and a test runs it on a table it is printed for."""

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
from tests.unit.adapters.table_folder import TableFolder, at, base, log

REPOSITORY = Path(__file__).resolve().parents[3]
COMMAND = re.compile(r"`((?:etc|CALL|rm|ls|pip) [^`]*)`")
#: What Prometheus fills in.
VALUE = re.compile(r"\{\{.*?\}\}")
#: What is named in a hint of a table's trouble, and the test that runs it on a table that it is printed for.
_FINISH = "integration/test_finish.py::"
_REPAIR = "unit/cli/test_repair.py::test_it_is_recognised_shown_and_repaired"
_SYNC = "unit/cli/test_sync.py::test_a_catalog_that_does_not_answer"
_VERIFY = "unit/cli/test_apply.py::test_a_verification_that_passes_proves_it"
_LEVEL = "unit/api/test_log_witness.py::test_a_policy_may_insist_on_a_proof"
_CLUSTER = "integration/test_cluster.py::"
RUN_BY = {
    "etc apply --submit": f"{_CLUSTER}test_a_saved_plan_is_submitted_as_a_job_that_needs_no_file_of_the_project",
    "CALL delete_metadata_table(table => 'db.table')": f"{_FINISH}test_the_metadata_table_of_a_hint_is_built_again",
    "etc apply": "integration/test_kills.py::test_one_run_mends_all",
    "etc apply --select {}": "integration/test_apply_process.py::test_beside_a_run_and_after_its_death",
    "etc finish": f"{_FINISH}test_the_hint_of_a_refused_plan_finishes_the_service_and_keeps_all_indexes",
    "etc finish --select {}": f"{_FINISH}test_the_hint_of_a_refused_plan_finishes_the_service_and_keeps_all_indexes",
    "etc finish --select NAME": f"{_FINISH}test_the_hint_of_a_refused_plan_finishes_the_service_and_keeps_all_indexes",
    "etc plan --select {}": "unit/cli/test_hints.py::test_a_wait_that_timed_out_names_a_plan",
    "etc repair": _REPAIR,
    "etc repair {}": _REPAIR,
    "etc sync": _SYNC,
    "etc sync --select {}": _SYNC,
    "etc undo": "integration/test_apply_process.py::test_killed_then_undone_then_applied",
    "etc verify": _VERIFY,
    "etc verify --level data": "integration/test_double_keys.py::test_it_is_found_and_mended",
    "etc verify --level metadata": "unit/api/test_side_by_side.py::"
    "test_each_command_reports_every_table_in_the_policies_order",
    "etc verify --level {}": _LEVEL,
    "etc verify --select {}": _VERIFY,
    "etc verify --select {} --level {}": _LEVEL,
    "rm {}": "unit/cli/test_hints.py::test_a_lock_that_a_dead_writer_left_is_removed_as_debug_says",
}
#: Commands that are no advice on a table: of the project, of the installation, and of what to read.
ELSEWHERE = re.compile(
    r"etc (compile|debug|demo|docs|explain|freshness|history|init|ls|parse|plan|schema|COMMAND|apply FILE)\b"
    r"|etc verify --output|pip |ls "
)


def commands():
    """Each command in backticks of a text of the package that is no docstring; a value's place is `{}`."""
    found = {}
    for path in sorted((REPOSITORY / "etc_policy").rglob("*.py")):
        for text, line in texts(ast.parse(path.read_text("utf-8"))):
            for command in COMMAND.findall(text):
                found.setdefault(command, f"{path.relative_to(REPOSITORY)}:{line}")
    return found


def texts(tree):
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if id(node) in docstrings or id(node) in parts:
            continue
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values), node.lineno
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value, node.lineno


COMMANDS = commands()


def test_every_command_on_a_table_is_run_by_a_test():
    on_tables = {command for command in COMMANDS if command in RUN_BY or not ELSEWHERE.match(command)}
    assert on_tables == set(RUN_BY), "a new hint: run it in a test on a table that it is printed for"


@pytest.mark.parametrize("place", sorted(set(RUN_BY.values())))
def test_the_test_is_there(place):
    file, _, name = place.partition("::")
    assert re.search(
        rf"^ *def {name}\(" if name else "", (REPOSITORY / "tests" / file).read_text("utf-8"), re.MULTILINE
    )


def commands_for_people():
    """Each command of etc in backticks: of messages, of pages and of what is written from templates."""
    pages = [REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md"), *(REPOSITORY / "templates").rglob("*.*")]
    found = {command: place for command, place in COMMANDS.items() if command.startswith("etc ")}
    for page in sorted(pages):
        for command in COMMAND.findall(page.read_text("utf-8")):
            if command.startswith("etc "):
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
