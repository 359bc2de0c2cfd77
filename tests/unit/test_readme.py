"""README says what is so."""

import re
from pathlib import Path

from etc_policy.cli.main import COMMANDS
from tests.unit.cli.test_help import commands

REPOSITORY = Path(__file__).resolve().parents[2]
README = (REPOSITORY / "README.md").read_text("utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def test_its_policy_is_the_demo_s():
    assert blocks("yaml")[0] == (REPOSITORY / "policies" / "flights.yml").read_text("utf-8")


def test_its_first_two_commands_are_one_line_each():
    demo, tests = blocks("sh")[:2]
    assert demo.count("\n") == tests.count("\n") == 1
    assert demo.rstrip().endswith(".venv/bin/etc demo")
    assert tests.rstrip().endswith(".venv/bin/pytest")


def test_its_table_names_every_command():
    assert re.findall(r"^\| `etc (\w+)", README, re.MULTILINE) == list(COMMANDS)


def test_the_paths_it_names_exist():
    named = re.findall(r"(?:\(|`|pytest )((?:tests|docs|policies|etc_policy)/[\w/.-]+)", README)
    assert named
    assert [path for path in named if not (REPOSITORY / path).exists()] == []


def test_the_commands_that_it_says_have_no_json():
    (sentence,) = re.findall(r"`--output json` is in all commands but (.*?)\.", README, re.DOTALL)
    named = set(re.findall(r"`([\w ]+)`", sentence))
    leaves = {path.removeprefix("etc "): command for path, command in commands() if not hasattr(command, "commands")}
    without = {path for path, command in leaves.items() if all(p.name != "output" for p in command.params)}
    assert {path if path in named else path.split()[0] for path in without} == named
    assert {path for path in leaves if path in named or path.split()[0] in named} == without


def test_the_commands_that_select():
    leaves = {path.removeprefix("etc "): command for path, command in commands() if not hasattr(command, "commands")}
    project = {path for path, command in leaves.items() if any(p.name == "project_dir" for p in command.params)}
    selecting = {path for path, command in leaves.items() if any(p.name == "select" for p in command.params)}
    assert project - selecting == {"wait", "history", "docs serve", "demo"}
    assert "while `wait` and `history` take names" in README
