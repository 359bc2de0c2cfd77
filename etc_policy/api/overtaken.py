"""Writers that add to file slices while their deletes are compacted: what to leave out, to compact after, and to say."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from etc_policy.errors import EtcError, ExitCode
from etc_policy.errors.codes import Code
from etc_policy.plan.builder import MAX_CLOCK_SKEW_MS
from etc_policy.plan.skipped_slices import WrittenTo
from etc_policy.policy.manifest import Policy
from etc_policy.run.fence import WRITER_WAIT_SECONDS
from etc_policy.run.ports import Outcome
from etc_policy.table.double_keys import exposed_in
from etc_policy.table.state import GroupKey, TableState
from etc_policy.wiring import Environment

#: How often file slices may be overtaken before they are left out.
OVERTAKEN_AT_MOST = 2
_POLL_SECONDS = 0.25
_SUMMED = ("file_slices", "log_files", "bytes_read", "bytes_written", "bytes_written_estimate", "run_seconds")


def written_to(tries: Sequence[frozenset[GroupKey]]) -> WrittenTo:
    """What to leave out after so many tries: nothing, then what was overtaken, then all that could be."""
    if len(tries) < OVERTAKEN_AT_MOST:
        return WrittenTo()
    return WrittenTo(frozenset().union(*tries), all_deletes=len(tries) > OVERTAKEN_AT_MOST)


def await_writes(environment: Environment, policy: Policy, outcome: Outcome) -> None:
    """Return once the writes beside a compaction have ended and lie behind the clock-skew bound, or after some seconds."""
    begun, deadline = set(outcome.writes_beside or ()), time.monotonic() + WRITER_WAIT_SECONDS
    environment.progress(f"{policy.name}: a writer began while deletes were being committed; compacting what it writes")
    while begun.intersection(_in_flight(environment.read_state(policy))) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    time.sleep(2 * MAX_CLOCK_SKEW_MS / 1000)


def joined(first: Outcome, then: Outcome) -> Outcome:
    """Two compactions of one table in one run, as one."""
    beside, later = first.writes_beside, then.writes_beside
    summed = {name: getattr(first, name) + getattr(then, name) for name in _SUMMED}
    return replace(then, **summed, writes_beside=None if beside is None or later is None else (*beside, *later))


def writes_beside_errors(environment: Environment, policy: Policy, outcome: Outcome) -> list[EtcError]:
    """An error where what a writer wrote beside the compaction is not in base files yet, or others wrote in the meantime."""
    state, history = environment.read_table(policy)
    exposed = [
        one
        for one in exposed_in(state.instants, history.writes)
        if one.write in (outcome.writes_beside or ()) or one.compaction == outcome.instant
    ]
    begun = _begun_beside(outcome, state)
    if not state.exposed and not exposed and not begun.intersection(_in_flight(state)):
        return []
    first = min((*begun, *(one.write for one in exposed)), default=None)
    message = (
        f"a writer began {f'at {first} ' if first else ''}on `{policy.name}` while the compaction at {outcome.instant}, of "
        "deletes, was being committed: a key that it wrote again can exist twice after its next upsert"
    )
    hint = (
        "run `etc apply` again before that upsert: it compacts the key. Let the table's writers use a lock, and name it in "
        "`writer.lock`"
    )
    error = EtcError(Code.WRITTEN_BESIDE, message, hint=hint)
    error.exit_code = ExitCode.FAILED
    return [error]


def _begun_beside(outcome: Outcome, state: TableState) -> set[str]:
    """The writes that began beside it; where nobody could look then, all that may have."""
    if outcome.writes_beside is not None:
        return set(outcome.writes_beside)
    return {one for one in _in_flight(state) if outcome.completed is None or one <= outcome.completed}


def _in_flight(state: TableState) -> set[str]:
    return {write.requested for write in state.writes_in_flight if write.may_live}
