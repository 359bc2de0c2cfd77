"""What a code means at length: `etc explain ETC102`."""

from __future__ import annotations

from etc_policy.errors.codes import Code
from etc_policy.errors.project_files import PROJECT_FILES
from etc_policy.errors.running import RUNNING

#: Digits of a code, or its first -> how a command ends that meets it.
_ENDS = {
    "0": "Exit code 64.",
    "003": "Exit code 3, or 1 where a verdict failed too.",
    "009": "Exit code 3.",
    "1": "Exit code 1. `etc parse` shows all that is wrong with the project's files at once.",
    "2": "Exit code 3. Nothing was changed.",
    "22": "Exit code 1. `etc parse` finds all of it that does not need the table.",
    **dict.fromkeys(("231", "232", "233", "234"), "Exit code 3. The table counts as not verified."),
    "355": "The exit code is that of the gravest: 3, then 1, then 4.",
    "3": "Exit code 3. Nothing is lost: the same command finishes or rolls back what was begun.",
    "4": "Exit code 4.",
    **dict.fromkeys(("451", "452", "453", "454", "455", "458", "459"), "Exit code 3. Nothing was changed."),
    "457": "Exit code 3. Nothing is lost: the same command finishes or rolls back what was begun.",
    **dict.fromkeys(
        ("402", "406", "407", "408", "415", "441"),
        "Exit code 4: the job may succeed when it runs again and makes a new plan. A retry with the same plan does not help.",
    ),
    "405": "Exit code 4 where it passes by itself, else 3.",
    "413": "Exit code 3.",
    "412": "Exit code 1, or 3 where a check could not be carried out.",
    "416": "Exit code 1.",
    "418": "Exit code 3.",
    "421": "Exit code 4 where a retry may help, else 3.",
    "440": "Exit code 64.",
    "442": "Exit code 3.",
    "470": "Exit code 1.",
    "6": "Exit code 64.",
    **dict.fromkeys(
        ("150", "151", "220", "471", "611", "612"), "A warning: the exit code is that of what else was found."
    ),
}


def explain(code: str) -> str | None:
    """The meaning of a code, its summary first; None for what is not a code of etc."""
    found = next((known for known in Code if known == code.strip().upper()), None)
    if found is None:
        return None
    text = PROJECT_FILES.get(found) or RUNNING[found]
    ends = _ENDS.get(found[3:]) or _ENDS.get(found[3:5]) or _ENDS[found[3]]
    return f"{found}  {found.summary}\n\n{text} {ends}"
