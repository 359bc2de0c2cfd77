"""Breaks each rule of the planner, of expressions and each judgement of completeness in turn and shows that somebody notices:
`python -m tests.property.mutate`. Each reason to refuse is left out, too, and its case in `tests/golden/refusals` notices.

Prints one line a rule; exits with 1 when a broken rule went unnoticed, or when the unbroken planner fails. Only an assertion of
the oracle notices a broken rule: an error of the broken planner itself ends the command.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import fields, replace
from dataclasses import replace as with_values
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch
from zoneinfo import ZoneInfo

from jinja2 import defaults
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment

from etc_policy.api import observing, verifying
from etc_policy.api import partitions as sent
from etc_policy.hudi import archive, file_slices, log_times, schemas, table, table_commits, timeline
from etc_policy.plan import builder, clock, cut, hold, planning_context, skipped_slices
from etc_policy.policy import render
from etc_policy.policy.manifest import Policy
from etc_policy.report import freshness
from etc_policy.table import done, history, instants, partitions, proofs, state, watermark
from etc_policy.table.apply_state import Looked
from etc_policy.verify import prover
from tests.property import judged
from tests.property.histories import broken_promise, histories
from tests.property.judged import broken_judgement
from tests.property.partition_world import live
from tests.unit.plan.test_refusals import CODES, without_row
from tests.unit.plan.test_refusals import wrong as wrong_refusal
from tests.unit.policy.test_render import wrong

Broken = Callable[[], Any]


def without_guard(dropped: cut.Guard) -> Broken:
    """The planner without one of the guards that raise C."""

    def broken() -> Any:
        guards = tuple(guard for guard in cut.GUARDS if guard is not dropped)
        return patch.object(builder, "find_cut", lambda facts, start: cut.find_cut(facts, start, guards))

    return broken


def with_facts(**changed: Any) -> Broken:
    """The planner whose guards see other facts."""
    assert changed.keys() <= {known.name for known in fields(cut.Cut)}, changed
    real = cut.find_cut
    return lambda: patch.object(builder, "find_cut", lambda facts, start: real(replace(facts, **changed), start))


def replaced(module: Any, name: str, value: Any) -> Broken:
    """The planner with another function or constant."""
    assert hasattr(module, name), name
    return lambda: patch.object(module, name, value)


def without_rule(code: str) -> Broken:
    """The planner without one of its reasons to refuse."""
    return lambda: without_row(code)


@contextmanager
def picked_not_prefix() -> Iterator[None]:
    """RFC-74's `filterLogFiles`: log files at or below T wherever they stand, instead of all up to the last of them."""
    real_operation = builder.operation_of

    def operation(context: Any, file_slice: Any, instant: str) -> Any:
        due = [log.name for log in file_slice.log_files if planning_context.is_due(log, context.threshold_ms)]
        whole = real_operation(context, file_slice, instant)
        names = whole.log_files_compacted + whole.log_files_remaining
        picked = tuple(name for name in names if name in due)
        left = tuple(name for name in names if name not in due)
        size = sum(log.size_bytes for log in file_slice.log_files if log.name in picked)
        read = whole.bytes_read - whole.log_bytes_compacted + size
        files = {"log_files_compacted": picked, "log_files_remaining": left}
        return whole.model_copy(update={**files, "log_bytes_compacted": size, "bytes_read": read})

    with patch.object(builder, "operation_of", operation):
        yield


@contextmanager
def unknown_is_never_due() -> Iterator[None]:
    """A log file of unknown event time counts as if it held no event, for the budget too."""

    def is_due(log: Any, threshold_ms: int) -> bool:
        return log.min_event_time_ms is not None and log.min_event_time_ms <= threshold_ms

    def age(one: Any) -> tuple[int, str, str]:
        known = (log.min_event_time_ms for log in one.log_files if log.min_event_time_ms is not None)
        return min(known, default=2**60), one.partition, one.file_id

    with patch.object(planning_context, "is_due", is_due), patch.object(skipped_slices, "age", age):
        yield


def strictly_below(log: Any, threshold_ms: int) -> bool:
    return log.min_event_time_ms is None or log.min_event_time_ms < threshold_ms


@contextmanager
def numbers_not_times() -> Iterator[None]:
    def add_to_the_number(instant: str, milliseconds: int) -> str:
        return str(int(instant) + milliseconds)

    with patch.object(builder, "add_ms", add_to_the_number), patch.object(cut, "add_ms", add_to_the_number):
        yield


