"""The history of a policy in words, newest first."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

from etc_policy.errors.plain_text import one_line
from etc_policy.plan.carry import carried_in
from etc_policy.plan.model import CarriedFile
from etc_policy.report.history import Attempt, Compaction, PolicyHistory
from etc_policy.report.report import in_part
from etc_policy.table.formats import TEXT_WIDTH, Line, block, count_of, format_bytes, format_time, iso_ms
from etc_policy.verify.ports import Verification

_SHA_LENGTH = 12
_CARRIED_NAMED = 3


def render_history(history: PolicyHistory, limit: int, width: int = TEXT_WIDTH) -> str:
    """The newest `limit` entries, one block each; runs with nothing due that passed are only counted."""
    entries: list[Compaction | Attempt] = [
        *history.compactions,
        *(attempt for attempt in history.attempts if not is_quiet(attempt)),
    ]
    entries.sort(key=when, reverse=True)
    quiet = len(history.compactions) + len(history.attempts) - len(entries)
    blocks = [one_line(f"{history.policy}  {history.base_path}")]
    blocks += [textwrap.indent(block(_entry(entry), width - 2), "  ") for entry in entries[:limit]]
    if not entries:
        blocks.append("  no compaction yet")
    footer = []
    if len(entries) > limit:
        footer.append(f"  {len(entries) - limit} older: `--limit {len(entries)}` shows them")
    if quiet:
        footer.append(f"  {count_of(quiet, 'run')} more on this machine with nothing due")
    if history.reopened:
        worst = max(history.reopened, key=lambda name: (history.reopened or {})[name])
        total = f"{sum(history.reopened.values()):,} times by late data, `{worst}` {history.reopened[worst]:,} times"
        footer.append(f"  {count_of(len(history.reopened), 'partition')} reopened {total}")
    return "\n\n".join([*blocks, *(["\n".join(footer)] if footer else [])])


def when(entry: Compaction | Attempt) -> str:
    """The time by which an entry is sorted, ISO 8601."""
    return entry.completed_at if isinstance(entry, Compaction) else entry.recorded_at


def is_quiet(attempt: Attempt) -> bool:
    """Whether nothing was due and all was well."""
    verdict = attempt.verification.status if attempt.verification else "pass"
    return attempt.status in ("nothing_due", None) and verdict == "pass"


def short_sha(sha: str | None) -> str:
    """The first digits of a git commit, `-` for none."""
    return sha[:_SHA_LENGTH] if sha else "-"


def verdict_line(verification: Verification) -> str:
    """`PASS  5 of 5 checks (level: data)`; what did not pass is counted by status. With the rows that were read, if not all."""
    counts = Counter(expectation.status for expectation in verification.expectations)
    rest = "".join(f", {counts[status]} {status}" for status in ("warn", "fail", "error") if counts[status])
    total = len(verification.expectations)
    late = f", {count_of(verification.late_rows, 'late row')}" if verification.late_rows else ""
    passed = f"{verification.status.upper()}  {counts['pass']} of {total} checks{rest}"
    return f"{passed} (level: {verification.level}{late}){in_part(verification)}"


def _entry(entry: Compaction | Attempt) -> Iterator[Line]:
    if isinstance(entry, Attempt):
        yield from _attempt(entry)
    elif entry.ours:
        yield from _compaction(entry)
    else:
        yield f"{entry.instant}  a compaction by somebody else"
        yield "merged", _merged(entry)


def _compaction(entry: Compaction) -> Iterator[Line]:
    archived = " (archived)" if entry.archived else ""
    yield f"{entry.instant}  compacted, completed {_moment(entry.completed_at)}{archived}"
    yield "threshold T", format_time(entry.threshold_ms)
    dirty = "  with files changed since" if entry.git_dirty else ""
    yield "git commit", f"{short_sha(entry.git_sha)}{dirty}"
    changed = "  changed since the run before" if entry.policy_changed else ""
    yield "policy", f"{entry.policy_fingerprint or '-'}{changed}"
    for change in entry.policy_changes:
        yield "", change
    yield "plan", entry.plan_id or "-"
    yield "merged", _merged(entry)
    yield from _carried(entry)
    if not entry.checks:
        yield "checks", "none on this machine"
    for number, check in enumerate(entry.checks):
        own = number == 0 and check.kind == "apply"
        later = "" if own else f", etc {check.kind} at {_moment(check.recorded_at)}"
        yield "checks", f"{verdict_line(check.verification)}{later}"


def _moment(iso: str) -> str:
    """An ISO time as all other times are shown."""
    try:
        return format_time(iso_ms(iso))
    except ValueError:  # of a run file that somebody edited
        return iso


def _merged(entry: Compaction) -> str:
    files = f"{count_of(entry.log_files, 'log file')} of {count_of(entry.file_slices, 'file slice')}"
    return f"{files}, {format_bytes(entry.bytes_written)} written{_beside_estimate(entry)}"


def _beside_estimate(entry: Compaction) -> str:
    """How far off the plan of etc was about the new base files; what was carried was not in it."""
    estimate = entry.bytes_written_estimate
    if not entry.ours or not estimate:
        return ""
    off = (entry.bytes_written - sum(one.size_bytes for one in _carried_files(entry))) / estimate - 1
    share = f"{abs(off):.0%}"
    return ", as estimated" if share == "0%" else f", {share} {'more' if off > 0 else 'less'} than estimated"


def _carried(entry: Compaction) -> Iterator[Line]:
    """The log files that were carried into the new slices, of which the first are named; JSON has all."""
    files = _carried_files(entry)
    for number, one in enumerate(files[:_CARRIED_NAMED]):
        yield "" if number else "carried", f"{one.target} as {one.name}"
    if len(files) > _CARRIED_NAMED:
        yield "", f"and {count_of(len(files) - _CARRIED_NAMED, 'more log file')}"


def _carried_files(entry: Compaction) -> list[CarriedFile]:
    with suppress(ValueError):
        return [one for files in carried_in(entry.extra).values() for one in files]
    return []


def _attempt(entry: Attempt) -> Iterator[Line]:
    words = {
        None: "verification only",
        "nothing_due": "nothing due",
        "compacted": "compacted, in a commit that the table no longer has",
    }
    yield f"{_moment(entry.recorded_at)}  etc {entry.kind}: {words.get(entry.status, entry.status)}"
    if entry.reason:
        yield "reason", entry.reason
    if entry.verification is not None:
        yield "checks", verdict_line(entry.verification)
