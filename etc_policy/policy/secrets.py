"""Values of the environment. Options of the engine keep a reference, which is filled in when it starts; elsewhere a value is
marked, so that messages show what the file says in its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from etc_policy.errors import EngineError
from etc_policy.errors.codes import Code
from etc_policy.errors.plain_text import USER_INFO

_NAME, _DEFAULT = r"[^'\"{}\\]{1,200}", r"[^'\"{}\\]{0,200}"
_REFERENCE = re.compile(rf"\{{\{{ env_var\('({_NAME})'(?:, '({_DEFAULT})')?\) \}}\}}")
#: What may be written for it between `{{` and `}}`.
_EXPRESSION = re.compile(
    rf"env_var\(\s*(?P<q>['\"])(?P<name>{_NAME})(?P=q)\s*(?:,\s*(?P<d>['\"])(?P<default>{_DEFAULT})(?P=d)\s*)?\)"
)
_WRITTEN = re.compile(rf"\{{\{{\s*{_EXPRESSION.pattern}\s*\}}\}}")

#: What marks a setting as a secret: its name (those of Spark's default, and what object stores and people call theirs), or a
#: password in its value. Java reads it alike, as `spark.redaction.regex`.
SECRET_SETTING = (
    r"(?i)secret|password|passwd|passphrase|token|credential|[.]sas[.]|connection[._-]?string"
    r"|(^|[._-])(pwd?|pass)([._-]|$)"
    r"|(access|account|private|encryption|api|shared|signing|master|storage)[._-]?key"
    rf"|{USER_INFO}"
)
_SECRET_SETTING = re.compile(SECRET_SETTING)
#: The setting of Spark by which its logs and pages hide values.
REDACTION = "spark.redaction.regex"
_SECRET_VALUE = re.compile(rf"{USER_INFO}|(?i:[?;&](user_?)?(password|passwd|pwd|secret|token|sig)=)")

#: What messages show where an expression fails that works with one.
HIDDEN = "a value of the environment"
REFERENCE_HINT = (
    "set the variable to the very value, and write it in the option itself, as it is: \"{{ env_var('NAME') }}\""
)


class EnvText(str):
    """A text that came from the environment, wholly or in part; `written` is what the file says in its place."""

    __slots__ = ("written",)

    written: str

    @classmethod
    def of(cls, value: str, written: str) -> EnvText:
        """The value of what is `written`."""
        text = cls(value)
        text.written = written
        return text


class EnvNumber(int):
    """A whole number that was worked out from the environment."""

    written: str


def env_marked(value: object, written: str) -> object:
    """The value, known to come from the environment; `true`, `false`, nothing and fractions bear no mark."""
    if isinstance(value, EnvText | EnvNumber | bool | None):
        return value
    if isinstance(value, str):
        return EnvText.of(value, written)
    if isinstance(value, int):
        number = EnvNumber(value)
        number.written = written
        return number
    if isinstance(value, dict):
        return {key: env_marked(item, written) for key, item in value.items()}
    return [env_marked(item, written) for item in value] if isinstance(value, list) else value


def has_env_value(value: object) -> bool:
    """Whether there is a value of the environment in it, at any depth."""
    if isinstance(value, dict):
        return any(has_env_value(item) for item in value.values())
    return any(map(has_env_value, value)) if isinstance(value, list | tuple) else is_secret(value)


def canonical_references(text: str) -> tuple[str, str]:
    """The text with its references as files keep them, and what is left without them."""
    return _WRITTEN.sub(lambda found: _canonical(found), text), _WRITTEN.sub("", text)


def canonical_reference(expression: str) -> str | None:
    """The reference that an expression is which takes one variable of the environment as it is; None for any other."""
    found = _EXPRESSION.fullmatch(expression)
    return None if found is None else _canonical(found)


def with_raw_references(text: str) -> str:
    """The text as a template for Jinja in which references are text."""
    return _WRITTEN.sub(lambda found: f"{{% raw %}}{_canonical(found)}{{% endraw %}}", text)


def _canonical(found: re.Match[str]) -> str:
    default = "" if found["default"] is None else f", '{found['default']}'"
    return f"{{{{ env_var('{found['name']}'{default}) }}}}"


def is_secret_setting(key: str, value: str) -> bool:
    """Whether the name of a setting says that it is a secret, or its value holds a password."""
    return bool(_SECRET_SETTING.search(key) or _SECRET_VALUE.search(value))


def with_hidden(confs: Mapping[str, str], hidden: Iterable[str]) -> dict[str, str]:
    """Spark's settings, of which those with a value of the environment are secrets to Spark too, whatever they are called."""
    names = sorted({name for name in hidden if name in confs})
    if not names:
        return dict(confs)
    redacted = confs.get(REDACTION, SECRET_SETTING)
    return {**confs, REDACTION: f"{redacted}|^(?:{'|'.join(map(re.escape, names))})$"}


def is_secret(value: object) -> bool:
    """Whether the value came from the environment, wholly or in part."""
    return isinstance(value, EnvText | EnvNumber)


def changed_secrets(options: object) -> Iterator[tuple[str, str]]:
    """The key of each option whose value of the environment is no reference, so that no file can keep it, and what to say."""
    for key, value in options.items() if isinstance(options, dict) else ():
        if has_env_value(value):
            yield (
                key,
                f"the option `{key[:80]}` changes a value of the environment; only the value itself has a reference",
            )


def without_secret(value: object) -> object:
    """The value, or what the file says in its place where it came from the environment."""
    return value.written if isinstance(value, EnvText | EnvNumber) else value


def has_reference(text: str) -> bool:
    """Whether a part of the text is to come from the environment."""
    return _REFERENCE.search(text) is not None


def count_of_references(value: object) -> int:
    """How many references are in a value, at any depth, that the engine would fill in."""
    if isinstance(value, dict):
        return sum(map(count_of_references, value.values()))
    if isinstance(value, list):
        return sum(map(count_of_references, value))
    return len(_REFERENCE.findall(value)) if isinstance(value, str) else 0


def as_variables(text: str) -> str:
    """The text with each reference as a shell writes it, `${NAME}`, for people who are to fill it in."""
    return _REFERENCE.sub(lambda match: f"${{{match[1]}{'' if match[2] is None else f':-{match[2]}'}}}", text)


def with_values(
    options: Mapping[str, str], environment: Mapping[str, str], *, keeps_unset: bool = False
) -> dict[str, str]:
    """The options with every reference replaced by the variable's value; for the engine alone, never to be written.

    With `keeps_unset` the reference to a variable that is not set stays.

    Raises:
        EngineError: a variable is not set.

    """

    def value(match: re.Match[str]) -> str:
        if match[1] not in environment and match[2] is not None:
            return match[2]
        if match[1] not in environment and keeps_unset:
            return match[0]
        if match[1] not in environment:
            message = f"the environment variable `{match[1]}` is not set"
            raise EngineError(Code.MISSING_SECRET, message, hint="export it where `etc` runs")
        return environment[match[1]]

    return {key: _REFERENCE.sub(value, text) for key, text in options.items()}