def newest_first(slices: Any, max_bytes: int, bytes_of: Any, first: Any = ()) -> tuple[Any, None]:
    """As many slices as fit, those with the newest events first."""
    ordered = sorted((one for one in slices if one not in first), key=skipped_slices.age, reverse=True)
    fitting = [n for n in range(1, len(ordered) + 1) if bytes_of((*first, *ordered[:n]), None) <= max_bytes]
    return (*first, *ordered[: max(fitting, default=0 if first else 1)]), None


def last_not_first(slices: Any, max_bytes: int, bytes_of: Any, first: Any = ()) -> Any:
    """As many slices as fit into a hold, those that hold RO back last."""
    return hold.within_hold(tuple(reversed(slices)), max_bytes, bytes_of, first)


def first_not_last(context: Any, chosen: Any) -> Any:
    first = min(
        f.completed for one in chosen for f in one.log_files if planning_context.is_due(f, context.threshold_ms)
    )
    return builder.Place(instants.add_ms(first, 1), instants.add_ms(first, 1))


def of_promises_alone(real: Callable[..., Any]) -> Callable[..., Any]:
    """What is kept beside a table, where etc has compacted it by the policy's column."""
    return lambda policy, table: history.promise_of(policy, table) and real(policy, table)


def no_matter_when(real: Any) -> Any:
    """What is kept names these compactions, whatever was known before: none of what was is taken off."""

    def compactions_in(kept: Any) -> Any:
        return Unsubtracted(real(kept))

    return compactions_in


class Unsubtracted(set[Any]):
    def __sub__(self, other: Any) -> Any:
        return self


real_zone = instants.instant_from_ms

MUTATIONS: dict[str, Broken] = {
    "prefix rule: due log files are picked wherever they stand": picked_not_prefix,
    "prefix rule: up to the first due log file": replaced(builder, "_instant", first_not_last),
    **{f"guard: {guard.title}": without_guard(guard) for guard in cut.GUARDS},
    "C after log compactions that touched the slices": replaced(
        cut, "SERVICE_ACTIONS", cut.SERVICE_ACTIONS - {"logcompaction"}
    ),
    "C after the end of a log compaction, not only its instant": replaced(
        cut, "_AT_COMPLETION", cut._AT_COMPLETION - {"logcompaction"}
    ),
    "C after what archiving is about to take": with_facts(keep_commits=(1, 10**6)),
    "C at no instant's time of the MDT": with_facts(metadata_instants=frozenset()),
    "instants are times, not numbers": numbers_not_times,
    "clock-skew bound": replaced(clock, "MAX_CLOCK_SKEW_MS", 0),
    "clock in the table's zone": replaced(builder, "instant_from_ms", lambda ms, _: real_zone(ms, ZoneInfo("UTC"))),
    "refusal while a service is pending": without_rule("pending_service"),
    "refusal where the last write hides the schema": without_rule("schema_hidden"),
    "unknown event time counts as due": unknown_is_never_due,
    "events at T are due": replaced(planning_context, "is_due", strictly_below),
    "watermark of unknown event times": replaced(
        watermark, "event_time_bound", lambda log, *_: (log.min_event_time_ms or 2**60, False)
    ),
    "C before a writer in flight": replaced(builder, "closed_before", lambda slices, *_: slices),
    "deletes by key may lie behind a writer": replaced(builder, "_EXCUSING", ()),
    "nothing else unknown may": replaced(builder, "_unknown_left_out", lambda _: None),
    "slices that writers kept adding to are left out": replaced(
        skipped_slices.ContendedSlices, "__contains__", lambda *_: False
    ),
    "T is before what they hold": replaced(
        planning_context.PlanningContext, "leaves_out", lambda context, one: one.group in context.left_out
    ),
    "T without what is left out": replaced(builder, "_complete_without", lambda context: context.threshold_ms),
    "the oldest events first within a budget": replaced(builder, "within_budget", newest_first),
    "no more than the budget": replaced(builder, "within_budget", lambda slices, *_: (slices, None)),
    "no more than fits into a hold": replaced(builder, "within_hold", lambda slices, *_: slices),
    "in a hold those first that hold RO back": replaced(builder, "within_hold", last_not_first),
    "in a hold no unknown event time is left out": replaced(builder, "_is_unknown", lambda *_, **__: False),
    "no other partitions": replaced(builder, "is_wanted", lambda *_: True),
    "merge order is that of requests": replaced(builder, "_merge_order", lambda files: tuple(f.name for f in files)),
}


