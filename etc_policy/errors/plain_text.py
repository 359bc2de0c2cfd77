"""Text that a terminal, a log or a CI system shows and does not obey, and without passwords. Imports nothing of the package."""

from __future__ import annotations

import re
from collections.abc import Sequence

#: What moves a cursor, turns the direction of text or is not seen: C0 (but tab and newline), C1, bidirectional marks,
#: separators of lines, invisible letters, tags, and what is not a character (of a file name that is not UTF-8).
_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e0fff]"
)
#: The beginnings of commands to GitHub (`::warning::`, `##[error]`), Azure (`##vso[`) and TeamCity in what a step prints.
_COMMAND = re.compile(r"^(\s*)(?=::)|(?<=#)(?=#\w*\[)", re.MULTILINE)

#: A name and a password before the host of a URL; what follows a port is a path, though it may hold an `@`. Java reads it alike.
USER_INFO = r"(?<=://)[^\s/@:]*:(?!\d+/)[^\s@]*@"
_USER_INFO = re.compile(USER_INFO)


def without_passwords(text: str) -> str:
    """The text without the names and passwords in its URLs."""
    return _USER_INFO.sub("***@", text) if "@" in text else text


def escaped(text: str) -> str:
    r"""The text with what is obeyed or not seen as `\x1b` or `\u202e`; its lines stay."""
    return _OBEYED.sub(_escape, text.replace("\r\n", "\n"))


def clean(text: str) -> str:
    """The text escaped, and none of its lines is a command of CI."""
    return _COMMAND.sub(r"\1\\", escaped(text))


def one_line(text: str) -> str:
    r"""The text clean and on one line, whatever is in it: a newline is shown as `\n`."""
    return clean(escaped(text).replace("\n", "\\n").replace("\t", " "))


def some_of(names: Sequence[str], most: int) -> str:
    """The first of the names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def unseen_as_blanks(text: str) -> str:
    """The text with a replacement character for each that is obeyed or not seen: columns stay."""
    return _OBEYED.sub("\ufffd", text).replace("\n", "\ufffd")


def clean_json(text: str) -> str:
    """JSON with the same values, of which a terminal obeys nothing."""
    return _OBEYED.sub(_json_escape, text)


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("ascii", "backslashreplace").decode() if ord(found[0]) > 0x7F else f"\\x{ord(found[0]):02x}"


def _json_escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
