"""Values of environment variables that must not be written anywhere: files keep a reference, the engine gets the value."""

from __future__ import annotations

import re
from collections.abc import Mapping

from etc_policy.errors import EngineError

_REFERENCE = re.compile(r"\{\{ env_var\('([^'{}\\]{1,200})'\) \}\}")


def reference(name: str) -> str:
    """The text that stands for the variable's value in every file that is written."""
    return f"{{{{ env_var('{name}') }}}}"


def with_values(options: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """The options with every reference replaced by the variable's value; for the engine alone, never to be written.

    Raises:
        EngineError: a variable is not set.

    """

    def value(match: re.Match[str]) -> str:
        if match[1] not in environment:
            message = f"the environment variable `{match[1]}` is not set"
            raise EngineError("ETC311", message, hint="export it where `etc` runs")
        return environment[match[1]]

    return {key: _REFERENCE.sub(value, text) for key, text in options.items()}
