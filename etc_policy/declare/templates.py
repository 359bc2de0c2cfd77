"""The files that the package ships: in the wheel under `etc_policy/templates`, in a checkout beside the package."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
#: The wheel carries `policies/` as `templates/demo`.
_ROOTS = ((_PACKAGE / "templates", ""), (_PACKAGE.parent / "templates", ""), (_PACKAGE.parent / "policies", "demo/"))


def read_template(name: str) -> str:
    """The text of a shipped file, such as `demo/flights.yml`.

    Raises:
        FileNotFoundError: the package ships no such file.

    """
    for root, prefix in _ROOTS:
        path = root / name.removeprefix(prefix)
        if name.startswith(prefix) and path.is_file():
            return path.read_text(encoding="utf-8")
    raise FileNotFoundError(name)
