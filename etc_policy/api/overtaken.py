"""Writers that add to file slices while their deletes are compacted: what to leave out then, and what to say."""

from __future__ import annotations

from collections.abc import Sequence

from etc_policy.codes.registry import Code
from etc_policy.compile.manifest import Policy
from etc_policy.errors import EtcError, ExitCode
from etc_policy.execute.ports import Outcome
from etc_policy.plan.skipped_slices import WrittenTo
from etc_policy.plan.table_state import GroupKey

#: How often file slices may be overtaken before they are left out.
OVERTAKEN_AT_MOST = 2


def written_to(tries: Sequence[frozenset[GroupKey]]) -> WrittenTo:
    """What to leave out after so many tries: nothing, then what was overtaken, then all that could be."""
    if len(tries) < OVERTAKEN_AT_MOST:
        return WrittenTo()
    return WrittenTo(frozenset().union(*tries), all_deletes=len(tries) > OVERTAKEN_AT_MOST)


def writes_beside_errors(policy: Policy, outcome: Outcome) -> list[EtcError]:
    """An error where a writer without our lock began while the compaction was being committed."""
    if not outcome.writes_beside:
        return []
    message = (
        f"a writer began at {outcome.writes_beside[0]} on `{policy.name}` while the compaction at {outcome.instant}, of "
        "deletes, was being committed: a key that it wrote again can exist twice after its next upsert"
    )
    hint = (
        "run `etc apply` again before that upsert, once that write is below T: it compacts the key. Let the table's writers "
        "use a lock, and name it in `writer.lock`"
    )
    error = EtcError(Code.WRITTEN_BESIDE, message, hint=hint)
    error.exit_code = ExitCode.FAILED
    return [error]