def with_partitions(name: str, value: Any) -> Broken:
    """Partitions that are judged by another rule."""
    assert hasattr(partitions._Judge, name), name
    return lambda: patch.object(partitions._Judge, name, value)


def with_look(name: str, value: Any) -> Broken:
    """A record of partitions that goes by another rule."""
    assert hasattr(done._Look, name), name
    return lambda: patch.object(done._Look, name, value)


@contextmanager
def what_is_archived_completed_first() -> Iterator[None]:
    def reaches_back(record: Any, state: Any, history: Any) -> bool:
        return not record.instant or any(one.completed <= record.instant for one in history.commits)

    with patch.object(done, "reaches_back", reaches_back):
        yield


def not_as_of_now(kept: Any, action: str, now: Any, rows: Any) -> Any:
    """What is to be sent whatever is known of the partition now."""
    return real_to_send(kept, action, now or SimpleNamespace(proof=kept.last.proof, ends_ms=kept.last.ends_ms), rows)


real_to_send, real_lacks, real_seen = done.PartitionRecord.to_send, partitions.lacks_before, partitions._Judge._has_seen


def without_unknown(slices: Any, ends_ms: int) -> bool:
    known = (replace(s, log_files=tuple(f for f in s.log_files if f.min_event_time_ms is not None)) for s in slices)
    return real_lacks(known, ends_ms)


def by_log_files_alone(judge: Any, proof: Any, slices: Any) -> bool:
    return all(f.completed <= proof.seen_until for one in slices for f in one.log_files)


def without_rollbacks(judge: Any, proof: Any, slices: Any) -> bool:
    with patch.object(judge, "_taken_back", []):
        return real_seen(judge, proof, slices)


#: Rules of what is said about partitions: broken, they are noticed by `tests/property/test_done.py`.
OF_PARTITIONS: dict[str, Broken] = {
    "closed after the latency": replaced(partitions, "is_closed", lambda ends, now, latency: ends <= now),
    "a proof is of what was compared": with_partitions("_proof", lambda *_: "data"),
    "a proof is of all files": with_partitions("_has_seen", by_log_files_alone),
    "a rollback ends a proof": with_partitions("_has_seen", without_rollbacks),
    "the proof of freshness counts": with_partitions(
        "_wanted", lambda judge, _: "metadata" if judge._policy.done is None else judge._policy.done.proof
    ),
    "a log file that is left counts": replaced(partitions, "lacks_before", lambda *_: False),
    "all rows count": replaced(partitions, "counting_until_ms", lambda policy, span: span.ends_ms),
    "rows before the end count": replaced(
        partitions, "lacks_before", lambda slices, ends_ms: real_lacks(slices, ends_ms - 3_600_000)
    ),
    "unknown event times count": replaced(partitions, "lacks_before", without_unknown),
    "late data that were compacted count": with_look("_writes", {}),
    "an unknown late event counts": replaced(
        done, "_may_be_before", lambda write, ends: ends is None or (write.certain_min_ms or 2**60) < ends
    ),
    "a write may show itself after a later one": with_look(
        "_is_new", lambda look, commit: commit.completed > look._record.instant
    ),
    "what is archived may have completed last": what_is_archived_completed_first,
    "another latency may open it again": replaced(done, "_closes", lambda _: ""),
    "what was overwritten counts": with_look("_replaced", frozenset()),
    "what was rolled back counts": replaced(done, "_lost", lambda *_: frozenset()),
    "a run that has seen less is overtaken": replaced(done, "is_overtaken", lambda *_: False),
    "an older copy is seen after a while": replaced(
        done, "is_overtaken", lambda record, state, *_: (state.last_completed or "") < record.instant
    ),
    "what is sent holds now": replaced(done.PartitionRecord, "to_send", not_as_of_now),
    "what a dead run may have sent counts": replaced(done.DoneRecord, "begun", lambda record, *_: record),
    "success files of no record go": replaced(sent, "_left_files", lambda *_: []),
}


