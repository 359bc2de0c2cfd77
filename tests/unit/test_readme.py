"""README says what is so."""

import re
from pathlib import Path

from etc_policy.cli.main import COMMANDS

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
