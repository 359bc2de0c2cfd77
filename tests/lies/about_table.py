"""Lies about the table: its timeline, its properties, and what its compaction promised."""

from __future__ import annotations

import json
from random import Random

from etc_policy.table.history import LEFT_OUT, PLAN_ID, SEEN_UNTIL, THRESHOLD
from etc_policy.table.instants import add_ms
from tests.lies.about_writes import cut
from tests.lies.honest import HOUR_MS, Honest
from tests.lies.lie import Lie, Told, rewrite
from tests.unit.hudi.table_folder import COMMIT_SCHEMA, REPLACE_SCHEMA, at, commit_metadata

DAY_MS = 1_767_225_600_000
_GONE = "rows that are gone from both views alike: the views agree, and nothing says what was written"


def _damage_timeline(said: str, change):
    def tell(found: Honest, random: Random) -> Told | None:
        path = random.choice(sorted(found.commits.values()))
        change(path, random)
        return Told(f"{said}: {path.name}")

    return tell


def _removed_commit(found: Honest, random: Random) -> Told:
    instant = random.choice(sorted(found.commits))
    found.commits[instant].unlink()
    found.logs = [one for one in found.logs if one.instant != instant]
    return Told(f"the commit {instant} is gone, so that its rows are in neither view", harm=True)


def _moved_completion(found: Honest, random: Random) -> Told | None:
    if found.kind.version < 8:
        return None
    instant = random.choice(sorted(found.commits))
    path = found.commits[instant]
    completed = add_ms(path.name.split("_")[1].split(".")[0], random.choice([-HOUR_MS, HOUR_MS]) * random.randint(1, 3))
    path.rename(path.with_name(f"{instant}_{completed}.deltacommit"))
    return Told(f"{instant} completed at {completed}", harm=True)


def _removed_compaction(found: Honest, random: Random) -> Told | None:
    if found.compaction is None:
        return None
    found.compaction_commit.unlink()
    return Told("the compaction's commit is gone")


def _replaced_group(found: Honest, random: Random) -> Told | None:
    if found.kind.version < 8:
        return None
    partition = random.choice(found.kind.partitions)
    record = {**commit_metadata(at("12:08:00"), (), kind="CLUSTER"), "partitionToReplaceFileIds": {partition: ["f0"]}}
    found.table.file(at("12:08:00"), ".clustering.requested")
    found.table.complete(at("12:08:00"), at("12:08:05"), "replacecommit", REPLACE_SCHEMA, record)
    gone = (partition, ".f0_")
    found.logs = [one for one in found.logs if (one.partition, one.path.name[:4]) != gone]
    return Told("a clustering that wrote nothing in place of what it removed", harm=True)


def _property(key: str, *values: str, harm: bool = False):
    def tell(found: Honest, random: Random) -> Told | None:
        path, value = found.table.meta / "hoodie.properties", random.choice(values)
        lines = [line for line in path.read_text().splitlines() if not line.startswith(f"{key}=")]
        if f"{key}={value}" in path.read_text().splitlines():
            return None
        path.write_text("\n".join([*lines, f"{key}={value}"]) + "\n")
        return Told(f"{key}={value}", harm)

    return tell


def _promise(key: str, value, *, commit: bool = True, plan: bool = True):
    """A lie about what the compaction promised, in its commit, its plan, or both."""

    def tell(found: Honest, random: Random) -> Told | None:
        if found.compaction is None:
            return None
        new = value(found, random)
        for path, wanted in ((found.compaction_commit, commit), (found.compaction_plan, plan)):
            if wanted:
                rewrite(found, path, lambda record: record["extraMetadata"].__setitem__(key, new))
        return Told(f"{key}={new}")

    return tell


def _threshold(sign: int):
    return lambda found, random: str(11 * HOUR_MS + DAY_MS + sign * random.randrange(1, 3 * HOUR_MS))


def _seen(sign: int):
    return lambda found, random: add_ms(at("11:00:00"), sign * random.randrange(1, 2 * HOUR_MS))


def _merged_more(found: Honest, random: Random) -> Told | None:
    """The plan is said to have had one log file more."""
    if found.compaction is None or not found.logs:
        return None
    name = random.choice(found.logs).path.name

    def add(record) -> None:
        record["operations"][0]["deltaFilePaths"].append(name)

    rewrite(found, found.compaction_plan, add)
    return Told(f"the plan names {name} too")


def _second_promise(found: Honest, random: Random) -> Told:
    """A compaction that never was, with a promise of its own; it writes no file."""
    instant, done = at("12:06:00"), at("12:06:30")
    threshold = DAY_MS + random.randrange(9 * HOUR_MS, 12 * HOUR_MS)
    extra = {THRESHOLD: str(threshold), PLAN_ID: "x", SEEN_UNTIL: at("12:05:59")}
    found.table.plan(instant, extra)
    if found.table.layout == 2:
        found.table.complete(instant, done, "commit", COMMIT_SCHEMA, commit_metadata(instant, (), extra, "COMPACT"))
    else:
        found.table.file(instant, ".commit", json.dumps(commit_metadata(instant, (), extra, "COMPACT")).encode())
    return Told(f"a compaction without files that promises {threshold}")


LIES = (
    Lie("timeline", "a commit that is empty", _damage_timeline("empty", lambda path, _: path.write_bytes(b""))),
    Lie("timeline", "a commit cut short", _damage_timeline("cut", cut)),
    Lie("timeline", "a commit that is gone", _removed_commit, _GONE),
    Lie("timeline", "another completion time", _moved_completion, _GONE),
    Lie("timeline", "a compaction's commit that is gone", _removed_compaction),
    Lie("timeline", "a clustering that never was", _replaced_group, _GONE),
    Lie("timeline", "a compaction that never was", _second_promise),
    Lie("properties", "another table version", _property("hoodie.table.version", "6", "8", "7", "10", "x")),
    Lie("properties", "another type", _property("hoodie.table.type", "COPY_ON_WRITE")),
    Lie("properties", "another zone", _property("hoodie.table.timeline.timezone", "Asia/Tokyo", "America/New_York")),
    Lie("properties", "another ordering field", _property("hoodie.table.ordering.fields", "id", "")),
    Lie("properties", "another name", _property("hoodie.table.name", "other")),
    Lie("plan", "a later threshold in the commit", _promise(THRESHOLD, _threshold(1), plan=False)),
    Lie("plan", "a later threshold in the plan", _promise(THRESHOLD, _threshold(1), commit=False)),
    Lie("plan", "a later threshold in both", _promise(THRESHOLD, _threshold(1))),
    Lie("plan", "an earlier threshold in both", _promise(THRESHOLD, _threshold(-1))),
    Lie("plan", "no threshold", _promise(THRESHOLD, lambda *_: "")),
    Lie("plan", "that it had seen less", _promise(SEEN_UNTIL, _seen(-1))),
    Lie("plan", "that it had seen more", _promise(SEEN_UNTIL, _seen(1))),
    Lie("plan", "that it left slices out", _promise(LEFT_OUT, lambda *_: "3")),
    Lie("plan", "a log file more", _merged_more),
)  # fmt: skip
