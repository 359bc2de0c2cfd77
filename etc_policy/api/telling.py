"""Finds out which partitions are done or reopened, keeps that beside the table, and tells those who wait."""

from __future__ import annotations

from collections.abc import Mapping

from etc_policy.api.proofs import freshness_of, proofs_of
from etc_policy.errors import RetryableError
from etc_policy.errors.codes import Code
from etc_policy.policy.manifest import Policy
from etc_policy.run.done_actions import Action, actions_of
from etc_policy.run.done_store import DoneStore
from etc_policy.run.results import ToldPartitions
from etc_policy.run.sending import NotTakenError
from etc_policy.table.done import after_look, reaches_back
from etc_policy.table.formats import count_of
from etc_policy.table.partitions import partitions_freshness
from etc_policy.wiring import Environment, clock_ms


def tell_partitions(environment: Environment, policy: Policy, now_ms: int) -> ToldPartitions | None:
    """What was found and told; None where the policy tells nobody, or nobody knows now how far the table is complete.

    Nothing is told then: what was found before may not be true any more.

    Raises:
        RetryableError: something could not be told; the next run tells it.
        TableError: the record beside the table cannot be read.

    """
    if policy.done is None:
        return None
    store = DoneStore(policy.table)
    state, history = environment.read_table(policy)
    if not reaches_back(store.read(), history):
        state, history = environment.read_table(policy, archived=True)
    if freshness_of(policy, state, now_ms, history).remaining_log_files is None:
        return None
    found = partitions_freshness(policy, state, now_ms, proofs=proofs_of(policy, state))
    looked_at_ms = clock_ms()
    record = store.update(lambda kept: after_look(kept, policy, state, history, found, looked_at_ms))

    def put(table: str, partition: str, properties: Mapping[str, str]) -> None:
        environment.property_store().write_partition(table, partition, properties)

    actions = actions_of(policy, store.files, environment.project_dir, put)
    if not any(record.to_tell(action.name) for action in actions):
        return ToldPartitions()
    return _tell(policy, store, actions)


def _tell(policy: Policy, store: DoneStore, actions: tuple[Action, ...]) -> ToldPartitions:
    told = {"done": 0, "reopened": 0}
    faults: list[str] = []
    names = tuple(action.name for action in actions)
    with store.turn() as renew:
        for action in actions:
            waiting = set[str]()  # partitions of which something was not taken: what follows there comes after it
            events = store.read().to_tell(action.name)
            for number, event in enumerate(events):
                if event.partition in waiting:
                    continue
                renew()
                store.update(lambda kept, event=event, name=action.name: kept.begun(name, event))  # type: ignore[misc]
                try:
                    action.tell(event)
                except NotTakenError as error:
                    waiting.add(event.partition)
                    faults.append(f"{action.name} of `{event.partition}`: {error}")
                    if error.is_out:
                        faults[-1] += f" ({count_of(len(events) - number, 'event')} not told)"
                        break
                else:
                    store.update(lambda kept, event=event, name=action.name: kept.told(name, event, names))  # type: ignore[misc]
                    told[event.kind] += 1
    if faults:
        more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
        message = f"`{policy.name}`: reports of its partitions were not sent: {faults[0]}{more}"
        hint = "the table is as it should be; the next `etc apply` tells what was not told"
        raise RetryableError(Code.NOT_TOLD, message, hint=hint)
    return ToldPartitions(done=told["done"], reopened=told["reopened"])
