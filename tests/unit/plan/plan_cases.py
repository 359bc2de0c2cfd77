"""Reads tests/golden/plans/*/state.yml and tests/golden/refusals/*.yml, and writes plans so that a person can check them.

Every time in a case is a time of day on 2026-01-01, in the table's zone where it is an instant, else in UTC. A case is
one table, or `tables`, a list of them. Keys of a table, all but `slices` optional:

    about      what the case shows
    now, clock what counts as now (12:00:00), and the wall clock (as now)
    latency    minutes (60)
    granularity, carry, partitions, max_io (bytes), index, writers_compact, options        of the policy
    level      of verification (data)
    tested     releases that the policy says are tested with the table
    strategy   of Hudi's own, as a policy file has it: {type: log_file_num, min_log_files: 2}
    target, every, run                        minutes: of freshness, between runs, and that the last run took (none is known)
    published  the threshold of the last compaction by etc
    version, timezone, retained, own_pending, living_writers, foreign_compaction, uncarried, orphans,
    metadata_partitions, cdc, merges_otherwise, updates_in_part, merge_mode, ordering (fields), lacks_meta_columns,
    has_unsure_keys, base_file_format, unworkable (column, what it is), missing_files, unclear_files, stray_files,
    unrecorded_files, unseen_files, properties, logs_grow   of the table
    slices     <partition>/<file id>: {base: time or none, logs: {name: requested > completed [event] [deletes] [recorded bytes]}}
               `impossible <ms after 1970>` is an event time that cannot be true
               `2 nulls` are rows without an event time; `deletes` are by key, `deletes, seen <time>` beside rows from then on;
               of `may delete` nobody knows what is in it; `may hold anything` is of another column
    unit       of the event-time column
    merging, release   how the table merges rows, and the release of Hudi's bundle that is to compact it
    unreadable_time    a text that is not a time, and its log file: {value, log_file}
    wrong_times  completion times that cannot be true: requested > completed, action [right time]
    other_zone   what shows that the table's instants are of another zone
    exposed    slices with a log file that was written beside a compaction of deletes: their partition/file id
    archived_before   commits requested before are on no active timeline
    savepoints commits that archiving has left behind for their savepoints: requested > completed
    instants   more of them: requested [> completed] action [state] [file ids]; `all` says that they are not known
    altered    requests of the writes that have altered the schema: they and those after them carry another one
    hiding     requests of writes that carry none of them, where columns were renamed
    metadata_instants  times that the metadata table's timeline has taken

The delta commits of the slices' files are on the timeline by themselves.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.model import Operation, Plan, TablePlan, make_plan
from etc_policy.plan.pace import Pace, pace_of
from etc_policy.policy.manifest import EventTime, Freshness, Policy, Verify, Writer
from etc_policy.policy.schema import Strategy
from etc_policy.table.completion_times import WrongTime
from etc_policy.table.state import (
    HIDDEN,
    PARQUET,
    CompactionRecord,
    FileSlice,
    Instant,
    LogFile,
    TableState,
    UnreadableTime,
)
from etc_policy.table.zone_evidence import ZoneReading

DAY = datetime(2026, 1, 1, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOON = "12:00:00"


def instant(clock: str) -> str:
    """`hh:mm:ss[.mmm]` as an instant."""
    whole, _, fraction = clock.partition(".")
    return f"20260101{whole.replace(':', '')}{fraction or '000'}"


def epoch_ms(clock: str) -> int:
    """`hh:mm:ss[.mmm]` as epoch milliseconds."""
    moment = datetime.fromisoformat(f"2026-01-01T{clock}+00:00")
    return (moment - EPOCH) // timedelta(milliseconds=1)


#: What a plan is made of: policy, state, what counts as now, the wall clock, and how often runs come.
Inputs = tuple[Policy, TableState, int, int, Pace | None]


def plan_of_case(place: Path) -> Plan:
    """The plan over the tables of a case, which is a folder or a file; its id is the case's name."""
    plans = tuple(
        build_table_plan(policy, state, now_ms=now_ms, clock_ms=clock_ms, pace=pace)
        for policy, state, now_ms, clock_ms, pace in inputs_of_case(place)
    )
    return make_plan("2026-01-01T12:00:00Z", plans).model_copy(update={"plan_id": place.stem})


