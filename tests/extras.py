"""The packages of an extra in a folder of its own, behind those of this environment: tests at night install them there."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.command_blocks import REPOSITORY


def installed_extra(name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the packages of an extra; `ETC_TEST_EXTRAS` names a folder in which those of all extras are kept."""
    kept = os.environ.get("ETC_TEST_EXTRAS")
    folder = Path(kept, name) if kept else tmp_path_factory.mktemp(name)
    if not folder.exists() or not any(folder.iterdir()):
        extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, *extras[name]]
        subprocess.run(pip, check=True)
    return folder
