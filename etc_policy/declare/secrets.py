"""Values of environment variables that must not be written anywhere: files keep a reference, the engine gets the value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Self

from etc_policy.codes.registry import Code
from etc_policy.errors import EngineError
from etc_policy.plain_text import USER_INFO

_REFERENCE = re.compile(r"\{\{ env_var\('([^'{}\\]{1,200})'\) \}\}")

#: What marks a setting as a secret: its name (those of Spark's default, and what object stores and people call theirs), or a
#: password in its value. Java reads it alike, as `spark.redaction.regex`.
SECRET_SETTING = (
    r"(?i)secret|password|passwd|passphrase|token|credential|[.]sas[.]|connection[._-]?string"
    r"|(^|[._-])(pwd?|pass)([._-]|$)"
    r"|(access|account|private|encryption|api|shared|signing|master|storage)[._-]?key"
    rf"|{USER_INFO}"
)
_SECRET_SETTING = re.compile(SECRET_SETTING)
_SECRET_VALUE = re.compile(rf"{USER_INFO}|(?i:[?;&](user_?)?(password|passwd|pwd|secret|token|sig)=)")

#: What is shown where a value of the environment has no reference; rules refuse such values where they would be written.
HIDDEN = "a value of the environment"
REFERENCE_HINT = "set the variable to the very value, and write it as it is: \"{{ env_var('NAME') }}\""


class EnvText(str):
    """A text that came from the environment, wholly or in part.

    `reference` replaces it in every file that is written; None where no text can (a filter was applied).
    """

    __slots__ = ("reference",)

    reference: str | None

    @classmethod
    def of(cls, name: str, value: str) -> EnvText:
        """The value of the variable `name`."""
        reference = f"{{{{ env_var('{name}') }}}}"
        return cls.made(value, reference if _REFERENCE.fullmatch(reference) else None)

    @classmethod
    def made(cls, value: str, reference: str | None) -> Self:
        """A text made of such values."""
        text = cls(value)
        text.reference = reference
        return text


class EnvNumber(int):
    """A whole number that was worked out from the environment; no reference can replace it."""

    __slots__ = ()


def is_secret_setting(key: str, value: str) -> bool:
    """Whether the name of a setting says that it is a secret, or its value holds a password."""
    return bool(_SECRET_SETTING.search(key) or _SECRET_VALUE.search(value))


def is_secret(value: object) -> bool:
    """Whether the value came from the environment, wholly or in part."""
    return isinstance(value, EnvText | EnvNumber)


def changed_secrets(options: object) -> Iterator[tuple[str, str]]:
    """The key of each option whose value of the environment was changed, so that no file can keep it, and what to say."""
    for key, value in options.items() if isinstance(options, dict) else ():
        if isinstance(value, EnvNumber) or (isinstance(value, EnvText) and value.reference is None):
            yield (
                key,
                f"the option `{key[:80]}` changes a value of the environment; only the value itself has a reference",
            )


def without_secret(value: object) -> object:
    """The value, or what replaces it where it came from the environment."""
    if isinstance(value, EnvText) and value.reference is not None:
        return value.reference
    return HIDDEN if is_secret(value) else value


def without_secrets(options: Mapping[str, object]) -> dict[str, object]:
    """The options with references in place of what came from the environment."""
    return {key: without_secret(value) for key, value in options.items()}


def has_reference(text: str) -> bool:
    """Whether a part of the text is to come from the environment."""
    return _REFERENCE.search(text) is not None


def as_variables(text: str) -> str:
    """The text with each reference as a shell writes it, `${NAME}`, for people who are to fill it in."""
    return _REFERENCE.sub(lambda match: f"${{{match[1]}}}", text)


def with_values(options: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """The options with every reference replaced by the variable's value; for the engine alone, never to be written.

    Raises:
        EngineError: a variable is not set.

    """

    def value(match: re.Match[str]) -> str:
        if match[1] not in environment:
            message = f"the environment variable `{match[1]}` is not set"
            raise EngineError(Code.MISSING_SECRET, message, hint="export it where `etc` runs")
        return environment[match[1]]

    return {key: _REFERENCE.sub(value, text) for key, text in options.items()}
