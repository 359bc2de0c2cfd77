"""Files of Java properties: `hoodie.properties`, and the settings of spark-submit."""

from __future__ import annotations

import re
from collections.abc import Mapping

_BLANKS = " \t\f"
_KEY = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def write_properties(pairs: Mapping[str, str]) -> str:
    """The text of a file, sorted by key."""
    return "".join(f"{escaped(key)}={escaped(pairs[key])}\n" for key in sorted(pairs))


def escaped(text: str) -> str:
    """A key or a value as a file has it."""
    for plain, written in (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"), ("\f", "\\f")):
        text = text.replace(plain, written)
    for character in " :=#!":
        text = text.replace(character, f"\\{character}")
    return text


def parse_properties(text: str) -> dict[str, str]:
    """The pairs of a file; of one key the last counts."""
    pairs: dict[str, str] = {}
    for line in _whole_lines(text):
        found = _KEY.match(line)
        if found is not None:  # it always is: a key may be empty
            pairs[_unescaped(found[1])] = _unescaped(line[found.end() :])
    return pairs


def _whole_lines(text: str) -> list[str]:
    """The lines that hold something, each with those that it goes on in."""
    whole: list[str] = []
    goes_on = False
    for line in re.split(r"\r\n|\r|\n", text):
        content = line.lstrip(_BLANKS)
        if not goes_on and (not content or content[0] in "#!"):
            continue
        went_on, goes_on = goes_on, (len(content) - len(content.rstrip("\\"))) % 2 == 1
        part = content[:-1] if goes_on else content
        if went_on:
            whole[-1] += part
        else:
            whole.append(part)
    return whole


def _unescaped(text: str) -> str:
    """Java writes a character beyond 16 bits as two halves; a half alone is no character."""
    halves = _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else _LETTERS.get(found[2], found[2]), text)
    return halves if halves.isascii() else halves.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
