"""All kinds of hostile cases: those of tables, and those of a project over good tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.hostile import pending, plans, projects, tables
from tests.hostile.tables import Case

TABLE_KINDS: dict[str, Callable[[Case], None]] = {**tables.KINDS, "pending": pending.pending}
#: Each makes the project of a folder hostile, and returns what is wrong with it and the command to run.
PROJECT_KINDS: dict[str, Callable[[Path, Random], tuple[str, str]]] = {"plans": plans.plans, **projects.KINDS}


def hostile_table(folder: Path, seed: int, kind: str) -> str:
    """Make the table of a seed, which decides all of it; returns what is wrong with it."""
    random = Random(seed)
    case = Case(folder, random, random.choice([9, 9, 8, 6]))
    case.say(kind)
    TABLE_KINDS[kind](case)
    return ", ".join(case.said)
