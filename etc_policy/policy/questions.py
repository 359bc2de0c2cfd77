"""Open questions of a policy file: comment lines that begin with `# ?`, as `etc import` writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from etc_policy.errors import Issue, Where
from etc_policy.errors.codes import Code
from etc_policy.policy.files import SourceFile

MARK = "# ?"
_MOST = 120
_QUESTION = re.compile(r"^(?P<indent>[ ]*)# \? (?P<text>.*)$")
_GOES_ON = re.compile(r"^ *# (?P<text>.*)$")


def open_questions(source: SourceFile) -> Iterator[Issue]:
    """A warning for each question, with its place; the policies of such a file take part in no run."""
    lines = source.text.split("\n")
    for number, line in enumerate(lines, 1):
        found = _QUESTION.match(line)
        if found is not None:
            where = Where(source.path, number, len(found["indent"]) + 1)
            hint = (
                "answer it in the file and take away the `?`; until then the policies of this file take part in no run"
            )
            yield Issue(Code.OPEN_QUESTION, f"open: {_text(lines[number - 1 :])}", where, hint, level="warning")


def _text(lines: list[str]) -> str:
    """The question up to its question mark, which may be some lines further down."""
    text = ""
    for line in lines:
        goes_on = _GOES_ON.match(line)
        if goes_on is None or (text and _QUESTION.match(line)):
            break
        text = f"{text} {goes_on['text'].removeprefix('? ')}".strip()
    return text[: text.find("?") + 1] or text[:_MOST]
