"""Variables of the environment for processes that are measured."""

from __future__ import annotations

#: As for an installed package, modules are compiled once and not by each process, which takes a quarter of a short one's time.
COMPILED_ONCE = {"PYTHONDONTWRITEBYTECODE": ""}