def everywhere(name: str, value: Any, *modules: Any) -> Broken:
    """Another function under a name that several modules have imported."""
    assert all(hasattr(module, name) for module in modules), name

    @contextmanager
    def broken() -> Iterator[None]:
        with ExitStack() as stack:
            for module in modules:
                stack.enter_context(patch.object(module, name, value))
            yield

    return broken


def keeping_the_minimum(log_file: Any, least_ms: Any, greatest_ms: int, latest_ms: int) -> Any:
    found = real_impossible(log_file, least_ms, greatest_ms, latest_ms)
    return found._replace(min_event_time_ms=found.seen_event_time_ms)


@contextmanager
def nothing_is_replaced() -> Iterator[None]:
    real = vars(timeline.Timeline)["replaced"]
    timeline.Timeline.replaced = frozenset()  # type: ignore[assignment]
    try:
        yield
    finally:
        timeline.Timeline.replaced = real


real_impossible, real_bound = log_times.with_impossible, watermark.event_time_bound
real_proof, real_own = proofs._subject_of, archive.Archive.own_compactions


def active_alone(self: Any, active: Any, known: Any) -> Any:
    """The archive is asked only where no compaction by etc is active."""
    own = sorted(active, key=lambda one: (one.completed, one.instant), reverse=True)
    return iter(own) if own else real_own(self, active, known)


real_writes = table_commits.TableCommits.log_writes_at


def of_active_commits(self: Any, instants: Any) -> Any:
    return real_writes(self, [one for one in instants if one in self.metadata])


def of_any_rows_since(log_file: Any, latency_ms: int, zone: Any) -> Any:
    return real_bound(log_file._replace(rows_since=log_file.rows_since and None), latency_ms, zone)


#: Facts of the active timeline that ask the archive too: broken, they are noticed by `tests/property/test_archived.py`.
OF_THE_ARCHIVE: dict[str, Broken] = {
    "compactions are asked of the archive too": replaced(archive.Archive, "own_compactions", active_alone),
    "an archived ALTER TABLE counts from its end": replaced(
        schemas, "_altered_at", lambda timeline, _, instant, __: timeline.completions.get(instant, instant)
    ),
    "deletes that were merged are asked of the archive too": replaced(
        table_commits.TableCommits, "log_writes_at", of_active_commits
    ),
    "the first instant of a table is never another one": replaced(
        table, "_first_instant", lambda one, _: min(one.completions)
    ),
    "what is archived may be late data": replaced(history.TableHistory, "archived_instants", property(lambda _: ())),
}


real_covers = Looked.covers
real_before = proofs.compared_before


def believing_names(policy: Any, state: Any, release: str, listed: Any, now_ms: int) -> dict[str, int]:
    """What is believed where no file of a partition is held against what it was."""
    kept = state.apply_state.compared_files
    names = {} if kept is None else {name: files for name, (files, _) in kept.partitions.items() if name in listed}
    return real_before(policy, state, release, names, now_ms)


def looking_past(**ignored: Any) -> Broken:
    """A verification that takes back what it did not look at."""
    return replaced(Looked, "covers", lambda own, other: real_covers(own, other.model_copy(update=ignored)))


def seeing(**more: Any) -> Broken:
    """A verification that counts as one that looked at more than it did."""
    return replaced(Looked, "covers", lambda own, other: real_covers(own.model_copy(update=more), other))


@contextmanager
def with_any_window() -> Iterator[None]:
    """A window that does not reach back to what is in doubt, and takes it back."""
    names = everywhere("look_back_to", lambda policy, state, since_ms: since_ms, prover, judged)
    with names(), seeing(since_ms=None)():
        yield


def by_any_column(doubt: Any, key: str, policy: Any, judgement: Any) -> bool:
    return real_settled(replace(doubt, event_time=key), key, policy, judgement)


def up_to_any_end(kept: Any, policy: Any, state: Any, equal: Any, ends: Any) -> Any:
    return real_comparison(kept, policy, state, equal, dict.fromkeys(ends, 2**60))


real_settled, real_comparison = proofs._is_settled, proofs.after_comparison


