"""Replays what policies would have made of their tables' pasts, from metadata."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from etc_policy.api.each_table import each_table
from etc_policy.api.loading import ProjectReading
from etc_policy.api.observing import freshness_of
from etc_policy.errors import PolicyError, UsageError
from etc_policy.errors.codes import Code
from etc_policy.plan.pace import has_pace
from etc_policy.plan.simulation import ASSUMED_RUN_MS, Price, Schedule, actual_runs, figures_of, replay
from etc_policy.policy import schema
from etc_policy.policy.findings import schema_issues
from etc_policy.policy.hudi_options import COMMITS_BEFORE_COMPACTION
from etc_policy.policy.manifest import Policy, Strategy, changed_values, policy_values
from etc_policy.policy.project import DeclaredPolicy, ProjectFiles
from etc_policy.policy.resolve import check_project, interval_errors
from etc_policy.policy.schema_values import LEARNED
from etc_policy.policy.suggestions import did_you_mean
from etc_policy.policy.yaml_marks import FileMarks, Places
from etc_policy.report.simulation import (
    SimulatedSetting,
    SimulationReport,
    TableSimulation,
    shows_a_day,
    unread_simulation,
)
from etc_policy.table.formats import count_of, format_duration
from etc_policy.table.past import Past, past_of
from etc_policy.wiring import Environment, clock_ms

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000
_NOT_BY_ETC = {"figures": None, "reason": "not replayed, as the planner refuses the table"}
#: Of each setting so many runs are replayed at most, a minute's work: every 5 minutes of a year.
MAX_RUNS = 110_000
#: What of a policy may be set: when something is compacted, and what; a target is all of `freshness` that decides.
_SETTINGS = ("data_latency", "freshness.target", *(f"strategy.{key}" for key in schema.Strategy.names_by_key()))
_BY_RECORD = "rows are split with `granularity: record`, and metadata has none"


def changed_policies(
    reading: ProjectReading, policies: Iterable[Policy], settings: Mapping[str, Any], every_ms: int | None
) -> dict[str, Policy]:
    """The policies with other values, by name; checked as if their files said so. What was learned of their tables stays.

    Raises:
        UsageError: a setting is not known.
        PolicyError: the policies would have errors; carries all of them.

    """
    _require_settings(settings)
    by_name = {policy.name: policy for policy in policies}
    files = _with_settings(reading.files, settings, by_name)
    issues = check_project(files, reading.suites, os.path.realpath)
    if every_ms is not None and (errors := interval_errors(files, by_name.keys(), every_ms)):
        raise PolicyError(errors)
    manifest = replace(reading, files=files, issues=issues).manifest
    kept = () if "data_latency" in settings else ("data_latency_ms", "latency_evidence")
    return {
        policy.name: policy.model_copy(update={name: getattr(by_name[policy.name], name) for name in kept})
        for policy in manifest.policies
        if policy.name in by_name
    }


def _require_settings(settings: Mapping[str, object]) -> None:
    """Return if all of the settings can be simulated.

    Raises:
        UsageError: some cannot; names them, and those that can.

    """
    unknown = [key for key in settings if key not in _SETTINGS]
    if unknown:
        named = ", ".join(f"`{key[:60]}`" for key in unknown)
        hint = did_you_mean(unknown[0], _SETTINGS) or f"these can: {', '.join(_SETTINGS)}"
        raise UsageError(Code.USAGE, f"no setting that can be simulated: {named}", hint=hint)


def _with_settings(files: ProjectFiles, settings: Mapping[str, Any], names: Container[str]) -> ProjectFiles:
    """The project, where the named policies have these values by their dotted keys; a key with None is removed.

    `issues` are also those of values that are wrong by themselves; their policies are left out.
    """
    issues, policies = list(files.issues), list[DeclaredPolicy]()
    for policy in files.policies:
        if policy.declaration.name not in names:
            policies.append(policy)
            continue
        values, places = changed(policy, settings)
        try:
            policies.append(DeclaredPolicy(schema.PolicyDeclaration.from_yaml(values), places, values))
        except ValidationError as error:
            found = schema_issues(error, schema.PolicyEntry, places, name=policy.declaration.name)
            issues += (issue for _, issue in found)
    return replace(files, policies=tuple(policies), issues=tuple(issues))


def changed(policy: DeclaredPolicy, settings: Mapping[str, Any]) -> tuple[dict[str, Any], Places]:
    """The policy's values with the new ones, whose places are the settings as they were given."""
    values, origins = dict[str, Any](policy.values), dict(policy.places.origins)
    if "data_latency" in settings:
        values.pop(LEARNED, None)
    for key, value in settings.items():
        first, *below = path = tuple(key.split("."))
        before = values.get(first)
        inner = {**(before if isinstance(before, dict) else {}), below[0]: value} if below else value
        values[first] = {name: one for name, one in inner.items() if one is not None} if below else inner
        origins[path] = FileMarks(f"--set {key}={value}", "--set"), path
    return values, Places(policy.places.file, policy.places.path, origins)


