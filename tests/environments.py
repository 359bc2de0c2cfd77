"""Environments of their own, for programs that this project never shares one with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def programs_of(packages: list[str], variable: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of an environment that has the packages; `variable` may name a folder in which it is kept."""
    kept = os.environ.get(variable)
    folder = Path(kept) if kept else tmp_path_factory.mktemp("environment")
    if not (folder / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", *packages], check=True, cwd=folder)
    return folder / "bin"
