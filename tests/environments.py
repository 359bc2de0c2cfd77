"""Environments of their own, for programs that this project never shares one with, and extras beside this environment."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.command_blocks import REPOSITORY


def programs_of(packages: list[str], variable: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of an environment that has the packages; `variable` may name a folder in which it is kept."""
    kept = os.environ.get(variable)
    folder = Path(kept) if kept else tmp_path_factory.mktemp("environment")
    if not (folder / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", *packages], check=True, cwd=folder)
    return folder / "bin"


def installed_extra(name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the packages of an extra; `ETC_TEST_EXTRAS` names a folder in which those of all extras are kept."""
    kept = os.environ.get("ETC_TEST_EXTRAS")
    folder = Path(kept, name) if kept else tmp_path_factory.mktemp(name)
    if not folder.exists() or not any(folder.iterdir()):
        extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, *extras[name]]
        subprocess.run(pip, check=True)
    return folder
