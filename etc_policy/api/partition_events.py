"""Finds out which partitions are done or reopened, records that beside the table, and sends it."""

from __future__ import annotations

from collections.abc import Mapping
from zoneinfo import ZoneInfo

from etc_policy.api.proofs import proven_partitions
from etc_policy.errors import RetryableError
from etc_policy.errors.codes import Code
from etc_policy.policy.manifest import Policy
from etc_policy.run.done_store import DoneStore, Update
from etc_policy.run.results import SentEvents
from etc_policy.run.sending import NotSentError, Receiver, SuccessFile, actions_of, message_seconds
from etc_policy.table.done import DoneEvent, DoneRecord, after_reading, is_ahead, is_overtaken, reaches_back
from etc_policy.table.formats import count_of, format_time
from etc_policy.table.partitions import PartitionsFreshness, done_since_ms
from etc_policy.wiring import Environment, clock_ms

#: In so many partitions that are not done success files are looked for.
_LOOKED_AT = 100


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
    state, history = environment.read_table(policy)
    if not reaches_back(store.read(), state, history):
        state, history = environment.read_table(policy, archived=True)
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
        environment.property_store().write_partition(table, partition, properties)

    name, removes = policy.done.success_file, policy.done.on_late == "reopen"
    files = SuccessFile(store.files, name, removes, policy) if name is not None else None
    if files is not None and _left_files(files, record, found):
        with store.turn(message_seconds(policy.done.timeout_ms)):
            for path in _left_files(files, store.read(), found):
                store.files.remove(path)
    actions = tuple(actions_of(policy, files, environment.project_dir, put))
    if not any(record.to_send(action.name, found, done_since_ms(policy)) for action in actions):
        return SentEvents()
    with store.turn(message_seconds(policy.done.timeout_ms)) as update:
        return _send(policy, store, update, actions, found)


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
) -> SentEvents:
    sent = {"done": 0, "reopened": 0}
    faults: list[str] = []
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
