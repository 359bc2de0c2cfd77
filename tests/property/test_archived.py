"""Archiving a prefix of the history changes no reading, no plan and no verdict, over random lifetimes of tables on disk."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from etc_policy.api.observing import freshness_of
from etc_policy.hudi.completion_times import may_be_shifted
from etc_policy.hudi.log_times import fill_from_logs
from etc_policy.hudi.table import FileTableReader
from etc_policy.plan.builder import build_table_plan
from etc_policy.policy.manifest import Policy
from etc_policy.table.history import promise_of
from etc_policy.table.state import FileSlice, TableState, path_below
from etc_policy.verify import prover
from etc_policy.verify.evidence import Evidence
from etc_policy.verify.metadata_checks import DOUBLE_KEYS, always_checked
from etc_policy.verify.ports import ExpectationResult
from etc_policy.verify.prover import claim_of
from tests.nightly import HISTORIES
from tests.property.lifetimes import LATENCY_MS, Lifetime
from tests.property.mutate import OF_THE_ARCHIVE, Broken

#: What goes by bounds of event times that are not known.
_OF_BOUNDS = {"freshness", "plan", "verdict"}
#: What says how long ago or how large something of the active timeline was.
_OF_ACTIVE = {"last_commit_age_seconds", "data_latency"}
#: What a warning says that counts the commits of the active timeline.
_LATE = "brought events later than"


def readings(life: Lifetime, *, read_logs: bool) -> dict[str, Any]:
    """What etc makes of the table."""
    policy = Policy(name="t", table=str(life.folder), event_time=life.event_time, data_latency_ms=LATENCY_MS)
    state, history = FileTableReader().read_with_history(str(life.folder), life.event_time)[:2]
    state = fill_from_logs(state, policy, None) if read_logs else state
    now_ms = life.now
    plan = build_table_plan(policy, state, now_ms=now_ms, clock_ms=now_ms)
    evidence = Evidence(policy, state, history, claim_of(policy, state, now_ms), now_ms)
    freshness = freshness_of(policy, state, now_ms, history, clock_at_ms=now_ms).model_dump(exclude=_OF_ACTIVE)
    late = prover._data_check(evidence, (), "data").late_commits if promise_of(policy, state) else frozenset()
    found = {
        "late": late & {one.requested for _, one in state.log_files},
        **{f"slice {path_below(*one.group)}": _known_of(one) for one in state.slices},
        "last compaction": state.last_compaction,
        "column since": state.column_since,
        "first instant": state.first_instant,
        "exposed": state.exposed,
        "missing": (state.missing_files, state.unclear_files, state.stray_files, state.orphans),
        "wrong times": state.wrong_times,
        "freshness": {**freshness, "warnings": [one for one in freshness["warnings"] if _LATE not in one]},
        "plan": (plan.action, plan.reason_code, plan.threshold_ms, {one.group for one in plan.operations}),
        "verdict": {one.expectation: one.status for one in always_checked(evidence) if _looks_back(one, state)},
    }
    return {name: value for name, value in found.items() if name not in _OF_BOUNDS or not _may_be_shifted(state)}


def _may_be_shifted(state: TableState) -> bool:
    """Whether a completion time may be that of a clock in another zone: once its commit is archived it bounds nothing."""
    return any(may_be_shifted(one.requested, one.completed) for _, one in state.log_files)


def _known_of(one: FileSlice) -> FileSlice:
    """The slice without what only saves work: latest times by which a file need not be split, and sizes that cannot be checked.

    A log file beside a clustering is recorded by another commit than that in its name, and the archive is asked for that alone.
    """
    logs = tuple(
        file._replace(
            max_event_time_ms=None,
            recorded_bytes=None if file.rows_since else file.recorded_bytes,
            rows_since=None if may_be_shifted(file.requested, file.completed) else file.rows_since,
        )
        for file in one.log_files
    )
    return replace(one, base_file_recorded_bytes=None, log_files=logs)


def _looks_back(one: ExpectationResult, state: TableState) -> bool:
    """Of double keys that were possible before the latest slices were begun only the active timeline shows something."""
    return one.expectation != DOUBLE_KEYS or bool(state.exposed)


def check(data: bytes, folder: Path) -> int:
    """Lives through it, and archives more and more of it; gives how often something was compared."""
    life = Lifetime(data, folder)
    while not life.choices.used_up:
        life.step()
    while life.open:
        life.end_write()
    read_logs, compared = bool(len(data) % 2), 0
    before = readings(life, read_logs=read_logs)
    while (archived := len(life.table.archived)) < 60:
        life.archive_more(1 + compared % 3)
        if len(life.table.archived) == archived:
            break
        after = readings(life, read_logs=read_logs)
        compared += 1
        for name, value in before.items():
            assert after.get(name) == value, "\n".join((f"{name}: {value}, archived: {after.get(name)}", *life.story))
    return compared


def changed_after(broken: Broken, count: int, seed: int) -> int | None:
    """After how many lifetimes archiving changes something where a rule is broken; None where it never does."""
    source = random.Random(seed)
    with broken():
        for number in range(1, count + 1):
            with TemporaryDirectory() as folder:
                try:
                    check(source.randbytes(source.randrange(20, 120)), Path(folder) / "t")
                except AssertionError:
                    return number
    return None


@pytest.mark.parametrize("name", OF_THE_ARCHIVE)
def test_a_broken_rule_is_noticed(name: str) -> None:
    assert changed_after(OF_THE_ARCHIVE[name], 400, seed=5) is not None


def test_archiving_changes_no_reading_no_plan_and_no_verdict() -> None:
    source, compared = random.Random(20_261_128), 0
    for _ in range(HISTORIES // 5):
        with TemporaryDirectory() as folder:
            compared += check(source.randbytes(source.randrange(20, 120)), Path(folder) / "t")
    assert compared > HISTORIES // 5
