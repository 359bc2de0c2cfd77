"""The lowest versions that `pyproject.toml` declares, as constraints of pip: `python3 -m dev.lowest`, without any package."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

_LOWEST = re.compile(r"(?P<name>[\w.-]+)(?:\[[^]]*])?>=(?P<version>[\w.]+)")


def lowest_versions(pyproject: Path) -> Iterator[str]:
    """A line for each requirement of the project and its extras that has a lower bound."""
    project = tomllib.loads(pyproject.read_text("utf-8"))["project"]
    requirements = chain(project["dependencies"], *project["optional-dependencies"].values())
    found = filter(None, map(_LOWEST.match, requirements))
    yield from (f"{one['name']}=={one['version']}" for one in found)


if __name__ == "__main__":
    print("\n".join(lowest_versions(Path(__file__).parents[1] / "pyproject.toml")))
