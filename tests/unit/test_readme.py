"""README is a front door: short, with the demo's own policy, and all that it names exists."""

import re
from pathlib import Path

from tests.unit.test_docs import commands_of

REPOSITORY = Path(__file__).resolve().parents[2]
README = (REPOSITORY / "README.md").read_text("utf-8")
MAX_LINES = 120


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def test_it_is_short():
    assert len(README.splitlines()) <= MAX_LINES


def test_its_policy_is_the_demo_s():
    assert blocks("yaml")[0] == (REPOSITORY / "policies" / "flights.yml").read_text("utf-8")


def test_its_first_two_commands_are_one_line_each():
    demo, tests = blocks("sh")[:2]
    assert demo.count("\n") == tests.count("\n") == 1
    assert demo.rstrip().endswith(".venv/bin/etc demo")
    assert tests.rstrip().endswith(".venv/bin/pytest")


def test_the_paths_it_names_exist():
    named = re.findall(r"(?:\(|`|pytest )((?:tests|docs|policies|etc_policy)/[\w/.-]+)", README)
    assert named
    assert [path for path in named if not (REPOSITORY / path).exists()] == []


def test_its_plan_and_its_result_are_of_one_run():
    plan, result = blocks("text")
    (instant,) = set(re.findall(r"instant C +(\d{17})", plan + result))
    assert instant in result
    thresholds = set(re.findall(r"threshold T +(\S+ \S+)", plan + result))
    assert thresholds == {"2013-01-01 20:00:00"}
    merged = re.findall(r"(\d+) (?:of \d+ )?log files (?:\(.*\) in|of) (\d+) file slices", plan + result)
    assert len(merged) == 2
    assert len(set(merged)) == 1


def test_its_pictures_are_small():
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)
    assert len(pictures) >= 3
    for picture in pictures:
        assert (REPOSITORY / picture).read_bytes().startswith(b"\x89PNG")
        assert (REPOSITORY / picture).stat().st_size < 100_000


def test_the_commands_in_its_text_are_understood():
    named = re.findall(r"`(etc [a-z][^`]*)`", README)
    assert len(named) >= 3
    assert [line for line in named if commands_of(line) is None] == []
