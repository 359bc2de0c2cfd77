import hashlib
import os
import subprocess

import pytest

from etc_policy.wiring.git import git_state


def git(folder, *arguments):
    who = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


FOLDERS = ("policies", "templates")


def test_the_commit_and_whether_the_project_s_files_differ(tmp_path):
    assert git_state(tmp_path, FOLDERS) is None
    project = tmp_path / "warehouse"
    (project / "policies").mkdir(parents=True)
    policy = project / "policies" / "a.yml"
    policy.write_text("version: 1\n")
    git(tmp_path, "init", "-q")
    assert git_state(project, FOLDERS) is None
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    clean = git_state(project, FOLDERS)
    assert (len(clean.sha), clean.dirty) == (40, False)
    (tmp_path / "elsewhere.txt").write_text("")
    (project / "target").mkdir()
    (project / "target" / "plan.json").write_text("{}")
    assert git_state(project, FOLDERS) == clean
    policy.write_text("version: 1 # changed\n")
    assert git_state(project, FOLDERS) == clean.model_copy(update={"dirty": True})
    policy.write_text("version: 1\n")
    (project / "policies" / "b.yml").write_text("")
    assert git_state(project, FOLDERS).dirty


def test_what_lies_behind_a_link_counts_too(tmp_path):
    """Git says nothing of what is behind a link: an edited policy was recorded as committed."""
    project, real = tmp_path / "project", tmp_path / "project" / "real" / "rules"
    real.mkdir(parents=True)
    (real / "a.yml").write_text("version: 1\n")
    (project / "link").symlink_to("real")
    git(project, "init", "-q")
    git(project, "add", ".")
    git(project, "commit", "-qm", "one")
    folders = ("link/rules", "templates")
    assert not git_state(project, folders).dirty
    (real / "a.yml").write_text("version: 1 # changed\n")
    assert git_state(project, folders).dirty
    (real / "a.yml").write_text("version: 1\n")
    outside = tmp_path / "outside"
    outside.mkdir()
    (project / "away").symlink_to(outside)
    git(project, "add", ".")
    git(project, "commit", "-qm", "two")
    assert git_state(project, ("away",)).dirty  # of what is in another repository, or in none, nobody knows


@pytest.mark.parametrize("place", ["warehouse", "warehouse/policies", "."])
def test_files_that_look_like_a_repository_run_nothing(tmp_path, place):
    """What a pull request adds may name a program (`core.fsmonitor`) which `git status` would run."""
    origin, clone, ran = tmp_path / "origin", tmp_path / "clone", tmp_path / "ran"
    (origin / "warehouse" / "policies").mkdir(parents=True)
    (origin / "warehouse" / "policies" / "a.yml").write_text("version: 1\n")
    bare = origin / place
    for name, text in {
        "HEAD": "ref: refs/heads/main\n",
        "config": f'[core]\nrepositoryformatversion = 0\nbare = false\nworktree = .\nfsmonitor = "touch {ran}"\n',
        "objects/.keep": "",
        "refs/heads/.keep": "",
    }.items():
        (bare / name).parent.mkdir(parents=True, exist_ok=True)
        (bare / name).write_text(text)
    git(origin, "init", "-q")
    git(origin, "add", "--force", ".")
    git(origin, "commit", "-qm", "one")
    git(tmp_path, "clone", "-q", str(origin), str(clone))
    state = git_state(clone / "warehouse", FOLDERS)
    assert (len(state.sha), state.dirty, ran.exists()) == (40, False, False)


def test_asking_changes_nothing(tmp_path):
    """`git status` writes the index anew where a file's time has changed, and whoever uses git then meets its lock."""
    (tmp_path / "policies").mkdir()
    policy = tmp_path / "policies" / "a.yml"
    policy.write_text("version: 1\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    os.utime(policy, (1, 1))
    index = tmp_path / ".git" / "index"
    before = hashlib.sha256(index.read_bytes()).hexdigest()
    assert not git_state(tmp_path, FOLDERS).dirty
    assert hashlib.sha256(index.read_bytes()).hexdigest() == before
