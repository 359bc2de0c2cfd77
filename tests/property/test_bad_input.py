"""Bad input from bytes to manifest: 2,000 made projects, and files as big as they may be within bounds of time and memory."""

import subprocess

import pytest

from tests.nightly import nightly
from tests.property.bad_input import CANARY, FILES, HOSTILE, LINKS, big_file, outcome, run


@pytest.mark.parametrize("projects", [100, *nightly(2_000)])
def test_many_projects(projects):
    found = run(projects)
    assert sum(found.values()) >= projects
    assert found["manifest"] > projects // 100
    assert len(found) > min(12, projects // 10), "the cases reach many kinds of faults"


def test_the_good_project_is_good():
    assert outcome(FILES) == "manifest"


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_pieces_alone(piece):
    assert outcome({**FILES, "policies/a.yml": b"version: 1\npolicies: " + piece + b"\n"}).startswith("ETC1")
    outcome({**FILES, "etc_project.yml": piece})
    outcome({**FILES, "templates/base.yml": piece})


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("place", ["policies/l.yml", "templates/l.yml", "policies/l", "etc_project.yml"])
def test_links(link, place):
    outcome({**FILES, place: link})


def test_the_watch_sees_what_is_read_and_started(tmp_path):
    """The promise is only as good as what watches over it."""
    from tests.property.bad_input import _WATCH

    secret = tmp_path / "secret.yml"
    secret.write_text(CANARY)
    (tmp_path / "project").mkdir()
    _WATCH.found, _WATCH.root = [], tmp_path / "project"
    try:
        secret.read_text()
        exec("1 + 1")
        subprocess.run(["true"], check=True)
    finally:
        _WATCH.root = None
    seen = " ".join(_WATCH.found)
    assert f"open {secret}" in seen
    assert "exec" in seen
    assert "subprocess.Popen" in seen


@pytest.mark.parametrize(
    "kind", ["one_line", "open_tags", "loops", *nightly("keys", "wrong_policies", "different_tags", "zeros")]
)
def test_the_biggest_files(kind):
    """The other kinds are in the command, see `bad_input`."""
    assert big_file(kind) < 1_000_000