def price_of(given: Mapping[str, Any]) -> Price:
    """What compacting costs, as it was given.

    Raises:
        UsageError: a key is not known, or its value is no price; names all of them.

    """
    try:
        return Price.model_validate(given)
    except ValidationError as error:
        keys = ", ".join(Price.model_fields)
        faults = [f"`{str(one['loc'][0])[:60]}`: {_fault(one)}" for one in error.errors()]
        hint = f"a price has these keys: {keys}, such as `core_hour=0.05`"
        raise UsageError(Code.USAGE, f"not a price: {'; '.join(faults)}", hint=hint) from error


def _fault(found: ErrorDetails) -> str:
    return "is not known" if found["type"] == "extra_forbidden" else found["msg"]


def simulate_tables(
    environment: Environment,
    policies: Iterable[Policy],
    changed: Mapping[str, Policy],
    every_ms: int | None,
    last_ms: int | None,
    price: Price | None,
) -> SimulationReport:
    """Each table's past replayed: as it was, under its policy, under the changed one, and by stock Hudi; and its backlog now."""
    now_ms = clock_ms()

    def simulate(policy: Policy) -> TableSimulation:
        state, history = environment.read_whole(policy)[:2]
        fresh = freshness_of(policy, state, now_ms, history)
        found = TableSimulation(
            policy=policy.name,
            base_path=state.base_path,
            lag_ms=None if fresh.lag_seconds is None else round(fresh.lag_seconds * 1000),
            target_ms=policy.freshness.target_ms,
            log_files=sum(1 for _ in state.log_files),
            log_bytes=sum(one.size_bytes for _, one in state.log_files),
        )
        past = past_of(state, history)
        if past is None:
            return found.model_copy(update={"reason": "no two commits, one of them with log files, are known"})
        past = past if last_ms is None else past.since(past.end_ms - last_ms)
        environment.progress(f"{policy.name}: replaying {count_of(len(past.commit_times_ms), 'commit')}")
        replayed = _simulated(past, policy, changed.get(policy.name), every_ms, price)
        return found.model_copy(update=replayed)

    tables, errors = each_table(environment, policies, simulate, unread_simulation)
    return SimulationReport(tables=tables, price=price).with_errors(errors)


def _simulated(
    past: Past, policy: Policy, changed: Policy | None, every_ms: int | None, price: Price | None
) -> dict[str, Any]:
    """What a replay adds to a table's entry."""
    known_ms = past.state.apply_state.run_ms
    run_ms = ASSUMED_RUN_MS if known_ms is None else known_ms
    settings = _settings(past, policy, changed, every_ms, run_ms)
    return {
        "begin_ms": past.begin_ms,
        "end_ms": past.end_ms,
        "whole": past.whole,
        "commits": len(past.commit_times_ms),
        "writes": len(past.arrivals),
        "unknown_writes": sum(one.log_file.min_event_time_ms is None for one in past.arrivals),
        "run_ms": run_ms,
        "run_assumed": known_ms is None,
        "settings": tuple(
            _priced(one, price if shows_a_day(past.begin_ms, past.end_ms) else None, run_ms) for one in settings
        ),
    }


