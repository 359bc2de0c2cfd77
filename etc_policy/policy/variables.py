"""Variables that were given beside the files: one that no file knows has no effect, so it is refused."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from etc_policy.codes.registry import Code
from etc_policy.errors import UsageError
from etc_policy.policy.suggestions import did_you_mean

_TAG = re.compile(r"\{[{%].*?[%}]\}", re.DOTALL)
#: A use of `var`, with its name where that is written out.
_USE = re.compile(r"\bvar\b(?:\s*\(\s*(?P<quote>['\"])(?P<name>[^'\"]*)(?P=quote)\s*[,)])?")


def require_known(given: Iterable[str], known: Collection[str], texts: Iterable[str]) -> None:
    """Return if each given variable is `known` (declared, or asked for) or named in the files' `texts`.

    Templates that a condition leaves out count too; where one works a name out, nobody can say what it is.

    Raises:
        UsageError: some variables have no effect; names all of them.

    """
    unknown = [name for name in given if name not in known]
    if not unknown:
        return
    named = set(_names(texts))
    if None in named:
        return
    candidates = sorted({*known, *(name for name in named if name)})
    lost = [name for name in unknown if name not in candidates]
    if lost:
        shown = ", ".join(f"`{name[:60]}`" for name in lost)
        others = f"the variables are {', '.join(candidates)[:500]}" if candidates else "the files have no variables"
        near = [hint for name in lost if (hint := did_you_mean(name, candidates))]
        message = f"no file declares or uses the variable {shown}"
        raise UsageError(Code.USAGE, message, hint=" ".join(near) or others)


def _names(texts: Iterable[str]) -> Iterator[str | None]:
    """The names that templates give to `var`; None where one is not written out."""
    for text in texts:
        for tag in _TAG.findall(text):
            for use in _USE.finditer(tag):
                yield use["name"]


def without_blank(name: str) -> str | None:
    """A hint for a key such as `lake:/prod`, which YAML reads as a name without a value; None for other keys."""
    key, colon, value = name.partition(":")
    return f"put a blank after the colon: `{key[:60]}: {value[:60]}`" if key and colon and value else None
