import subprocess

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
