"""What the verifications of a table prove and what they leave in doubt, folded over what is kept of them beside the table."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

from etc_policy import __version__
from etc_policy.policy.manifest import Level, Policy, VerifyLevel, digest
from etc_policy.table.apply_state import (
    DIFFERENT,
    ApplyState,
    ComparedFiles,
    Looked,
    Proof,
    Proofs,
    Unproven,
    proven_until,
    with_proof,
)
from etc_policy.table.formats import count_of
from etc_policy.table.history import event_time_key, subject_key
from etc_policy.table.instants import instant_to_ms
from etc_policy.table.log_witness import in_words, misrecorded_in, of_event_time, still_there
from etc_policy.table.state import WRITE_ACTIONS, CompactionRecord, TableState

_GRAVEST = ("fail", "error", "running")
_NOT_ENDED = "its verification was begun and has not ended"
_FAILED, _NOT_DONE = "its verification failed", "its verification could not be done"


class Judgement(NamedTuple):
    """What a verification at a level says of the promise of a table's last compaction.

    `failures` are what did not pass. `proof` is what it proves where it passed, None where it cannot say how far RO is complete.
    `rows` is what it looked at, `faults` the checks of it that failed, None where no more than metadata shows what is wrong.
    `covers` says that it was about all that the compaction promised. `files` is what the next one may rest on, `rests` that it
    rests on earlier ones itself, and `is_flawed` that some check of rows did not pass, however lightly that is taken. `is_blind`
    says that a write in flight hid rows from it that the compaction speaks of.
    """

    level: VerifyLevel
    status: Literal["pass", "warn", "fail", "error"]
    failures: str
    proof: Proof | None
    rows: Looked
    faults: tuple[str, ...] | None
    covers: bool
    files: ComparedFiles | None = None
    rests: bool = False
    is_flawed: bool = False
    is_blind: bool = False


def compared_before(
    policy: Policy, state: TableState, release: str, listed: Mapping[str, str], now_ms: int
) -> dict[str, int]:
    """The partitions whose rows need not be compared again, and when they were: the files listed now are those compared then.

    None where anything else that the comparison went by is another one, where it saw writes that are gone, where rows are in
    doubt, or where all are to be compared anew.
    """
    kept, verify = state.apply_state.compared_files, policy.verify
    if kept is None or verify.full or not 0 <= now_ms - kept.full_ms < verify.full_every_ms:
        return {}
    in_doubt = any(doubt.rows is not None for doubt in _doubts(state.apply_state, policy, state))
    if in_doubt or kept.subject != compared_subject(policy, state, release) or _is_gone(kept.last_write, state):
        return {}
    return {name: at_ms for name, (files, at_ms) in kept.partitions.items() if listed.get(name) == files}


def compared_subject(policy: Policy, state: TableState, release: str) -> str:
    """What a comparison of rows goes by beside the files: it says nothing of the same files where this is another text."""
    table = (state.properties_fingerprint, state.schema_fingerprint, _evolved_schema(state), state.event_time_type)
    asked = (policy.verify.suite, policy.suite_digest, policy.writer.index, policy.writer.keys_repeated)
    return digest([_subject_key(policy, state), table, asked, release, __version__])


def _subject_key(policy: Policy, state: TableState) -> str:
    """What was proved before a restore is of files that are gone, and others are there again (facts: restores-stay)."""
    restored = max((one.requested for one in state.instants if one.action == "restore"), default="")
    key = subject_key(policy.event_time, state)
    return digest([key, restored]) if restored else key


def last_write(state: TableState) -> str:
    """When the last write had completed; empty without one."""
    return max(_completed_writes(state), default="")


def _completed_writes(state: TableState) -> set[str]:
    return {
        one.completed or one.requested
        for one in state.instants
        if one.action in WRITE_ACTIONS and one.state == "completed"
    }


def _is_gone(completed: str, state: TableState) -> bool:
    """Whether a write is neither on the timeline any more nor archived: it was taken back, or the table put back."""
    writes = _completed_writes(state)
    return completed not in writes and completed > min(writes, default="")


def _evolved_schema(state: TableState) -> str:
    return max(((one.requested, one.schema) for one in state.instants if one.schema), default=("", ""))[1]


def is_proven(policy: Policy, state: TableState, kept: ApplyState) -> bool:
    """Whether nothing is left to prove: a run that was killed after its commit leaves a compaction nobody has verified."""
    if state.last_compaction is None:
        return _doubt_in(kept, policy, state) is None
    return kept.verified == _verified(policy, state)


def level_to_prove(policy: Policy, state: TableState, *, is_idle: bool) -> VerifyLevel:
    """The policy's level; where nothing was due and the last compaction is proven, no more than log files are read.

    More only where freshness is to be proved by more: else it would never get any further.
    """
    declared = policy.verify.level
    if not is_idle or not is_proven(policy, state, state.apply_state):
        return declared
    return min(declared, policy.freshness.proof or "logs", key=lambda name: Level[name])


def proofs_of(policy: Policy, state: TableState) -> tuple[Proof, ...]:
    """The proofs that are kept of the table's last compaction, or of the table where etc has compacted nothing yet."""
    return state.apply_state.proofs_of(_subject_of(policy, state))


