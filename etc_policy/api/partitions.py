"""Proves which partitions are done, where the policy wants their rows compared, and sends which are done or reopened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from zoneinfo import ZoneInfo

from etc_policy.api.observing import proven_partitions
from etc_policy.api.verifying import compares_partitions, gather_evidence, in_doubt, verify
from etc_policy.errors import RetryableError, TableError
from etc_policy.errors.codes import Code
from etc_policy.policy.manifest import Policy, Verify
from etc_policy.run.done_store import DoneStore, Update
from etc_policy.run.results import SentEvents
from etc_policy.run.sending import (
    PARTITION_PROPERTY,
    SUCCESS_FILE,
    NotSentError,
    Receiver,
    SuccessFile,
    actions_of,
    message_seconds,
    put_property,
)
from etc_policy.table.apply_state import ApplyState
from etc_policy.table.done import DoneEvent, DoneRecord, after_reading, is_ahead, is_overtaken, reaches_back
from etc_policy.table.formats import count_of, format_time
from etc_policy.table.history import TableHistory
from etc_policy.table.partitions import PartitionsFreshness, by_partition, done_since_ms, rows_key
from etc_policy.table.proofs import after_comparison, after_difference, doubt_in_words, without_doubts_about_rows
from etc_policy.table.state import TableState
from etc_policy.verify.compared_rows import partitions_read_whole, pin_of
from etc_policy.verify.evidence import Claim, Evidence
from etc_policy.verify.ports import Verification
from etc_policy.verify.prover import looked_at, row_faults
from etc_policy.wiring import Environment, clock_ms

#: So many partitions are compared by one pass over their rows.
_AT_ONCE = 100
#: In so many partitions that are not done success files are looked for.
_LOOKED_AT = 100


def prove_partitions(environment: Environment, policy: Policy, now_ms: int) -> Verification | None:
    """Compare the rows of closed partitions that lack nothing but this proof; returns the first verdict that is not good.

    Spark starts only where there is one. Rows that differ put the whole table in doubt, as any verification that fails; they
    are compared again all the same, as a comparison that finds them equal takes that back.
    """
    if not compares_partitions(policy):
        return None
    state, history = environment.read_table(policy, notes_before=True)[:2]
    # what is compared counts once the table has its own proof
    unproven = policy.model_copy(update={"freshness": policy.freshness.model_copy(update={"proof": None})})
    found = proven_partitions(unproven, without_doubts_about_rows(state), history, now_ms)
    if found is None:
        return None
    if after_comparison(state.apply_state, policy, state, {}, {}).unproven != state.apply_state.unproven:
        _note_equal(environment, policy, {}, state)  # what differed is gone
    closed = (one for one in found.partitions if one.status == "closed" and one.proof)
    ended = [(one.partition, one.ends_ms) for one in closed if one.ends_ms is not None]
    readable = partitions_read_whole(state, pin_of(state))
    due = [(name, ends_ms) for name, ends_ms in ended if name in readable]
    if left := len(ended) - len(due):
        environment.progress(f"{policy.name}: a write in flight hides rows of {count_of(left, 'partition')}")
    for first in range(0, len(due), _AT_ONCE):
        ends = dict(due[first : first + _AT_ONCE])
        environment.progress(f"{policy.name}: comparing the rows of {count_of(len(ends), 'partition')}")
        verdict, judged = _compare(environment, policy, ends, (state, history), now_ms)
        if verdict.status != "pass":
            if verdict.status == "fail":
                _note_different(environment, policy, ends, replace(judged.state, slices=state.slices), judged, verdict)
            return verdict
        readable = partitions_read_whole(state, pin_of(judged.state))
        _note_equal(environment, policy, {name: end for name, end in ends.items() if name in readable}, state)
    return _still_in_doubt(environment.apply_states.read(policy.table))


def _still_in_doubt(kept: ApplyState) -> Verification | None:
    """A warning where rows of partitions differed that could not be compared again."""
    doubt = next((one for one in kept.unproven if one.is_of_partitions), None)
    if doubt is None:
        return None
    found = in_doubt(doubt_in_words(doubt, None))
    return Verification(level="data", status="warn", threshold_ms=None, expectations=(found,))


def _compare(
    environment: Environment,
    policy: Policy,
    ends: Mapping[str, int],
    reading: tuple[TableState, TableHistory],
    now_ms: int,
) -> tuple[Verification, Evidence]:
    """The verdict, and what it is about: what was written since the first reading is late."""
    whole = policy.model_copy(update={"verify": Verify(suite=policy.verify.suite, level="data")})
    claim = Claim(max(ends.values()) - 1, reading[0].last_completed or "")

    def evidence_of(state: TableState, history: TableHistory) -> Evidence:
        state = replace(state, slices=tuple(one for one in state.slices if one.partition in ends))
        return replace(gather_evidence(whole, state, history, claim, now_ms), ends=ends)

    return verify(environment, evidence_of(*reading), "data", lambda: evidence_of(*environment.read_table(policy)[:2]))


def _note_equal(environment: Environment, policy: Policy, ends: Mapping[str, int], state: TableState) -> None:
    """Keep which rows were compared and found equal."""
    slices = by_partition(state.slices)
    equal = {name: rows_key(policy, state, ends_ms, slices[name]) for name, ends_ms in ends.items()}
    environment.apply_states.update(policy.table, lambda kept: after_comparison(kept, policy, state, equal, ends))


def _note_different(
    environment: Environment,
    policy: Policy,
    ends: Mapping[str, int],
    state: TableState,
    judged: Evidence,
    verdict: Verification,
) -> None:
    """Keep that rows of one of the partitions are at fault."""
    rows = looked_at(verdict, "data", judged.claim, judged.policy, state)
    rows = rows.model_copy(update={"checks": row_faults(verdict) or (), "ends": dict(ends)})
    failures = verdict.failures
    environment.apply_states.update(policy.table, lambda kept: after_difference(kept, policy, state, failures, rows))


def send_partition_events(environment: Environment, policy: Policy, now_ms: int) -> SentEvents | None:
    """How many events were sent; None where the policy has no `done`, it is unknown how far the table is complete, or another
    reading has seen more of it.

    Nothing is sent then: what was found before may not be true any more.

    Raises:
        RetryableError: something could not be sent; the next run sends it.
        TableError: the record beside the table cannot be read.

    """
    if policy.done is None:
        return None
    store, read_at_ms = DoneStore(policy.table), clock_ms()
    state, history = environment.read_table(policy)[:2]
    if not reaches_back(store.read(), state, history):
        state, history = environment.read_table(policy, archived=None)[:2]
    found = proven_partitions(policy, state, history, now_ms)
    if found is None:
        return None

    def after(kept: DoneRecord) -> DoneRecord:
        if is_ahead(kept, ZoneInfo(state.timezone), read_at_ms):
            raise store.error(f"is of a time to come, as it is {format_time(read_at_ms)} here")
        return after_reading(kept, policy, state, history, found, read_at_ms)

    record = store.update(after)
    if is_overtaken(record, state, history, read_at_ms):
        return None

    def put(table: str, partition: str, properties: Mapping[str, str]) -> None:
        environment.property_store(state.base_path).write_partition(table, partition, properties)

    name, removes = policy.done.success_file, policy.done.on_late == "reopen"
    files = SuccessFile(store.files, name, removes, policy) if name is not None else None
    record = _without_former_files(policy, store, record)
    record, faults = _without_former_properties(environment, policy, store, record, state.base_path)
    if files is not None and _left_files(files, record, found):
        with store.turn(message_seconds(policy.done.timeout_ms)):
            for path in _left_files(files, store.read(), found):
                store.files.remove(path)
    actions = tuple(actions_of(policy, files, environment.project_dir, put))
    if not faults and not any(record.to_send(action.name, found, done_since_ms(policy)) for action in actions):
        return SentEvents()
    with store.turn(message_seconds(policy.done.timeout_ms)) as update:
        return _send(policy, store, update, actions, found, faults)


def _without_former_files(policy: Policy, store: DoneStore, record: DoneRecord) -> DoneRecord:
    """The record, once our own files of a name that the policy had before are gone: nobody would take them away later."""
    done, former = policy.done, record.success_file
    name = (done and done.success_file) or ""
    if done is None or former == name:
        return record
    with store.turn(message_seconds(done.timeout_ms)):
        files = SuccessFile(store.files, former, done.on_late == "reopen", policy)
        for path in files.left_in(record.sent_by(SUCCESS_FILE)) if former else ():
            store.files.remove(path)
        return store.update(lambda kept: kept.with_name(SUCCESS_FILE, name))


def _without_former_properties(
    environment: Environment, policy: Policy, store: DoneStore, record: DoneRecord, base_path: str
) -> tuple[DoneRecord, list[str]]:
    """The record, once the table that the policy named before calls no partition done any more; and why that could not be.

    The former name is what the record says, which every writer of the table may change.
    """
    done, former = policy.done, record.partition_property
    name = (done and done.partition_property) or ""
    if done is None or former == name:
        return record, []
    # as of partitions that are gone: the catalog may have dropped the former table
    events = [record.partitions[one].last for one in record.sent_by(PARTITION_PROPERTY) if former]

    def put(table: str, partition: str, properties: Mapping[str, str]) -> None:
        environment.property_store(base_path).write_partition(table, partition, properties)

    with store.turn(message_seconds(done.timeout_ms)) as update:
        try:
            if events:
                environment.property_store(base_path).read(former)
            for event in events:
                update(lambda kept: kept)
                put_property(
                    put, former, event.model_copy(update={"kind": "reopened", "why": "dropped", "proof": None})
                )
        except (NotSentError, RetryableError) as error:
            return record, [f"{PARTITION_PROPERTY} of `{former}`: {error}"]
        except TableError as error:  # asked once, however many partitions the record names
            environment.progress(f"{policy.name}: the partitions of `{former}` stay as they are: {error}")
        return store.update(lambda kept: kept.with_name(PARTITION_PROPERTY, name)), []


def _left_files(action: SuccessFile, record: DoneRecord, found: PartitionsFreshness) -> list[str]:
    """Those of our own in partitions that are not done by the record: it was put back with an older copy of the table.

    Only in the latest partitions, as each takes a request.
    """
    done = {name for name, kept in record.partitions.items() if kept.last.kind == "done"}
    others = [one for one in found.partitions if one.status is not None and one.partition not in done]
    latest = sorted(others, key=lambda one: (one.begins_ms or 0, one.partition), reverse=True)
    return action.left_in(one.partition for one in latest[:_LOOKED_AT])


def _send(
    policy: Policy,
    store: DoneStore,
    update: Update[DoneRecord],
    actions: tuple[Receiver[DoneEvent], ...],
    found: PartitionsFreshness,
    faults: list[str],
) -> SentEvents:
    sent = {"done": 0, "reopened": 0}
    names = tuple(action.name for action in actions)
    for action in actions:
        waiting = set[str]()  # partitions of which something was not sent: what follows there comes after it
        events = store.read().to_send(action.name, found, done_since_ms(policy))
        for number, event in enumerate(events):
            if event.partition in waiting:
                continue
            update(lambda kept, event=event, name=action.name: kept.begun(name, event))  # type: ignore[misc]
            try:
                action.send(event)
            except NotSentError as error:
                waiting.add(event.partition)
                faults.append(f"{action.name} of `{event.partition}`: {error}")
                if error.is_out:
                    faults[-1] += f" ({count_of(len(events) - number, 'event')} not sent)"
                    break
            else:
                store.update(lambda kept, event=event, name=action.name: kept.sent(name, event, names))  # type: ignore[misc]
                sent[event.kind] += 1
    if faults:
        more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
        message = f"`{policy.name}`: reports of its partitions were not sent: {faults[0]}{more}"
        hint = "the table is as it should be; the next `etc apply` sends what was not sent"
        raise RetryableError(Code.NOT_SENT, message, hint=hint)
    return SentEvents(done=sent["done"], reopened=sent["reopened"])