#: Judgements of how far RO is complete, and by what that is proved; noticed by lifetimes that are mostly about one thing.
JUDGED: dict[str, Broken] = {
    "times of another column are none of this one": everywhere(
        "is_of_column", lambda *_: True, history, table_commits, file_slices, verifying
    ),
    "a promise of another column is none of this one": replaced(history, "is_of_column", lambda *_: True),
    "what a proof reaches is all that counts": replaced(
        freshness, "counted_until", lambda policy, until_ms, proofs: until_ms
    ),
    "a proof is of one column": replaced(proofs, "subject_key", lambda *_: "any"),
    "a proof is of one compaction": replaced(
        proofs, "_subject_of", lambda policy, state: real_proof(policy, with_values(state, last_compaction=None))
    ),
    "a proof is of what no restore has replaced": replaced(
        proofs, "_subject_key", lambda policy, state: proofs.subject_key(policy.event_time, state)
    ),
    "rows that were found missing are missing": replaced(observing, "doubt_about", lambda *_: None),
    "what was found stays until that was looked at again": replaced(Looked, "covers", lambda *_: True),
    "what needs rows to be seen is not settled without them": looking_past(level="metadata", checks=()),
    "what was found up to a T stays up to an earlier one": seeing(until_ms=2**60),
    "what was found stays where a window leaves it out": with_any_window,
    "what was found stays where a condition leaves it out": seeing(where=None),
    "what was found stays where a sample leaves it out": seeing(sample=None),
    "what a check found stays where it is not asked": looking_past(checks=()),
    "what was found stays where another column says less": replaced(proofs, "_is_settled", by_any_column),
    "what a suite found beyond the claim stays as far": replaced(
        prover, "_compared_until_ms", lambda _, claim: claim.threshold_ms
    ),
    "what a partition lacks stays up to an earlier end": replaced(sent, "after_comparison", up_to_any_end),
    "what was found since the table was read stays": replaced(proofs, "_is_since", lambda *_: False),
    "a file that is another one since is compared": replaced(prover, "compared_before", believing_names),
    "what was known when the table was read is not of later": replaced(
        proofs, "_compactions_in", no_matter_when(proofs._compactions_in)
    ),
    "what a compaction of another column split off may be anything": replaced(
        state.LogFile, "may_hold_anything", property(lambda _: False)
    ),
    "rows may be older than their file": replaced(watermark, "event_time_bound", of_any_rows_since),
    "an event time that cannot be true makes its file unknown": replaced(
        log_times, "with_impossible", keeping_the_minimum
    ),
    "unknown rows are as late as the longest latency": replaced(
        Policy, "longest_latency_ms", property(lambda policy: policy.data_latency_ms)
    ),
    "file groups that were replaced are gone": nothing_is_replaced,
    "no further than data can have come": replaced(
        watermark, "complete_until_ms", lambda mark_ms, now_ms, _: now_ms if mark_ms is None else min(mark_ms, now_ms)
    ),
    "deletes that were merged beside a write expose it": replaced(table, "_exposed", lambda *_: frozenset()),
    "a failure reaches the catalog": replaced(judged, "verdict_beside", of_promises_alone(judged.verdict_beside)),
}


#: What lifetimes in which they are noticed are mostly about (`Judged.kinds`).
ABOUT = {
    "times of another column are none of this one": 0,
    "a promise of another column is none of this one": 4,
    "what a proof reaches is all that counts": 1,
    "a proof is of one column": 4,
    "a proof is of one compaction": 1,
    "a proof is of what no restore has replaced": 2,
    "rows that were found missing are missing": 2,
    **dict.fromkeys(
        (
            "what was found stays until that was looked at again",
            "what needs rows to be seen is not settled without them",
            "what was found since the table was read stays",
            "what a check found stays where it is not asked",
        ),
        5,
    ),
    **dict.fromkeys(
        (
            "what was found up to a T stays up to an earlier one",
            "what was found stays where a window leaves it out",
            "what was found stays where a condition leaves it out",
            "what was found stays where a sample leaves it out",
            "what was found stays where another column says less",
            "what a suite found beyond the claim stays as far",
        ),
        6,
    ),
    "a file that is another one since is compared": 5,
    "what a partition lacks stays up to an earlier end": 7,
    "what was known when the table was read is not of later": 2,
    "what a compaction of another column split off may be anything": 0,
    "rows may be older than their file": 3,
    "an event time that cannot be true makes its file unknown": 3,
    "unknown rows are as late as the longest latency": 3,
    "file groups that were replaced are gone": 0,
    "no further than data can have come": 3,
    "deletes that were merged beside a write expose it": 1,
    "a failure reaches the catalog": 6,
}