def counted_until(policy: Policy, until_ms: int, proofs: Sequence[Proof]) -> int | None:
    """Up to where RO counts as complete; None where nothing proves it as the policy wants."""
    if policy.freshness.proof is None:
        return until_ms
    proven_ms = proven_until(proofs, policy.freshness.proof)
    return None if proven_ms is None else min(until_ms, proven_ms)


def without_proof(policy: Policy) -> str:
    """Why nobody knows how far RO is complete: the proof that the policy wants is missing."""
    level = policy.freshness.proof
    return (
        f"no verification of level `{level}` has passed since the last compaction: "
        f"`etc verify --select {policy.name} --level {level}` makes up for it"
    )


def unproven(policy: Policy, state: TableState) -> Unproven | None:
    """What is in doubt of the last compaction: what failed first, and what was found by this event time."""
    return _doubt_in(state.apply_state, policy, state)


def level_to_settle(policy: Policy, doubt: Unproven) -> VerifyLevel:
    """The level of a verification that can take a doubt back."""
    if doubt.rows is None:
        return policy.verify.level
    return "data" if Level[doubt.rows.level].reads_rows else doubt.rows.level


def misrecorded(policy: Policy, state: TableState) -> str | None:
    """What commits recorded too late of log files that are still there, in words."""
    found = still_there(state, of_event_time(state.apply_state.misrecorded, policy.event_time, state))
    if not found:
        return None
    more = f", and {count_of(len(found) - 1, 'other log file')}" if len(found) > 1 else ""
    return f"what commits recorded of event times is wrong: {in_words(found[0])}{more}"


def doubt_about(policy: Policy, state: TableState) -> str | None:
    """Why nobody should rely on what metadata say: commits were wrong, or the last compaction did not pass its verification."""
    doubt = unproven(policy, state)
    if (wrong := misrecorded(policy, state)) is not None:
        return wrong
    if doubt is None or doubt.verification == "running":
        return None  # while a verification runs, metadata shows what it did before
    return doubt_in_words(doubt, state.last_compaction)


def doubt_in_words(doubt: Unproven, record: CompactionRecord | None) -> str:
    """What is not proven, and why."""
    instant = _instant_of(doubt)
    what = f"the compaction at {instant}" if instant else "the table"
    if record is not None and record.instant == instant:
        what = f"the last compaction ({instant})"
    return f"{what} is not proven: {doubt.why}"


def look_back_to(policy: Policy, state: TableState, since_ms: int) -> int | None:
    """Since when rows are to be compared that a policy wants compared since a time: what is in doubt is among them."""
    key = event_time_key(policy.event_time, state)
    doubts = [one for one in _doubts(state.apply_state, policy, state) if one.rows]
    begins = [one.rows.since_ms if one.rows and one.is_of(key) else None for one in doubts]
    return None if None in begins else min((since_ms, *(one for one in begins if one is not None)))


def without_doubts_about_rows(state: TableState) -> TableState:
    """The table as if all that was found in its rows had been taken back."""
    kept = state.apply_state
    others = tuple(doubt for doubt in kept.unproven if doubt.rows is None)
    return replace(state, apply_state=replace(kept, unproven=others))


