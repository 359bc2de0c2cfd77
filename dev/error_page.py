"""The table and texts of all error codes, made from their registry, for docs/reference/errors.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from etc_policy.cli.explain import pages
from etc_policy.errors.codes import Code, explain

DOCS = Path(__file__).parents[1] / "docs"
_TABLE_HEAD = """## All codes

The rule: what only the author of a policy can mend is 1, what may pass by itself is 4, and the command line is 64. The rest
is 3: an engine, a store, or a table that somebody has to look at.

| code | what is wrong | exit code | who can mend it | retry |
|---|---|---|---|---|"""
_RETRIES = {None: "as the exit code says", 1: "no", 3: "once", 4: "yes, after a pause", 64: "no"}
#: How the codes of a family begin, after `ETC`; of two that fit the longer one counts.
_FAMILIES = {
    "0": "The command line and its files",
    "1": "The project's files",
    "2": "The table",
    "22": "Suites of expectations",
    "23": "Rows and files that cannot be read",
    "3": "Engines, input and output",
    "4": "Not now, or not as planned",
    "6": "What a command was given",
}


#: What is said once of the family of the project's files.
_OF_FILES = "`etc parse` shows all that is wrong with the project's files at once."


def render_error_codes() -> str:
    """By families and in the order of the codes."""
    parts = [_TABLE_HEAD, *map(_row, sorted(Code)), ""]
    for beginning, heading in _FAMILIES.items():
        parts += [f"## {heading}\n", *([f"{_OF_FILES}\n"] if beginning == "1" else [])]
        parts += [_entry(code) for code in _of_family(beginning)]
    return "\n".join(parts)


def _row(code: Code) -> str:
    exit_code, retry = code.ends.exit_code, _RETRIES[code.ends.exit_code]
    shown = "see its text" if exit_code is None else exit_code
    if code.ends.text.startswith("A warning"):
        shown, retry = "a warning", "no"
    return f"| [{code}](#{code.lower()}) | {code.summary} | {shown} | {code.ends.mended_by} | {retry} |"


def _of_family(beginning: str) -> Iterator[Code]:
    for code in sorted(Code):
        fitting = (known for known in _FAMILIES if code.removeprefix("ETC").startswith(known))
        if max(fitting, key=len, default=None) == beginning:
            yield code


def _entry(code: Code) -> str:
    text = " ".join((explain(code) or "").partition("\n\n")[2].split()).removesuffix(f" {_OF_FILES}")
    return f"### {code}\n\n**{code.summary}.** {linked(text)}\n"


def linked(text: str) -> str:
    """The text with the pages that it names as links, for a page in a folder of docs."""
    return re.sub(r"`etc explain ([\w/-]+)`", _link, text)


def _link(named: re.Match[str]) -> str:
    page = pages().get(named[1])
    return f"[{named[1]}](../{page.relative_to(DOCS)})" if page else named[0]
