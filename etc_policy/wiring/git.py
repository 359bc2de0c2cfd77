"""The git commit of a project's folder, and whether its files were changed since."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from etc_policy.policy.files import PROJECT_FILES
from etc_policy.policy.manifest import GitState

#: What a project is made of besides the folders that it names.
_INPUTS = (*PROJECT_FILES, "suites")
#: A pull request may add files that git would take for a repository of its own, whose configuration names programs.
_SAFE = ("-c", "safe.bareRepository=explicit", "-c", "core.fsmonitor=false", "--no-optional-locks")


def git_state(folder: Path, inputs: Iterable[str]) -> GitState | None:
    """The commit that is checked out and whether the project's files differ from it; None without git or a commit.

    `inputs` are its folders of policies and templates: a changed file elsewhere in the repository does not make it dirty.
    """
    project = folder.resolve()
    root = next((parent for parent in (project, *project.parents) if (parent / ".git").exists()), None)
    sha = _git(root, "rev-parse", "HEAD") if root else None
    if not root or not sha:
        return None
    status = ("--literal-pathspecs", "status", "--porcelain", "--untracked-files=all")
    looked_at = (spec for name in (*_INPUTS, *inputs) for spec in _specs(project, name))
    changed = _git(root, *status, "--", *looked_at)
    return GitState(sha=sha, dirty=changed != "")


def _specs(project: Path, name: str) -> Iterator[str]:
    """What git is asked about: it sees nothing behind a link, and fails where one leads out of the repository."""
    path = Path(name)
    links = [link for link in (path, *path.parents) if (project / link).is_symlink()]
    yield from (str(project / link) for link in links or [path])
    if links:
        yield str((project / path).resolve())


def _git(root: Path, *arguments: str) -> str | None:
    """What git prints; None where it fails. It begins in the repository's root, so that it looks for no other one."""
    command = ["git", *_SAFE, *arguments]
    try:
        run = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return run.stdout.strip()