def after_begin(kept: ApplyState, policy: Policy, state: TableState) -> ApplyState:
    """What is kept once a verification has begun: a run that is killed while it verifies leaves its compaction unproven.

    That a verification of it has failed, or could not be done, stays until one has passed.
    """
    record = state.last_compaction
    if record is None or is_proven(policy, state, kept) or _is_of_later(kept, state):
        return kept
    if any(doubt.verification != "running" and _is_about(doubt, record) for doubt in _own(kept, policy, state)):
        return kept
    return _with_doubt(kept, policy, state, Unproven(_name_of(record), _NOT_ENDED, "running"))


def after_verdict(kept: ApplyState, policy: Policy, state: TableState, judgement: Judgement) -> ApplyState:
    """What is kept after a verification of the table as it was read; what is kept of a later compaction stays.

    So does what was found in rows, which no later compaction mends. One that rests on what was taken away since proves nothing.
    """
    has_passed, rested_on = judgement.status in ("pass", "warn"), kept.compared_files
    if judgement.status == "fail" or judgement.is_flawed:
        kept = replace(kept, compared_files=None)
    if judgement.rests and has_passed and not _is_same_chain(rested_on, state.apply_state.compared_files):
        return kept
    if _is_of_later(kept, state):
        return kept if judgement.faults is None else _after_failure(kept, policy, state, judgement)
    kept = replace(kept, proofs=_proofs_after(kept, policy, state, judgement))
    if judgement.files is not None and has_passed and not _is_doubted_since(kept, state):
        kept = replace(kept, compared_files=judgement.files)
    if judgement.status in ("fail", "error"):
        return _after_failure(kept, policy, state, judgement)
    if not judgement.covers:
        return kept
    kept = _without_settled(kept, policy, state, judgement)
    if judgement.level != policy.verify.level or judgement.is_blind or _doubt_in(kept, policy, state) is not None:
        return kept
    return replace(kept, verified=_verified(policy, state) if state.last_compaction is not None else None)


def after_comparison(
    kept: ApplyState, policy: Policy, state: TableState, equal: Mapping[str, str], ends: Mapping[str, int]
) -> ApplyState:
    """What is kept once the rows of partitions agreed up to their ends; `equal` has what they were (`rows_key`).

    Partitions that are gone are forgotten. What is in doubt stays until the rows of each partition agree by the same event time
    and as far as they did not. What another one found since the table was read stays.
    """
    there = {file_slice.partition for file_slice in state.slices}
    known = {one for doubt in _of_partitions(state.apply_state, policy, state) for one in _ends(doubt).items()}

    def after(doubt: Unproven) -> Unproven | None:
        if doubt.rows is None or not doubt.rows.ends or doubt not in _of_partitions(kept, policy, state):
            return doubt
        seen = {name for name, end in doubt.rows.ends.items() if name not in there or ends.get(name, end - 1) >= end}
        left = {name: end for name, end in _ends(doubt).items() if name not in seen or (name, end) not in known}
        return replace(doubt, rows=doubt.rows.model_copy(update={"ends": left})) if left else None

    compared = {**{name: key for name, key in kept.compared.items() if name in there}, **equal}
    return replace(kept, compared=compared, unproven=tuple(filter(None, map(after, kept.unproven))))


def after_difference(kept: ApplyState, policy: Policy, state: TableState, failures: str, rows: Looked) -> ApplyState:
    """What is kept where rows of one of these partitions are at fault: the table is in doubt until they are not.

    Only a comparison of these partitions, or of all rows up to their end, takes that back.
    """
    is_later = _is_of_later(kept, state)
    kept = after_comparison(kept, policy, state, {}, {})
    kept = replace(kept, compared={**kept.compared, **dict.fromkeys(rows.ends, DIFFERENT)})
    subject = Unproven.of_partitions(_name_of(state.last_compaction))
    doubt = Unproven(subject, f"{_FAILED} ({failures})", "fail", rows)
    kept = _with_doubt(kept, policy, state, doubt)
    kept = replace(kept, compared_files=None)
    return kept if is_later else replace(kept, proofs=Proofs(_subject_of(policy, state), ()))


