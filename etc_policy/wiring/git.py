"""The git commit of a project's folder, and whether its files were changed since."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from etc_policy.policy.files import PROJECT_FILES
from etc_policy.policy.manifest import GitState

#: What a project is made of besides the folders that it names.
_INPUTS = (*PROJECT_FILES, "suites")


def git_state(folder: Path, inputs: Iterable[str]) -> GitState | None:
    """The commit that is checked out and whether the project's files differ from it; None without git or a commit.

    `inputs` are its folders of policies and templates: a changed file elsewhere in the repository does not make it dirty.
    """
    sha = _git(folder, "rev-parse", "HEAD")
    if not sha:
        return None
    status = ("--literal-pathspecs", "status", "--porcelain", "--untracked-files=all")
    looked_at = (spec for name in (*_INPUTS, *inputs) for spec in _specs(folder, name))
    changed = _git(folder, *status, "--", *looked_at)
    return GitState(sha=sha, dirty=changed != "")


def _specs(folder: Path, name: str) -> Iterator[str]:
    """What git is asked about: it sees nothing behind a link, and fails where one leads out of the repository."""
    path = Path(name)
    links = [one for one in (path, *path.parents) if (folder / one).is_symlink()]
    yield from map(str, links or [path])
    if links:
        yield str((folder / path).resolve())


def _git(folder: Path, *arguments: str) -> str | None:
    """What git prints; None where it fails."""
    command = ["git", *arguments]
    try:
        found = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()
