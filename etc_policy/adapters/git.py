"""The git commit of a project's folder."""

from __future__ import annotations

import subprocess
from pathlib import Path


def head_commit(folder: Path) -> str | None:
    """The commit that is checked out, or None where there is no git or no commit."""
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None