def after_log_reading(kept: ApplyState, policy: Policy, state: TableState) -> ApplyState:
    """What is kept of log files that hold earlier events than recorded, of those that could be read; the others stay.

    So do those that another one found since the table was read: they may not have been there.
    """
    if state.witnesses is None:
        return kept
    key = event_time_key(policy.event_time, state)
    found = tuple(file._replace(event_time=key) for file in misrecorded_in(state.witnesses))
    unread = {witness.path for witness in state.witnesses if witness.why is not None}
    of_this = of_event_time(kept.misrecorded, policy.event_time, state)
    others = [file for file in still_there(state, kept.misrecorded) if file not in of_this or file.path in unread]
    others += (file for file in kept.misrecorded if file not in (*state.apply_state.misrecorded, *found, *others))
    return replace(kept, misrecorded=(*found, *others))


def _after_failure(kept: ApplyState, policy: Policy, state: TableState, judgement: Judgement) -> ApplyState:
    """With what a verification has found, or that it could not be done; rows that were at fault before stay so."""
    record, own = state.last_compaction, _own(kept, policy, state)
    rows = None if judgement.faults is None else judgement.rows.model_copy(update={"checks": judgement.faults})
    if rows is None and record is None:
        return kept  # without a compaction it shows in metadata
    if rows is None and any(doubt.rows and not doubt.is_of_partitions for doubt in own):
        return replace(kept, verified=None)
    why = f"{_FAILED if judgement.status == 'fail' else _NOT_DONE} ({judgement.failures})"
    status: Literal["fail", "error"] = "fail" if judgement.status == "fail" else "error"
    return _with_doubt(kept, policy, state, Unproven(_name_of(record), why, status, rows))


def _with_doubt(kept: ApplyState, policy: Policy, state: TableState, new: Unproven) -> ApplyState:
    """Of each event time one doubt is kept, and one of partitions, less what is about an earlier compaction alone.

    What takes it back has looked at the rows of the one before, too.
    """
    key = event_time_key(policy.event_time, state)
    same = [one for one in kept.unproven if one.is_of(key) and one.is_of_partitions == new.is_of_partitions]
    record, is_later = state.last_compaction, _is_of_later(kept, state)
    others = [one for one in kept.unproven if one not in same and (is_later or _is_about(one, record))]
    rows = [one.rows for one in (*same, new) if one.rows is not None]
    why = new.why.replace(sys.executable or "python", "python")  # others read it elsewhere
    seen = reduce(Looked.joined, rows) if new.rows else None
    new = replace(new, why=why, rows=seen, event_time=key, written_ms=_written_ms(state))
    return replace(kept, verified=None, unproven=(*others, new))


def _written_ms(state: TableState) -> int:
    last = state.last_completed
    return instant_to_ms(last, ZoneInfo(state.timezone), latest=True) if last else 0


def _without_settled(kept: ApplyState, policy: Policy, state: TableState, judgement: Judgement) -> ApplyState:
    """Without the doubts that a verification takes back; those of another event time stay, for that one."""
    key = event_time_key(policy.event_time, state)

    def after(doubt: Unproven) -> Unproven | None:
        if key in doubt.passed or _is_since(doubt, state) or not _is_settled(doubt, key, policy, judgement):
            return doubt
        return None if doubt.is_of(key) else replace(doubt, passed=(*doubt.passed, key))

    return replace(kept, unproven=tuple(filter(None, map(after, kept.unproven))))


def _is_since(doubt: Unproven, state: TableState) -> bool:
    """Whether another verification has noted it since the table was read, and so may have seen more of it."""
    known = (replace(one, passed=doubt.passed) for one in state.apply_state.unproven)
    return doubt.verification != "running" and doubt not in known


def _is_doubted_since(kept: ApplyState, state: TableState) -> bool:
    return any(_is_since(one, state) for one in kept.unproven)


def _is_same_chain(kept: ComparedFiles | None, before: ComparedFiles | None) -> bool:
    """Whether what a verification rests on was not taken away since it began."""
    return kept is not None and before is not None and (kept.subject, kept.full_ms) == (before.subject, before.full_ms)


def _is_settled(doubt: Unproven, key: str, policy: Policy, judgement: Judgement) -> bool:
    """Whether a verification that passed would have seen it; by another event time its rows may be of any time until then."""
    if doubt.rows is None:
        return judgement.level == policy.verify.level
    of_another = {"until_ms": doubt.written_ms, "since_ms": None}
    rows = doubt.rows if doubt.is_of(key) else doubt.rows.model_copy(update=of_another)
    return judgement.rows.covers(rows)


