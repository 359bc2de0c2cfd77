"""Puts the commit into what is built: `etc --version` prints it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitHook(BuildHookInterface):
    """Adds `etc_policy/commit.txt`; an sdist hands its own on to the wheel that is built from it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file, where the commit is known; an editable installation asks git itself."""
        root = Path(self.root)
        if version == "editable" or not (root / ".git").exists():  # an unpacked sdist may lie in somebody's repository
            return
        command = ["git", "-C", str(root), "rev-parse", "--verify", "--quiet", "HEAD"]
        found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        if found:
            file = Path(self.directory) / "commit.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(found + "\n", "utf-8")
            build_data["force_include"][str(file)] = "etc_policy/commit.txt"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Take the file away again: what lies in `dist` is published."""
        (Path(self.directory) / "commit.txt").unlink(missing_ok=True)
