"""Every kind of lie: one corruption of an honest table, chosen at random within its kind."""
# ruff: noqa: E501

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from zlib import crc32

import fastavro

from etc_policy.adapters.hudi.apply_state import FileApplyState
from etc_policy.plan.commit_metadata import LEFT_OUT, PLAN_ID, SEEN_UNTIL, THRESHOLD
from etc_policy.plan.instants import add_ms
from etc_policy.plan.proof import Proof
from etc_policy.publish.freshness import table_freshness
from etc_policy.publish.sync import PREFIX, ro_properties
from tests.lies.honest import HOUR_MS, NOW, Honest, LogTruth, block
from tests.lies.judging import look
from tests.unit.adapters.table_folder import COMMIT_SCHEMA, REPLACE_SCHEMA, at, avro, commit_metadata

#: Why a kind of lie that is neither caught here nor harmless is not missed: `rows` says that level `data` is needed.
ROWS = "rows"


@dataclass(frozen=True)
class Told:
    """What was done; `harm` says that it hurts whatever etc claims: a damaged file, rows gone from both views.

    `mended_by` is what sets it right without a verification.
    """

    said: str
    harm: bool = False
    mended_by: str = ""


@dataclass(frozen=True)
class Lie:
    """A kind of lie. `tell` does it, and returns None where the table gives no occasion.

    `needs` is what only another level can see, or why no check can; empty where levels `metadata` and `logs` must catch
    every one that does harm. `needs_in_version_6` is that for tables before version 8 alone.
    """

    target: str
    name: str
    tell: Callable[[Honest, Random], Told | None]
    needs: str = ""
    needs_in_version_6: str = ""


def rewrite(found: Honest, path, change) -> None:
    """Change the one record of a file on the timeline: Avro, or JSON before table version 8."""
    if found.table.layout == 1:
        record = json.loads(path.read_bytes())
        change(record)
        path.write_text(json.dumps(record))
        return
    with path.open("rb") as stream:
        reader = fastavro.reader(stream)
        schema, record = reader.writer_schema, next(iter(reader))
    change(record)
    path.write_bytes(avro(schema, record))


def _log(found: Honest, random: Random) -> LogTruth | None:
    return random.choice(found.logs) if found.logs else None


def _recorded(found: Honest, random: Random) -> LogTruth | None:
    """A log file of which its commit records an event time that counts."""
    if found.kind.version < 8 or found.kind.column != "ms":
        return None
    return _log_of([one for one in found.logs if not one.deletes], random)


def _log_of(files, random: Random) -> LogTruth | None:
    return random.choice(files) if files else None


def _stat_of(record, one: LogTruth):
    stats = record["partitionToWriteStats"][one.partition]
    return next(stat for stat in stats if stat["path"].endswith(one.path.name))


def _change_stat(choose, said: str, change, *, harm: bool = False):
    """A lie that changes one write stat of a log file."""

    def tell(found: Honest, random: Random) -> Told | None:
        one = choose(found, random)
        if one is None:
            return None
        rewrite(found, found.commits[one.instant], lambda record: change(_stat_of(record, one), random))
        return Told(f"{said} of {one.path.name}", harm)

    return tell


def _later(stat, random: Random) -> None:
    stat["minEventTime"] += random.choice([1, 1000, random.randrange(1, 4 * HOUR_MS)])


def _earlier(stat, random: Random) -> None:
    stat["minEventTime"] -= random.randrange(1, 4 * HOUR_MS)


def _removed_stat(found: Honest, random: Random) -> Told | None:
    one = _log(found, random)
    if one is None or found.kind.version < 8:
        return None

    def drop(record) -> None:
        record["partitionToWriteStats"][one.partition].remove(_stat_of(record, one))

    rewrite(found, found.commits[one.instant], drop)
    return Told(f"no stat of {one.path.name}")


def _deleting(found: Honest, random: Random) -> LogTruth | None:
    return _log_of([one for one in found.logs if one.deletes and found.kind.version >= 8], random)


def _base_file(found: Honest, random: Random):
    """A base file of a latest slice."""
    state = found.state()
    one = random.choice([s for s in state.slices if s.base_file])
    return found.table.base / one.partition / one.base_file


def _damage_base(said: str, change, *, harm: bool = True):
    def tell(found: Honest, random: Random) -> Told | None:
        path = _base_file(found, random)
        change(path, random)
        return Told(f"{said}: {path.name}", harm)

    return tell