def _proofs_after(kept: ApplyState, policy: Policy, state: TableState, judgement: Judgement) -> Proofs | None:
    """A verification that passed is a proof, one that failed disproves all; one that was not possible changes nothing."""
    subject = _subject_of(policy, state)
    if judgement.status == "fail":
        return Proofs(subject, ())
    if judgement.status == "error" or judgement.proof is None or _is_doubted_since(kept, state):
        return kept.proofs
    return Proofs(subject, with_proof(kept.proofs_of(subject), judgement.proof))


def _doubt_in(kept: ApplyState, policy: Policy, state: TableState) -> Unproven | None:
    key = event_time_key(policy.event_time, state)
    found = [doubt for doubt in _doubts(kept, policy, state) if _is_about(doubt, state.last_compaction)]
    return min(found, key=lambda doubt: (_GRAVEST.index(doubt.verification), not doubt.is_of(key)), default=None)


def _doubts(kept: ApplyState, policy: Policy, state: TableState) -> tuple[Unproven, ...]:
    """Those of another event time count too, until a verification by this one passed."""
    key = event_time_key(policy.event_time, state)
    return tuple(doubt for doubt in kept.unproven if key not in doubt.passed)


def _own(kept: ApplyState, policy: Policy, state: TableState) -> tuple[Unproven, ...]:
    key = event_time_key(policy.event_time, state)
    return tuple(doubt for doubt in kept.unproven if doubt.is_of(key))


def _of_partitions(kept: ApplyState, policy: Policy, state: TableState) -> tuple[Unproven, ...]:
    return tuple(doubt for doubt in _own(kept, policy, state) if doubt.is_of_partitions)


def _ends(doubt: Unproven) -> Mapping[str, int]:
    return doubt.rows.ends if doubt.rows is not None else {}


def _is_about(doubt: Unproven, record: CompactionRecord | None) -> bool:
    """Whether it counts where this is the last compaction: what was found in rows does, whatever was compacted since.

    That its completion time was set right since proves nothing.
    """
    return doubt.rows is not None or (record is not None and _instant_of(doubt) == record.instant)


def _instant_of(doubt: Unproven) -> str:
    """That of the compaction; empty of a table that etc had not compacted."""
    return doubt.compaction.split(" ")[0]


def _name_of(record: CompactionRecord | None) -> str:
    """One that was rolled back and planned anew may bear the same instant, so its completion counts too; empty without one."""
    return f"{record.instant} {record.completed}" if record is not None else ""


def _subject_of(policy: Policy, state: TableState) -> str:
    """What a proof is about: a compaction, how event times are read, and since which restore."""
    return f"{_name_of(state.last_compaction)} {_subject_key(policy, state)}"


def _verified(policy: Policy, state: TableState) -> str:
    """What is kept of a compaction that was verified: which one, and what the policy asked for."""
    verify = policy.verify.model_dump(mode="json", exclude={"full_every_ms"})
    asked = {"verify": verify, "suite_digest": policy.suite_digest, "event_time": _subject_key(policy, state)}
    return f"{_name_of(state.last_compaction)} {digest(asked)}"


def _is_of_later(kept: ApplyState, state: TableState) -> bool:
    """Whether it is about a compaction that had not completed when the table was read.

    One that was taken back since is not, nor one whose wrong completion time was set right, nor one that was known when the
    table was read without it: that table was put back to an older copy.
    """
    last, pending = state.last_completed or "", {instant.requested for instant in state.pending}
    done = {instant.requested for instant in state.instants if instant.state == "completed"}
    done |= {state.last_compaction.instant} if state.last_compaction else set()
    return any(
        instant not in done and (completed > last or instant in pending)
        for instant, completed in _compactions_in(kept) - _compactions_in(state.apply_state)
    )


def _compactions_in(kept: ApplyState) -> set[tuple[str, str]]:
    """The instant and the completion of each compaction that it names."""
    proofs = kept.proofs.subject if kept.proofs else None
    names = (kept.verified, *(doubt.compaction for doubt in kept.unproven), proofs)
    parts = (name.split(" ") for name in names if name and name.count(" ") and name[0] != " ")
    return {(instant, completed) for instant, completed, *_ in parts}
