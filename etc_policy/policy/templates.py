"""The files that the package ships: in the wheel under `etc_policy/templates`, in a checkout beside the package; and schemas."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
SCHEMA_FOLDER = _PACKAGE / "schemas"
#: What an editor needs for policy files; `etc init` puts it into the project.
POLICY_SCHEMA = "policy.v1.json"


def read_template(name: str) -> str:
    """The text of a shipped file, such as `demo/flights.yml`.

    Raises:
        FileNotFoundError: the package ships no such file.

    """
    for root, prefix in _roots():
        path = root / name.removeprefix(prefix)
        if name.startswith(prefix) and path.is_file():
            return path.read_text(encoding="utf-8")
    raise FileNotFoundError(name)


def shipped_suite_folders() -> list[Path]:
    """The one folder of suites that the package ships; none where it is missing."""
    return [folder for root, _ in _roots() if (folder := root / "suites").is_dir()][:1]


def read_schemas() -> dict[str, str]:
    """The text of every JSON Schema by its file's name, sorted."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(SCHEMA_FOLDER.glob("*.json"))}


def _roots() -> tuple[tuple[Path, str], ...]:
    """The folders of shipped files, and what their names begin with: the wheel carries `policies/` as `templates/demo`."""
    checkout = _PACKAGE.parent
    return (_PACKAGE / "templates", ""), (checkout / "templates", ""), (checkout / "policies", "demo/")
