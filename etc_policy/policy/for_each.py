"""`for_each` of a policy: one policy for each item of a list, each entry of a mapping, or each table that a glob means."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path, PurePosixPath

from etc_policy.codes.registry import Code
from etc_policy.errors import Issue, Where
from etc_policy.policy.scope import Value

KEY = "for_each"
MAX_ITEMS = 10_000
#: So many folders are looked at for a glob.
_MAX_FOLDERS = 100_000
_URI = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]*:/")
_FORMS = "write a list, a mapping, an expression that gives one, or a glob over the folders of tables such as `lake/*`"


def items_of(value: Value, folder: str, where: Where, issues: list[Issue]) -> Iterator[Value]:
    """What `each` is in turn. `folder` is where relative paths of tables start; what is wrong goes to `issues`."""
    if isinstance(value, dict):
        found: list[Value] = [{"key": key, "value": item} for key, item in value.items()]
    elif isinstance(value, list):
        found = value
    elif isinstance(value, str) and value:
        found = list(_tables(value, folder, where, issues))
    else:
        issues.append(
            Issue(Code.BAD_FOR_EACH, "`for_each` goes through a list, a mapping or the tables of a glob", where, _FORMS)
        )
        return
    if len(found) > MAX_ITEMS:
        issues.append(Issue(Code.TOO_BIG, f"`for_each` has more than {MAX_ITEMS:,} items", where, "split the list"))
    yield from found[:MAX_ITEMS]


def _tables(pattern: str, folder: str, where: Where, issues: list[Issue]) -> Iterator[Value]:
    if _URI.match(pattern) or (_URI.match(folder) and not pattern.startswith("/")):
        message = "a glob of `for_each` goes over folders of this machine: tables of a store are not listed"
        issues.append(Issue(Code.BAD_FOR_EACH, message, where, "name the tables in a list, for example under `vars:`"))
        return
    root, plain = Path(folder.removeprefix("file://")), pattern.removeprefix("file://")
    try:
        folders = islice(glob.iglob(plain, root_dir=root), _MAX_FOLDERS)  # noqa: PTH207 - of any root
        paths = sorted(path for path in folders if (root / path / ".hoodie").is_dir())
    except (OSError, ValueError, re.error):
        paths = []
    if not paths:
        message = f"no table lies at `{pattern[:60]}`: there is no folder with `.hoodie` in it"
        hint = "relative paths start from the target's `table_root`, else from the project; a text without a glob names one table"
        issues.append(Issue(Code.BAD_FOR_EACH, message, where, hint, level="warning"))
    yield from ({"path": path, "name": PurePosixPath(path).name} for path in paths)
