"""What is built: its commit, for `etc --version`, the pages of `etc explain`, and README for those who have no clone."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

#: Pages of `docs` that are a file beside it.
_BESIDE_DOCS = ("CHANGELOG.md", "CONTRIBUTING.md")
#: What the site alone needs.
_OF_THE_SITE = ("conf.py", "__pycache__")
_LINK = re.compile(r"(!?)\[([^]]+)\]\((?!https:)(?:docs/)?([^)#]+)[^)]*\)")


class CommitHook(BuildHookInterface):
    """Adds `etc_policy/commit.txt`, which an sdist hands on to the wheel that is built from it, and `etc_policy/docs`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the pages, and the commit where it is known; an editable installation asks git itself, and has the pages."""
        root = Path(self.root)
        if version != "editable" and self.target_name == "wheel":
            pages = [page for page in (root / "docs").rglob("*.*") if not {*_OF_THE_SITE} & {*page.parts}]
            pages += [page for page in map(root.joinpath, _BESIDE_DOCS) if page.exists()]
            build_data["force_include"].update({str(page): f"etc_policy/{page.relative_to(root)}" for page in pages})
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


class Description(MetadataHookInterface):
    """README without links into the repository, which lead nowhere on the page of a package."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the description of the package."""
        text = (Path(self.root) / "README.md").read_text("utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": _LINK.sub(_by_command, text)}


def _by_command(link: re.Match[str]) -> str:
    """What stands in the place of a link: its text, with the command that prints the page where an installation has it."""
    is_picture, text, path = link.groups()
    page = (path.lower() if path in _BESIDE_DOCS else path).removesuffix(".md")
    if is_picture or page == path or page.startswith("benchmarks/"):
        return text
    return f"{text} (`etc explain {page if '/' in page else f'docs/{page}'}`)"  # a key may have the name of a page
