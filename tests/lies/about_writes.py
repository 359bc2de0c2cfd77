"""Lies about what was written: write stats of commits, and files."""
# ruff: noqa: E501

from __future__ import annotations

import os
from random import Random

from tests.lies.honest import HOUR_MS, Honest, LogTruth, block
from tests.lies.lie import ROWS, Lie, Told, any_log, log_of, recorded_log, rewrite
from tests.unit.hudi.table_folder import at


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
    one = any_log(found, random)
    if one is None or found.kind.version < 8:
        return None

    def drop(record) -> None:
        record["partitionToWriteStats"][one.partition].remove(_stat_of(record, one))

    rewrite(found, found.commits[one.instant], drop)
    return Told(f"no stat of {one.path.name}")


def _deleting(found: Honest, random: Random) -> LogTruth | None:
    return log_of([one for one in found.logs if one.deletes and found.kind.version >= 8], random)


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


def damage_log(said: str, change, choose=any_log, *, harm: bool = True):
    def tell(found: Honest, random: Random) -> Told | None:
        one = choose(found, random)
        if one is None:
            return None
        change(one, random, found)
        return Told(f"{said}: {one.path.name}", harm)

    return tell


def cut(path, random: Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: random.randrange(len(content))])


def _other_bytes(path, random: Random) -> None:
    path.write_bytes(random.randbytes(path.stat().st_size))


def one_byte(path, random: Random) -> None:
    content = bytearray(path.read_bytes())
    content[random.randrange(len(content))] ^= 1 << random.randrange(8)
    path.write_bytes(content)


def _append_early(one: LogTruth, random: Random, found: Honest) -> None:
    one.min_ms -= random.randrange(1, 3 * HOUR_MS)
    with one.path.open("ab") as file:
        file.write(block(found.kind, [one.min_ms]))


def early_in_place(one: LogTruth, random: Random, found: Honest) -> None:
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
    one = any_log(found, random)
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


def _unlink(one: LogTruth, random: Random, found: Honest) -> None:
    os.unlink(one.path)


_GROWS = (
    "before table version 8 commits go on writing to log files of earlier ones, so that one that is gone is not missed"
)
_ONE_BIT = "a bit within a value: no checksum of Hudi covers it, and RT itself shows the other value"

LIES = (
    Lie("stats", "a later event time than the log file holds", _change_stat(recorded_log, "a later time", _later)),
    Lie("stats", "an earlier event time", _change_stat(recorded_log, "an earlier time", _earlier)),
    Lie("stats", "no event time", _change_stat(recorded_log, "no time", lambda s, _: s.update(minEventTime=None))),
    Lie("stats", "a larger size", _change_stat(any_log, "more bytes", lambda s, r: s.update(fileSizeInBytes=s["fileSizeInBytes"] + r.randint(1, 99)))),
    Lie("stats", "a smaller size", _change_stat(any_log, "fewer bytes", lambda s, r: s.update(fileSizeInBytes=r.randrange(s["fileSizeInBytes"])))),
    Lie("stats", "no write stat", _removed_stat),
    Lie("stats", "deletes that are not counted", _change_stat(_deleting, "no deletes", lambda s, _: s.update(numDeletes=0), harm=True)),
    Lie("stats", "deletes that were not written", _change_stat(any_log, "deletes", lambda s, r: s.update(numDeletes=r.randint(1, 9)))),
    Lie("stats", "another number of rows", _change_stat(any_log, "rows", lambda s, r: s.update(numWrites=r.randint(0, 99)))),
    Lie("stats", "another file's name", _change_stat(any_log, "path", lambda s, r: s.update(path=s["path"].replace(".log.", ".log.4")))),
    Lie("files", "a log file cut short", damage_log("cut", lambda one, r, _: cut(one.path, r))),
    Lie("files", "a log file that is gone", damage_log("gone", _unlink), "", _GROWS),
    Lie("files", "a log file of other bytes, as many", damage_log("bytes", lambda one, r, _: _other_bytes(one.path, r))),
    Lie("files", "one bit of a log file", damage_log("bit", lambda one, r, _: one_byte(one.path, r)), _ONE_BIT),
    Lie("files", "an earlier event appended to a log file", damage_log("appended", _append_early, recorded_log)),
    Lie("files", "an earlier event in as many bytes", damage_log("in place", early_in_place, recorded_log)),
    Lie("files", "a second log file of a commit", _copy_of_log),
    Lie("files", "a log file of no commit", _uncommitted),
    Lie("files", "a base file cut short", _damage_base("cut", cut)),
    Lie("files", "a base file that is gone", _damage_base("gone", lambda path, _: os.unlink(path))),
    Lie("files", "a base file of other bytes, as many", _damage_base("bytes", _other_bytes), ROWS),
)  # fmt: skip