def broken_expressions(name: str, value: Any, owner: Any = render) -> Broken:
    """Expressions that are worked out by another rule; none is kept that was compiled by the right one."""
    assert hasattr(owner, name), name

    @contextmanager
    def broken() -> Iterator[None]:
        render._compiled.cache_clear()
        with patch.object(owner, name, value):
            yield
        render._compiled.cache_clear()

    return broken


def other_filters(**filters: Any) -> Broken:
    """Expressions with other filters."""
    return lambda: patch.dict(render.SANDBOX.filters, filters)


def unbounded(*names: str) -> Broken:
    """Expressions with filters as Jinja has them."""
    return other_filters(**{name: defaults.DEFAULT_FILTERS[name] for name in names})


def unmarked(real: Any) -> Any:
    """A function of expressions that does not say that its value comes from the environment."""

    def function(names: Any, *given: Any, **named: Any) -> Any:
        before = names.are_hidden
        try:
            return real(names, *given, **named)
        finally:
            names.are_hidden = before

    return function


def but_for(kind: Any, value: Any) -> Any:
    """A text of what has none."""
    real = render._text
    return lambda given: value if isinstance(given, kind) else real(given)


@render.pass_context
def counted_by_number(context: Context, items: Any) -> Iterator[Any]:
    """Items of a loop that take a step each, however large."""
    for one in items:
        render._spend(context[render._LEFT], render._SIZE_OF_STEP)
        yield one


def sums_of_any_size(environment: Any, context: Any, operator: str, left: Any, right: Any) -> Any:
    operation = SandboxedEnvironment.call_binop if operator == "+" else real_binop
    return operation(environment, context, operator, left, right)


def changing(environment: Any, owner: Any, name: str, value: Any) -> bool:
    """Attributes that are safe, also those that change what they are of."""
    is_left_out = isinstance(owner, str) and name in render.LEFT_OUT_METHODS
    return not is_left_out and SandboxedEnvironment.is_safe_attribute(environment, owner, name, value)


real_sandbox, real_problem, real_names = render._Sandbox, render._problem_of, render._Names
real_binop = real_sandbox.call_binop

#: Rules of expressions: broken, they are noticed by the cases of `tests/unit/policy/test_render.py`.
OF_EXPRESSIONS: dict[str, Broken] = {
    "attributes are safe": broken_expressions("is_safe_attribute", lambda *_: True, real_sandbox),
    "nothing is changed": broken_expressions("is_safe_attribute", changing, real_sandbox),
    "methods that make much of little are left out": broken_expressions("LEFT_OUT_METHODS", frozenset()),
    "filters that make much of little are left out": unbounded(*render.LEFT_OUT_FILTERS),
    "statements are those that keep nothing": broken_expressions(
        "_filled", lambda source, names: "".join(render.SANDBOX.from_string(source).generate(names.by_name()))
    ),
    "functions are no values": broken_expressions("__repr__", object.__repr__, real_names),
    "what comes from the environment is marked": broken_expressions("env_marked", lambda value, _: value),
    "env_var is of the environment": broken_expressions("_env_var", unmarked(real_names._env_var), real_names),
    "a variable keeps its mark": broken_expressions("_var", unmarked(real_names._var), real_names),
    "no key is of the environment": broken_expressions("may_be_key", lambda *_: True, real_names),
    "no error shows a value of the environment": broken_expressions(
        "_problem_of", lambda error, **_: real_problem(error, is_hidden=False)
    ),
    "an option keeps its reference": broken_expressions("canonical_reference", lambda _: None),
    "a text with braces keeps its references": broken_expressions("with_raw_references", lambda text: text),
    "what an expression gives is no reference": broken_expressions("count_of_references", lambda _: 0),
    "sizes have a bound": broken_expressions("_require_small", lambda *_: 0),
    "filters are bounded": unbounded("string", "list", "join", "replace"),
    "join and replace multiply": other_filters(
        **{name: render._bounded(defaults.DEFAULT_FILTERS[name], multiplies=False) for name in render._MULTIPLIERS}
    ),
    "methods are bounded": broken_expressions("call", SandboxedEnvironment.call, real_sandbox),
    "~ is bounded": broken_expressions(
        "code_generator_class", SandboxedEnvironment.code_generator_class, render.SANDBOX
    ),
    "sums are bounded": broken_expressions("call_binop", sums_of_any_size, real_sandbox),
    "operators are for numbers, which are bounded": broken_expressions(
        "call_binop", SandboxedEnvironment.call_binop, real_sandbox
    ),
    "rounding is bounded": unbounded("round"),
    "an item of a loop counts by its size": other_filters(**{render._LOOP: counted_by_number}),
    "loops take steps": broken_expressions("_spend", lambda *_: None),
    "lists are bounded": broken_expressions("_few", list),
    "texts are bounded": broken_expressions("_short", lambda text: text),
    "numbers are bounded": broken_expressions("MAX_NUMBER", 10**99),
    "depth is bounded": broken_expressions("MAX_DEPTH", 10**6),
    "half characters are refused": broken_expressions("_SURROGATE", render.re.compile("(?!)")),
    "nothing is no part of a text": broken_expressions("_text", but_for(type(None), "None")),
    "a list is no part of a text": broken_expressions("_text", but_for(list, "[]")),
    "true is written as in YAML": broken_expressions("_text", but_for(bool, "True")),
    "one expression alone keeps its type": broken_expressions("_is_expression", lambda _: False),
}


