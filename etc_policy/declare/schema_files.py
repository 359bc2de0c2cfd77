"""The JSON Schemas that the package ships as files."""

from __future__ import annotations

from pathlib import Path

SCHEMA_FOLDER = Path(__file__).resolve().parents[1] / "schemas"

#: What an editor needs for policy files; `etc init` puts it into the project.
POLICY_SCHEMA = "policy.v1.json"


def read_schemas() -> dict[str, str]:
    """The text of every schema by its file's name, sorted."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(SCHEMA_FOLDER.glob("*.json"))}
