"""Tells one lie about one honest table, and judges what became of it."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.lies.honest import honest_table
from tests.lies.judging import LEVELS, is_false, look
from tests.lies.kinds import KINDS
from tests.lies.lie import ROWS, Lie

HARMLESS, MISSED, MENDED, NO_CHECK = "harmless", "missed", "mended", "no check"
#: Every outcome but a lie that was missed.
COLUMNS = (*LEVELS, ROWS, MENDED, HARMLESS, NO_CHECK)


@dataclass(frozen=True)
class Outcome:
    """What caught a lie: a level, `rows` or `no check` where its kind says so, `harmless`, or `missed`."""

    lie: Lie
    outcome: str
    said: str
    why: str = ""


def alarm(seed: int) -> str | None:
    """What a level says against the honest table of a seed, or a claim of etc that is not true; None where all is well."""
    with tempfile.TemporaryDirectory() as folder:
        found = honest_table(Path(folder) / "t", Random(seed))
        for level in LEVELS:
            seen = look(found, level)
            if seen.caught or is_false(found, seen):
                return f"{found.kind}, level {level}: {seen.caught or 'a claim that is not true'}"
    return None


def tell(seed: int, lie: Lie | None = None) -> Outcome:
    """A lie about the table of a seed, or about one of the next that gives occasion to it."""
    random = Random(f"lie {seed}")
    lie = lie or random.choice(KINDS)
    for attempt in range(500):
        with tempfile.TemporaryDirectory() as folder:
            found = honest_table(Path(folder) / "t", Random(seed + 1_000_000 * attempt))
            told = lie.tell(found, random)
            if told is not None:
                return _judge(found, lie, told)
    raise AssertionError(f"no table gives occasion to: {lie.name}")


def _judge(found, lie: Lie, told) -> Outcome:
    said = f"{found.kind}: {told.said}"
    harm = told.harm
    if told.mended_by:
        return Outcome(lie, MENDED, said, told.mended_by)
    for level in LEVELS:
        seen = look(found, level)
        if seen.caught:
            return Outcome(lie, level, said, seen.caught)
        harm = harm or is_false(found, seen)
    if not harm:
        return Outcome(lie, HARMLESS, said)
    needs = lie.needs or (lie.needs_in_version_6 if found.kind.version < 8 else "")
    if not needs:
        return Outcome(lie, MISSED, said)
    return Outcome(lie, ROWS if needs == ROWS else NO_CHECK, said, needs)
