"""`etc --version`: the release, and the commit that it was built from."""

from __future__ import annotations

import subprocess
from pathlib import Path

from etc_policy import __version__

_PACKAGE = Path(__file__).resolve().parents[1]


def version_line(package: Path = _PACKAGE) -> str:
    """Release and commit; without the commit where neither the build nor a clone has it."""
    commit = _commit(package)
    return f"etc {__version__} ({commit[:12]})" if commit else f"etc {__version__}"


def _commit(package: Path) -> str:
    try:
        return (package / "commit.txt").read_text("utf-8").strip()
    except OSError:
        return _commit_of_clone(package.parent)


def _commit_of_clone(folder: Path) -> str:
    if not (folder / ".git").exists():  # an environment may lie in somebody's repository
        return ""
    try:
        command = ["git", "-C", str(folder), "rev-parse", "--verify", "--quiet", "HEAD"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