def inputs_of_case(place: Path) -> list[Inputs]:
    """What the plans of a case are made of."""
    case = yaml.safe_load((place / "state.yml" if place.is_dir() else place).read_text("utf-8"))
    return [inputs_of(table, f"table_{number}") for number, table in enumerate(case.get("tables") or [case], 1)]


def inputs_of(table: dict[str, Any], name: str = "table_1") -> Inputs:
    """What the plan of one table is made of."""
    strategy = Strategy.model_validate(
        {
            "granularity": table.get("granularity", "file_slice" if "strategy" in table else "log_file"),
            "partitions": table.get("partitions", ()),
            "max_io": table.get("max_io"),
            "carry": table.get("carry"),
            "every_ms": _minutes(table, "every"),
            **table.get("strategy", {}),
        }
    )
    policy = Policy(
        name=name,
        table=f"/{name}",
        event_time=EventTime(column="ts", unit=table.get("unit")),
        data_latency_ms=table.get("latency", 60) * 60_000,
        strategy=strategy,
        verify=Verify(level=table.get("level", "data")),
        freshness=Freshness(target_ms=_minutes(table, "target")),
        writer=Writer(
            index=table.get("index"),
            compaction=table.get("writers_compact", "none"),
            merges_tested_with=tuple(table.get("tested", ())),
        ),
        hudi_options={key: str(value) for key, value in table.get("options", {}).items()},
    )
    now, state = table.get("now", NOON), state_of(f"/{name}", table)
    published_ms = state.last_compaction.threshold_ms if state.last_compaction else None
    pace = pace_of(policy, None, _minutes(table, "run"), published_ms)
    return policy, state, epoch_ms(now), epoch_ms(table.get("clock", now)), pace


def _minutes(table: dict[str, Any], key: str) -> int | None:
    return int(table[key] * 60_000) if key in table else None


def state_of(base_path: str, table: dict[str, Any]) -> TableState:
    """The table's state."""
    slices = tuple(_slice(place, told) for place, told in table.get("slices", {}).items())
    return TableState(
        base_path=base_path,
        table_version=table.get("version", 9),
        timezone=table.get("timezone", "UTC"),
        metadata_partitions=tuple(table.get("metadata_partitions", ("files",))),
        properties_fingerprint=table.get("properties", "properties"),
        logs_grow=table.get("logs_grow", False),
        event_time_type="long",
        instants=_instants(table, slices),
        metadata_instants=frozenset(map(instant, table.get("metadata_instants", ()))),
        slices=slices,
        last_compaction=_compaction(table["published"]) if "published" in table else None,
        earliest_commit_to_retain=instant(table["retained"]) if "retained" in table else None,
        own_pending=instant(table["own_pending"]) if "own_pending" in table else None,
        living_writers=frozenset(map(instant, table.get("living_writers", ()))),
        uncarried=instant(table["uncarried"]) if "uncarried" in table else None,
        orphans=tuple(table.get("orphans", ())),
        missing_files=tuple(table.get("missing_files", ())),
        unclear_files=tuple(table.get("unclear_files", ())),
        stray_files=tuple(table.get("stray_files", ())),
        unrecorded_files=tuple(table.get("unrecorded_files", ())),
        unseen_files=tuple(table.get("unseen_files", ())),
        unreadable_time=UnreadableTime(**table["unreadable_time"]) if "unreadable_time" in table else None,
        wrong_times=tuple(map(_wrong_time, table.get("wrong_times", ()))),
        zone=ZoneReading("UTC", "contradicted", table["other_zone"]) if "other_zone" in table else None,
        has_cdc=table.get("cdc", False),
        merges_otherwise=table.get("merges_otherwise", False),
        updates_in_part=table.get("updates_in_part", False),
        merge_mode=table.get("merge_mode"),
        ordering_fields=tuple(table.get("ordering", ())),
        lacks_meta_columns=table.get("lacks_meta_columns", False),
        has_unsure_keys=table.get("has_unsure_keys", False),
        merging=table.get("merging", ""),
        release=table.get("release"),
        base_file_format=table.get("base_file_format", PARQUET),
        unworkable=tuple(table["unworkable"]) if "unworkable" in table else None,
        foreign_compaction=instant(table["foreign_compaction"]) if "foreign_compaction" in table else None,
        exposed=frozenset((place.rpartition("/")[0], place.rpartition("/")[2]) for place in table.get("exposed", ())),
    )