#: Rules whose loss shows in what readers or later writers see, without looking at the plan at all.
SEEN_BY_READERS = (
    "prefix rule: due log files are picked wherever they stand",
    "prefix rule: up to the first due log file",
    "guard: delete rule",
    "guard: overlapping writers",
    "unknown event time counts as due",
    "events at T are due",
)


def noticed_after(broken: Broken, count: int, seed: int, *, readers_only: bool) -> tuple[int, str] | None:
    """After how many histories the broken planner breaks a promise, and which; None where it does not."""
    with broken():
        for number, data in enumerate(histories(count, seed), start=1):
            promise = broken_promise(data, readers_only=readers_only)
            if promise is not None:
                return number, promise.partition("\n")[0]
    return None


def noticed_in_a_world(broken: Broken, count: int, seed: int) -> tuple[int, str] | None:
    """After how many tables with partitions something false is said or passed over, and what; None where nothing is."""
    with broken():
        for number in range(1, count + 1):
            try:
                live(seed + number)
            except AssertionError as wrong:
                return number, str(wrong).partition("\n")[0]
    return None


def attempts(count: int, seed: int) -> Iterator[tuple[str, tuple[int, str] | None]]:
    """Each broken rule, and how it was noticed."""
    for name, broken in MUTATIONS.items():
        yield name, noticed_after(broken, count, seed, readers_only=False)
    for name in SEEN_BY_READERS:
        yield f"{name} (by readers alone)", noticed_after(MUTATIONS[name], count, seed, readers_only=True)
    for name, broken in OF_PARTITIONS.items():
        yield name, noticed_in_a_world(broken, count, seed)
    for name in JUDGED:
        yield name, untrue_after(name, count, seed)
    for name in OF_EXPRESSIONS:
        yield name, wrong_outcome(name)
    for code in CODES:
        with without_row(code):
            found = wrong_refusal(code)
        yield f"refusal: {code}", found and (1, found)


def wrong_outcome(name: str) -> tuple[int, str] | None:
    """The first case of expressions that has another outcome where a rule of theirs is broken; None where none has."""
    with OF_EXPRESSIONS[name]():
        found = wrong()
    return found and (1, found)


def untrue_after(name: str, count: int, seed: int) -> tuple[int, str] | None:
    """After how many lifetimes something is said that is not so where a judgement is broken, and what."""
    with JUDGED[name]():
        found = broken_judgement(count, seed, ABOUT[name])
    return None if found is None else (found[0], found[1].partition("\n")[0])


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; 0 when the unbroken planner holds and every broken rule is noticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="histories to try for each rule")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    if unbroken := noticed_after(nullcontext, options.count, options.seed, readers_only=False):
        print(f"the unbroken planner fails at history {unbroken[0]}: {unbroken[1]}")
        return 1
    print(f"the unbroken planner holds for {options.count:,} histories")
    results = list(attempts(options.count, options.seed))
    for name, found in results:
        print(f"noticed after {found[0]:>5}  {name}: {found[1][:90]}" if found else f"NOT NOTICED          {name}")
    missed = sum(found is None for _, found in results)
    print(f"{len(results) - missed} of {len(results)} broken rules noticed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