def _damage_log(said: str, change, choose=_log, *, harm: bool = True):
    def tell(found: Honest, random: Random) -> Told | None:
        one = choose(found, random)
        if one is None:
            return None
        change(one, random, found)
        return Told(f"{said}: {one.path.name}", harm)

    return tell


def _cut(path, random: Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: random.randrange(len(content))])


def _other_bytes(path, random: Random) -> None:
    path.write_bytes(random.randbytes(path.stat().st_size))


def _one_byte(path, random: Random) -> None:
    content = bytearray(path.read_bytes())
    content[random.randrange(len(content))] ^= 1 << random.randrange(8)
    path.write_bytes(content)


def _append_early(one: LogTruth, random: Random, found: Honest) -> None:
    one.min_ms -= random.randrange(1, 3 * HOUR_MS)
    with one.path.open("ab") as file:
        file.write(block(found.kind, [one.min_ms]))


def _early_in_place(one: LogTruth, random: Random, found: Honest) -> None:
    """The same number of bytes, with an earlier event in them: 13 digits stay 13."""
    size = one.path.stat().st_size
    one.min_ms -= random.randrange(1, 3 * HOUR_MS)
    for rows in range(1, 12):
        content = block(found.kind, [one.min_ms] * rows)
        if len(content) == size:
            one.path.write_bytes(content)
            return
    one.path.write_bytes(block(found.kind, [one.min_ms]).ljust(size, b"\0"))


def _copy_of_log(found: Honest, random: Random) -> Told | None:
    one = _log(found, random)
    if one is None or found.kind.version < 8:
        return None
    other = one.path.with_name(one.path.name.replace(".log.", ".log.7"))
    other.write_bytes(one.path.read_bytes())
    return Told(f"a second log file {other.name} of a commit")


def _uncommitted(found: Honest, random: Random) -> Told:
    partition = random.choice(found.kind.partitions)
    name = f".f0_{at('11:59:00')}.log.1_0-1-0"
    (found.table.base / partition / name).write_bytes(b"x")
    return Told("a log file of a commit that never was")


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
    return lambda found, random: str(11 * HOUR_MS + _DAY_MS + sign * random.randrange(1, 3 * HOUR_MS))


_DAY_MS = 1_767_225_600_000


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
    threshold = _DAY_MS + random.randrange(9 * HOUR_MS, 12 * HOUR_MS)
    extra = {THRESHOLD: str(threshold), PLAN_ID: "x", SEEN_UNTIL: at("12:05:59")}
    found.table.plan(instant, extra)
    if found.table.layout == 2:
        found.table.complete(instant, done, "commit", COMMIT_SCHEMA, commit_metadata(instant, (), extra, "COMPACT"))
    else:
        found.table.file(instant, ".commit", json.dumps(commit_metadata(instant, (), extra, "COMPACT")).encode())
    return Told(f"a compaction without files that promises {threshold}")


def _unlink(one: LogTruth, random: Random, found: Honest) -> None:
    os.unlink(one.path)


def _read_before(found: Honest, random: Random) -> LogTruth | None:
    """A log file that an earlier run has read."""
    found.cache = found.table.base.parent / "cache"
    look(found, "logs")
    return _recorded(found, random)


def _cache_file(found: Honest):
    found.cache = found.table.base.parent / "cache"
    look(found, "logs")
    return next(found.cache.glob("*.json"), None)


def _bit_of_cache(found: Honest, random: Random) -> Told | None:
    path = _cache_file(found)
    if path is None:
        return None
    _one_byte(path, random)
    return Told("one bit of the cache of event times")


def _forged_cache(found: Honest, random: Random) -> Told | None:
    path = _cache_file(found)
    if path is None:
        return None
    tables = json.loads(path.read_bytes().partition(b"\n")[2])
    for files in tables.values():
        for entry in files.values():
            entry[1] = entry[1] and entry[1] + random.randrange(1, 4 * HOUR_MS)
    content = json.dumps(tables).encode()
    path.write_bytes(b"%08x\n%b" % (crc32(content), content))
    return Told("later times in the cache, below a right checksum")


def _catalog(said: str, **forged: str):
    """Properties of the RO table that somebody has changed; the next sync computes them anew."""

    def tell(found: Honest, random: Random) -> Told | None:
        state = found.state()
        if state.last_compaction is None:
            return None
        fresh = table_freshness(found.policy, state, NOW, NOW)
        right = ro_properties(found.policy, state, fresh, None, {})
        after = ro_properties(found.policy, state, fresh, None, {**right, **{PREFIX + k: v for k, v in forged.items()}})
        return Told(f"catalog: {said}", harm=True, mended_by="the next `etc sync`" if after == right else "")

    return tell