def _compaction(threshold: str) -> CompactionRecord:
    return CompactionRecord(instant("11:00:00"), instant("11:00:05"), epoch_ms(threshold), "table_1", "x")


#: For states that are not read from a file.
POLICY_OF_CASES = Policy(name="cases", table="/t", event_time=EventTime(column="ts"), data_latency_ms=60_000)


def state_at(completed: list[str], timezone: str) -> TableState:
    """A table of one slice, each commit of which completed as it was requested: a base file, then due log files."""
    logs = [LogFile(f"L{n}", 1, time, time, 0) for n, time in enumerate(completed[1:])]
    logs.sort(key=lambda log: log.completed)  # in an hour that comes twice not the order in which they were written
    return TableState(
        base_path="/t",
        table_version=9,
        timezone=timezone,
        metadata_partitions=(),
        properties_fingerprint="properties",
        event_time_type="long",
        instants=tuple(Instant(time, "deltacommit", "completed", time) for time in completed),
        metadata_instants=frozenset(),
        slices=(FileSlice("p", "f1", completed[0], "f1.parquet", 1, tuple(logs)),),
    )


def _slice(place: str, told: dict[str, Any]) -> FileSlice:
    partition, _, file_id = place.rpartition("/")
    logs = [_log_file(name, text) for name, text in told.get("logs", {}).items()]
    logs.sort(key=lambda log: (log.completed, log.requested))
    base = told["base"]
    if base == "none":
        return FileSlice(partition, file_id, min(log.requested for log in logs), None, 0, tuple(logs))
    return FileSlice(partition, file_id, instant(base), f"{file_id}.parquet", 1_000_000, tuple(logs), 1_000_000)


def _log_file(name: str, text: str) -> LogFile:
    times, *rest = (part.strip() for part in text.split(","))
    requested, completed = (instant(time.strip()) for time in times.split(">"))
    events = [word.removeprefix("event ") for word in rest if word.startswith("event ")]
    event_ms = epoch_ms(events[0]) if events else None
    recorded = [int(word.removeprefix("recorded ")) for word in rest if word.startswith("recorded ")] or [10_000]
    deletes, seen = "deletes" in rest, [word.removeprefix("seen ") for word in rest if word.startswith("seen ")]
    file = LogFile(name, 10_000, requested, completed, event_ms, deletes or "may delete" in rest, recorded[0])
    seen_ms = epoch_ms(seen[0]) if seen else None
    ahead = [int(word.removeprefix("impossible ")) for word in rest if word.startswith("impossible ")] or [None]
    is_deletes = deletes and event_ms is None
    nulls = [int(word.removesuffix(" nulls")) for word in rest if word.endswith(" nulls")] or [0]
    file = file._replace(null_rows=nulls[0], rows_since="" if "may hold anything" in rest else file.rows_since)
    return file._replace(seen_event_time_ms=seen_ms, unknown_is_deletes=is_deletes, impossible_ms=ahead[0])


