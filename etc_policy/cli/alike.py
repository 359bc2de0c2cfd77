"""Many findings of one kind: the first is shown whole, the others by their places."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from etc_policy.errors import Issue
from etc_policy.plain_text import one_line

#: So many of a kind are shown whole; from one more on they are folded.
SHOWN_WHOLE = 3
#: So many places of the others are named.
NAMED = 10
#: What differs between findings of one kind besides the policy's name: paths, instants.
_VALUES = re.compile(r"/[^\s,;:`]+|\d{14,}")


def fold_alike(issues: Iterable[Issue]) -> Iterator[str]:
    """A text for each finding, or for each kind of which there are many, in the order in which they come first."""
    kinds: dict[tuple[str, ...], list[Issue]] = {}
    for issue in issues:
        kinds.setdefault(_kind(issue), []).append(issue)
    for kind in kinds.values():
        if len(kind) <= SHOWN_WHOLE:
            yield from map(str, kind)
        else:
            yield f"{kind[0]}\n\n{_others(kind[1:])}"


def _kind(issue: Issue) -> tuple[str, ...]:
    """What findings of one kind share; another key, value or reason is another kind."""
    name = issue.where.object_name if issue.where and issue.where.object_name else ""
    texts = (text.replace(f"`{name}`", "``") if name else text for text in (issue.message, issue.hint or ""))
    return (issue.level, issue.code, *(_VALUES.sub("", text).replace(f" {name}`", " `") for text in texts))


def _others(issues: Sequence[Issue]) -> str:
    lines = [f"{len(issues)} more like it:"]
    lines += [f"  --> {one_line(str(issue.where) if issue.where else issue.message)}" for issue in issues[:NAMED]]
    if len(issues) > NAMED:
        lines.append(f"  and {len(issues) - NAMED} more")
    return "\n".join(lines)
