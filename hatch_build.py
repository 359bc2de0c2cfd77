"""Puts the commit into what is built, which `etc --version` prints, and the pages of `docs`, which `etc explain` prints."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitHook(BuildHookInterface):
    """Adds `etc_policy/commit.txt`, which an sdist hands on to the wheel that is built from it, and `etc_policy/docs`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the pages, and the commit where it is known; an editable installation asks git itself, and has the pages."""
        root = Path(self.root)
        if version != "editable" and self.target_name == "wheel":
            pages = {str(page): f"etc_policy/{page.relative_to(root)}" for page in (root / "docs").rglob("*.md")}
            build_data["force_include"].update(pages)
            if (root / "CHANGELOG.md").exists():  # the page `changelog` is this file
                build_data["force_include"][str(root / "CHANGELOG.md")] = "etc_policy/CHANGELOG.md"
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