def _instants(table: dict[str, Any], slices: tuple[FileSlice, ...]) -> tuple[Instant, ...]:
    told = [_instant(text) for text in table.get("instants", ())]
    kept = (_instant(f"{text}, deltacommit") for text in table.get("savepoints", ()))
    told += [replace(one, has_savepoint=True) for one in kept]
    known = {one.requested for one in told}
    written = {log.requested: log.completed for one in slices for log in one.log_files}
    written |= {s.base_instant: s.base_instant for s in slices if s.base_file and s.base_instant not in written}
    first = instant(table.get("archived_before", "00:00:00"))
    told += [Instant(r, "deltacommit", "completed", c) for r, c in written.items() if r >= first and r not in known]
    altered = [*map(instant, table.get("altered", ()))]
    told = [replace(one, schema=str(sum(at <= one.requested for at in altered) or "")) for one in told]
    hiding = {*map(instant, table.get("hiding", ()))}
    told = [replace(one, schema=HIDDEN) if one.requested in hiding else one for one in told]
    return tuple(sorted(told, key=lambda one: one.requested))


def _instant(text: str) -> Instant:
    times, action, *rest = (part.strip() for part in text.split(","))
    requested, _, completed = (part.strip() for part in times.partition(">"))
    if not completed:
        state = "inflight" if rest == ["inflight"] else "requested"
        return Instant(instant(requested), action, state)
    touched = None if rest == ["all"] else frozenset(rest)
    return Instant(instant(requested), action, "completed", instant(completed), touched)


def _wrong_time(text: str) -> WrongTime:
    times, action, *rest = (part.strip() for part in text.split(","))
    requested, completed = (part.strip() for part in times.split(">"))
    right = [word.removeprefix("right ") for word in rest]
    return WrongTime(
        timeline="table",
        requested=instant(requested),
        completed=instant(completed),
        action=action,
        late=epoch_ms(completed) > epoch_ms(requested),
        written_ms=epoch_ms(right[0] if right else requested),
        right=instant(right[0]) if right else None,
        unknown="" if right else "its file does not show it",
    )


def readable(plan: Plan) -> dict[str, Any]:
    """The plan with times of day, less what is the same in every case."""
    return {"tables": [readable_table(table) for table in plan.tables]}


def readable_table(table: TablePlan) -> dict[str, Any]:
    """One table of a plan."""
    found = {
        "action": table.action,
        "reason_code": table.reason_code,
        "threshold": _time(table.threshold_ms),
        "instant": _instant_time(table.instant),
        "slices": {f"{one.partition}/{one.file_id}".lstrip("/"): _readable_slice(one) for one in table.operations},
        "watermark_before": _time(table.watermark_before_ms),
        "watermark_after": _time(table.watermark_after_ms),
        "watermark": None if table.watermark_known else "not known",
        "watermark_assumed": table.watermark_assumed,
        "held_back_by": table.held_back_by,
        "unknown_log_files": table.unknown_log_files,
        "next_due": _time(table.next_due_ms),
        "notes": list(table.notes),
    }
    return {key: value for key, value in found.items() if value not in (None, [], {}, 0) or key == "watermark_after"}


def _readable_slice(operation: Operation) -> dict[str, list[str]]:
    names = {"compacted": list(operation.log_files_compacted), "remaining": list(operation.log_files_remaining)}
    return {**names, "carried": [one.name for one in operation.carried]} if operation.carried else names


def _time(epoch: int | None) -> str | None:
    if epoch is None:
        return None
    moment = EPOCH + timedelta(milliseconds=epoch)
    day = "" if moment.date() == DAY.date() else f"{moment:%Y-%m-%d} "
    return f"{day}{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}"


def _instant_time(text: str | None) -> str | None:
    return text and f"{text[8:10]}:{text[10:12]}:{text[12:14]}.{text[14:]}"
