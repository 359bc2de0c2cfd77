"""The layers of the package hold: see [tool.importlinter] in pyproject.toml."""

from pathlib import Path

from importlinter import cli


def test_import_contracts_are_kept(monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[2])
    assert cli.lint_imports() == 0
