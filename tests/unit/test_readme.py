"""README is a front door: short, with the demo's own policy, and all that it names exists."""

import re
from pathlib import Path

from packaging.version import Version

from tests.integration.release_matrix import RIGHT, kept
from tests.unit.test_docs import commands_of

REPOSITORY = Path(__file__).resolve().parents[2]
README = (REPOSITORY / "README.md").read_text("utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def test_its_policy_is_the_demo_s():
    assert blocks("yaml")[0] == (REPOSITORY / "policies" / "flights.yml").read_text("utf-8")


def test_the_paths_it_names_exist():
    named = re.findall(r"(?:\(|`|pytest )((?:tests|docs|policies|etc_policy)/[\w/.-]+)", README)
    assert named
    assert [path for path in named if not (REPOSITORY / path).exists()] == []


def test_the_commands_in_its_text_are_understood():
    named = re.findall(r"`(etc [a-z][^`]*)`", README)
    assert len(named) >= 3
    assert [line for line in named if commands_of(line) is None] == []


def test_the_releases_of_hudi_are_those_that_were_run():
    named = re.findall(r"^\| Engine \| Spark 3\.5 with Hudi ([\d., ]+\d) \(", README, re.MULTILINE)
    found = {
        release for of_python in kept().values() for release, one in of_python.items() if RIGHT in one["cells"].values()
    }
    assert named == [", ".join(sorted(found, key=Version, reverse=True))]


def test_no_test_becomes_a_user_that_may_not_enter_the_clone():
    """Root may have it in a folder that others may not enter: what a user may not do is tried without root's rights."""
    another = re.compile(r"os\.set(e|re|res)?[ug]id|--re[ug]id|run" + r"user|user=(\d|\"nobody|pwd)")
    tests = (REPOSITORY / "tests").rglob("*.py")
    assert [str(path) for path in tests if another.search(path.read_text("utf-8"))] == []