def _priced(setting: SimulatedSetting, price: Price | None, run_ms: int) -> SimulatedSetting:
    if price is None or setting.figures is None:
        return setting
    return setting.model_copy(update={"cost": price.of(setting.figures, run_ms)})


def _settings(
    past: Past, policy: Policy, changed: Policy | None, every_ms: int | None, run_ms: int
) -> Iterator[SimulatedSetting]:
    figures = figures_of(past, policy, actual_runs(past))
    yield SimulatedSetting(kind="past", name="as it was", figures=figures)
    yield _by_policy(past, policy, every_ms, run_ms)
    if changed is not None:
        # a latency that is set takes the place of a learned one, which is no change of its own
        before = policy.model_copy(update={"learned_latency": changed.learned_latency})
        changes = changed_values(policy_values(before), policy_values(changed))
        found = _by_policy(past, changed, every_ms, run_ms)
        name = f"changed{found.name.removeprefix('policy')}"
        yield found.model_copy(update={"kind": "changed", "name": name, "changes": changes})
    stock, every_ms = policy.model_copy(update={"strategy": Strategy(type="unbounded")}), _own_pace_ms(past)
    often = "hour" if every_ms == _HOUR_MS else format_duration(every_ms)
    for schedule, name in (
        (Schedule(stock, every_ms, run_ms, paced=False), f"stock, every {often}"),
        (
            Schedule(stock, every_ms, run_ms, COMMITS_BEFORE_COMPACTION, paced=False),
            f"stock, every {COMMITS_BEFORE_COMPACTION} commits",
        ),
    ):
        every = None if schedule.commits else schedule.every_ms
        replayed = _replayed(past, schedule)
        found = SimulatedSetting(kind="stock", name=name, every_ms=every, commits=schedule.commits, **replayed)
        found = found.model_copy(update={"own_pace": every not in (None, _HOUR_MS)})
        yield found.model_copy(update=_NOT_BY_ETC) if found.figures and found.figures.refused else found


def _replayed(past: Past, schedule: Schedule) -> dict[str, Any]:
    """The figures of a schedule, or why it was not replayed."""
    runs = 0 if schedule.commits else (past.end_ms - past.begin_ms) // schedule.every_ms
    if runs > MAX_RUNS:
        reason = f"these would be {runs:,} runs, and {MAX_RUNS:,} are replayed at most: name less of the past by --last"
        return {"figures": None, "reason": reason}
    return {"figures": figures_of(past, schedule.policy, replay(past, schedule)), "reason": None}


def _own_pace_ms(past: Past) -> int:
    """Every hour, or where that would be less than two runs, as often as commits came, in whole minutes."""
    span_ms = past.end_ms - past.begin_ms
    minutes = round(span_ms / max(1, len(past.commit_times_ms)) / _MINUTE_MS)
    return _HOUR_MS if span_ms >= 2 * _HOUR_MS else max(1, minutes) * _MINUTE_MS


def _by_policy(past: Past, policy: Policy, every_ms: int | None, run_ms: int) -> SimulatedSetting:
    """Runs come as somebody says, as the policy does, or at the table's own pace."""
    known_ms = every_ms or policy.strategy.every_ms
    schedule = Schedule(policy, known_ms or _own_pace_ms(past), run_ms, paced=has_pace(policy, known_ms))
    by_record = not policy.is_stock and policy.strategy.granularity == "record"
    replayed = {"figures": None, "reason": _BY_RECORD} if by_record else _replayed(past, schedule)
    return SimulatedSetting(
        kind="policy",
        name=f"policy, every {format_duration(schedule.every_ms)}",
        every_ms=schedule.every_ms,
        own_pace=known_ms is None and schedule.every_ms != _HOUR_MS,
        just_in_time=schedule.paced,
        **replayed,
    )
