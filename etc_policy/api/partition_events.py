"""Finds out which partitions are done or reopened, records that beside the table, and sends it."""

from __future__ import annotations

from collections.abc import Mapping

from etc_policy.api.proofs import proven_partitions
from etc_policy.errors import RetryableError
from etc_policy.errors.codes import Code
from etc_policy.policy.manifest import Policy
from etc_policy.run.done_actions import Action, actions_of
from etc_policy.run.done_store import DoneStore
from etc_policy.run.results import SentEvents
from etc_policy.run.sending import NotSentError
from etc_policy.table.done import after_reading, reaches_back
from etc_policy.table.formats import count_of
from etc_policy.table.partitions import done_since_ms
from etc_policy.wiring import Environment, clock_ms


def send_partition_events(environment: Environment, policy: Policy, now_ms: int) -> SentEvents | None:
    """How many events were sent; None where the policy has no `done`, or it is unknown how far the table is complete.

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
    record = store.update(lambda kept: after_reading(kept, policy, state, history, found, read_at_ms))

    def put(table: str, partition: str, properties: Mapping[str, str]) -> None:
        environment.property_store().write_partition(table, partition, properties)

    actions = actions_of(policy, store.files, environment.project_dir, put)
    if not any(record.to_send(action.name, done_since_ms(policy)) for action in actions):
        return SentEvents()
    return _send(policy, store, actions)


def _send(policy: Policy, store: DoneStore, actions: tuple[Action, ...]) -> SentEvents:
    sent = {"done": 0, "reopened": 0}
    faults: list[str] = []
    names = tuple(action.name for action in actions)
    with store.send_lock() as renew:
        for action in actions:
            waiting = set[str]()  # partitions of which something was not sent: what follows there comes after it
            events = store.read().to_send(action.name, done_since_ms(policy))
            for number, event in enumerate(events):
                if event.partition in waiting:
                    continue
                renew()
                store.update(lambda kept, event=event, name=action.name: kept.begun(name, event))  # type: ignore[misc]
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
