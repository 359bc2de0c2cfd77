"""Values of environment variables that must not be written anywhere: files keep a reference, the engine gets the value."""

from __future__ import annotations

import re
from collections.abc import Mapping

from etc_policy.errors import EngineError

_REFERENCE = re.compile(r"\{\{ env_var\('([^'{}\\]{1,200})'\) \}\}")


class EnvText(str):
    """A text that came from the environment, wholly or in part.

    `reference` stands for it in every file that is written; None where no text can (a filter was applied).
    """

    __slots__ = ("reference",)

    reference: str | None

    @classmethod
    def of(cls, name: str, value: str) -> EnvText:
        """The value of the variable `name`."""
        return cls.made(value, f"{{{{ env_var('{name}') }}}}")

    @classmethod
    def made(cls, value: str, reference: str | None) -> EnvText:
        """A text made of such values."""
        text = cls(value)
        text.reference = reference
        return text


def without_secrets(options: Mapping[str, object]) -> dict[str, object]:
    """The options with references in place of what came from the environment."""
    return {key: (value.reference or "") if isinstance(value, EnvText) else value for key, value in options.items()}


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