def _forged_proof(found: Honest, random: Random) -> Told | None:
    """What is kept beside the table says that rows were compared."""
    store, base_path = FileApplyState(), str(found.table.base)
    proof = Proof(level="data", until_ms=NOW, proved_at_ms=NOW)
    store.note_proofs(base_path, "subject", (proof,))
    fresh = table_freshness(found.policy, found.state(), NOW, NOW, None, store.proofs(base_path, "subject"))
    said = fresh.complete_until_proof
    return Told("a proof by rows that never was", harm=said is not None and said.level == "data")


_GONE = "rows that are gone from both views alike: the views agree, and nothing says what was written"

_GROWS = (
    "before table version 8 commits go on writing to log files of earlier ones, so that one that is gone is not missed"
)
_ONE_BIT = "a bit within a value: no checksum of Hudi covers it, and RT itself shows the other value"
_KEPT = "what is kept beside the table, or in its catalog, is believed until the next verification or sync"

KINDS = (
    Lie("stats", "a later event time than the log file holds", _change_stat(_recorded, "a later time", _later)),
    Lie("stats", "an earlier event time", _change_stat(_recorded, "an earlier time", _earlier)),
    Lie("stats", "no event time", _change_stat(_recorded, "no time", lambda s, _: s.update(minEventTime=None))),
    Lie("stats", "a larger size", _change_stat(_log, "more bytes", lambda s, r: s.update(fileSizeInBytes=s["fileSizeInBytes"] + r.randint(1, 99)))),
    Lie("stats", "a smaller size", _change_stat(_log, "fewer bytes", lambda s, r: s.update(fileSizeInBytes=r.randrange(s["fileSizeInBytes"])))),
    Lie("stats", "no write stat", _removed_stat),
    Lie("stats", "deletes that are not counted", _change_stat(_deleting, "no deletes", lambda s, _: s.update(numDeletes=0), harm=True)),
    Lie("stats", "deletes that are none", _change_stat(_log, "deletes", lambda s, r: s.update(numDeletes=r.randint(1, 9)))),
    Lie("stats", "another number of rows", _change_stat(_log, "rows", lambda s, r: s.update(numWrites=r.randint(0, 99)))),
    Lie("stats", "another file's name", _change_stat(_log, "path", lambda s, r: s.update(path=s["path"].replace(".log.", ".log.4")))),
    Lie("files", "a log file cut short", _damage_log("cut", lambda one, r, _: _cut(one.path, r))),
    Lie("files", "a log file that is gone", _damage_log("gone", _unlink), "", _GROWS),
    Lie("files", "a log file of other bytes, as many", _damage_log("bytes", lambda one, r, _: _other_bytes(one.path, r))),
    Lie("files", "one bit of a log file", _damage_log("bit", lambda one, r, _: _one_byte(one.path, r)), _ONE_BIT),
    Lie("files", "an earlier event appended to a log file", _damage_log("appended", _append_early, _recorded)),
    Lie("files", "an earlier event in as many bytes", _damage_log("in place", _early_in_place, _recorded)),
    Lie("files", "a second log file of a commit", _copy_of_log),
    Lie("files", "a log file of no commit", _uncommitted),
    Lie("files", "a base file cut short", _damage_base("cut", _cut)),
    Lie("files", "a base file that is gone", _damage_base("gone", lambda path, _: os.unlink(path))),
    Lie("files", "a base file of other bytes, as many", _damage_base("bytes", _other_bytes), ROWS),
    Lie("timeline", "a commit that is empty", _damage_timeline("empty", lambda path, _: path.write_bytes(b""))),
    Lie("timeline", "a commit cut short", _damage_timeline("cut", _cut)),
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
    Lie("catalog", "a later complete_until", _catalog("complete_until", complete_until=str(_DAY_MS * 2))),
    Lie("catalog", "a proof by rows", _catalog("level", complete_until_level="data")),
    Lie("catalog", "a verification that never was", _catalog("status", status="verified", verified_at="2026-01-01T12:00:00Z", verified_level="data"), _KEPT),
    Lie("cache", "one bit of the cache", _bit_of_cache),
    Lie("cache", "later times below a right checksum", _forged_cache, ROWS),
    Lie("cache", "an earlier event in as many bytes, after the file was read", _damage_log("in place", _early_in_place, _read_before), ROWS),
    Lie("cache", "a proof by rows, kept beside the table", _forged_proof, _KEPT),
)  # fmt: skip
