"""Problems that messages are about: tables and partitions beyond their limits, runs and verifications that failed."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, Field

from etc_policy.errors.plain_text import one_line
from etc_policy.policy.manifest import Frozen, Policy, digest
from etc_policy.report.results import TableFreshness
from etc_policy.run.results import TableResult
from etc_policy.table.done import SharedRecord
from etc_policy.table.formats import count_of, format_duration, format_time
from etc_policy.table.partitions import PartitionFreshness
from etc_policy.table.state import TableState
from etc_policy.verify.freshness import error_limit_ms, has_limits
from etc_policy.verify.ports import Verification

Fits = TypeVar("Fits")
ProblemKind = Literal["limit", "partition", "run", "verification"]
#: So many partitions of a table are taken into the record, and so many problems of one message are named.
NAMED_PARTITIONS, NAMED_PROBLEMS = 10, 20
#: So many bytes of problems are kept, the newest: a record that is too large is not read, and nobody hears of anything.
MAX_RECORD_BYTES = 8 << 20
#: As long a line of a message may be: a reason may have what an engine says.
MAX_LETTERS = 300
#: So many bytes have the problems, those that are over and the text of one message: many receivers take a megabyte, and what is
#: larger would be refused for ever.
_BYTES, _RECOVERED_BYTES, _TEXT_BYTES = 128 << 10, 32 << 10, 64 << 10
#: So much of what is behind a problem is kept.
_DETAILS, _DETAIL_LETTERS = 20, 4_000
#: A line of a message, a subject: whoever names a partition begins no line of their own there.
Line = Annotated[str, AfterValidator(one_line)]


def _some(details: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(one[:_DETAIL_LETTERS] for one in details[:_DETAILS])


class Problem(Frozen):
    """Something that is not as it should be; `key` is the same for as long as it lasts.

    `title` is one sentence, `details` say what is behind it, and `command` shows more.
    """

    policy: str
    kind: ProblemKind
    partition: str | None = None
    title: Line
    details: Annotated[tuple[str, ...], AfterValidator(_some)] = ()
    command: Line
    since_ms: int

    @property
    def key(self) -> str:
        """Tells it from all other problems of the project."""
        return "/".join((self.kind, self.policy, *([self.partition] if self.partition is not None else [])))


@dataclass
class Findings:
    """The problems that a run found, and what it has checked: policies and kinds of problems."""

    now_ms: int
    checked: set[tuple[str, ProblemKind]] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)

    def add(self, policy: str, kinds: Iterable[ProblemKind], problems: Iterable[Problem]) -> None:
        """Add some kinds of problems of one policy."""
        self.checked |= {(policy, kind) for kind in kinds}
        self.problems += problems

    def add_results(self, results: Iterable[TableResult]) -> None:
        """Add how a run went; one whose plan was stale says nothing, as it is made again by the next run."""
        ended = {"failed": "failed", "refused": "was refused"}
        for one in (one for one in results if one.status != "stale"):
            title = f"the run of `{one.policy}` {ended[one.status]}" if one.status in ended else None
            details = filter(None, (one.reason, *one.hints))
            self._add(one.policy, "run", title, details, f"etc history {one.policy}")

    def add_verdicts(self, verdicts: Iterable[tuple[str, Verification]]) -> None:
        """Add the verdict over each policy's table."""
        for policy, verdict in verdicts:
            failed = verdict.status in ("fail", "error")
            title = f"the verification of `{policy}`: {verdict.status}" if failed else None
            self._add(policy, "verification", title, [verdict.failures], f"etc verify --select {policy}")

    def _add(self, policy: str, kind: ProblemKind, title: str | None, details: Iterable[str], command: str) -> None:
        """Add that a kind was checked, and the problem where there is a title."""
        made = {"policy": policy, "kind": kind, "details": tuple(details), "command": command, "since_ms": self.now_ms}
        self.add(policy, [kind], [] if title is None else [Problem(title=title, **made)])


class SentProblems(Frozen):
    """What a channel was last sent, and when: the title of each problem of which it was not sent yet that it is over."""

    at_ms: int
    problems: dict[str, Line] = Field(default_factory=dict)

    def without(self, keys: Collection[str]) -> SentProblems:
        """The same without some of the problems."""
        return self.model_copy(update={"problems": {key: one for key, one in self.problems.items() if key not in keys}})


class ProblemRecord(SharedRecord):
    """The problems that were found and are not over, and which channel was sent which."""

    problems: dict[str, Problem] = Field(default_factory=dict)
    sent: dict[str, SentProblems] = Field(default_factory=dict)

    def after_check(self, findings: Findings) -> ProblemRecord:
        """The record with what was found; problems of policies and kinds that were not checked stay as they are.

        Of the partitions of a table those that are in it stay as long as they last, and new ones come in while it has few.
        """
        kept = {key: one for key, one in self.problems.items() if (one.policy, one.kind) not in findings.checked}
        counts = Counter[str]()
        for one in sorted(findings.problems, key=lambda one: one.key not in self.problems):
            before = self.problems.get(one.key)
            if one.kind == "partition":
                if before is None and counts[one.policy] >= NAMED_PARTITIONS:
                    continue
                counts[one.policy] += 1
            kept[one.key] = one.model_copy(update={"since_ms": before.since_ms}) if before else one
        return self._with(kept)

    def _with(self, problems: Mapping[str, Problem]) -> ProblemRecord:
        """The record with the newest problems, as many as fit; no message says of the others that they are over."""
        kept = dict(_newest(problems))
        forgotten = problems.keys() - kept.keys()
        sent = {name: one.without(forgotten) for name, one in self.sent.items()}
        return self.model_copy(update={"problems": kept, "sent": sent})

    def message_to(self, name: str, now_ms: int, every_ms: int) -> Message | None:
        """What is new to somebody; None where nothing is, or where they were sent something a short time ago.

        What broke and recovered in between is not said.
        """
        sent = self.sent.get(name) or SentProblems(at_ms=0)
        if sent.at_ms <= now_ms < sent.at_ms + every_ms:  # a clock that was ahead keeps nothing back
            return None
        broken = tuple(one for key, one in self.problems.items() if key not in sent.problems)
        recovered = {key: title for key, title in sent.problems.items() if key not in self.problems}
        return Message(broken=broken, recovered=recovered, after_ms=sent.at_ms) if broken or recovered else None

    def after_message(self, name: str, now_ms: int, message: Message) -> ProblemRecord:
        """The record after somebody was sent a message."""
        before = self.sent[name].problems if name in self.sent else {}
        kept = {key: title for key, title in before.items() if key not in message.recovered}
        sent = SentProblems(at_ms=now_ms, problems={**kept, **{one.key: one.title for one in message.broken}})
        return self.model_copy(update={"sent": {**self.sent, name: sent}})


def _newest(problems: Mapping[str, Problem]) -> Iterator[tuple[str, Problem]]:
    """The newest that have room together, in their order: tables that others make and remove leave problems for ever."""
    left, fit = MAX_RECORD_BYTES, set[str]()
    for key, one in sorted(problems.items(), key=lambda item: -item[1].since_ms):
        size = len(key) + len(one.as_json())
        if size <= left:  # one that is too large hides no other
            left -= size
            fit.add(key)
    return (item for item in problems.items() if item[0] in fit)


class Message(Frozen):
    """The problems that are new to somebody, and the titles of those that are over, by key."""

    broken: tuple[Problem, ...]
    recovered: dict[str, str]
    after_ms: int = 0

    def key(self, project: str | None, target: str) -> str:
        """The same whenever this very message is sent again, and no other's."""
        broken = (f"{one.key}@{one.since_ms}" for one in self.broken)
        return digest([*broken, "recovered", *self.recovered, str(self.after_ms), project or "", target])

    @property
    def title(self) -> str:
        """The only sentence, or how many there are."""
        if len(self.broken) + len(self.recovered) == 1:
            one = next((one.title for one in self.broken), f"recovered: {next(iter(self.recovered.values()), '')}")
            return _cut(one)
        counts = [count_of(len(self.broken), "problem")] if self.broken else []
        return ", ".join((*counts, *([f"{len(self.recovered):,} recovered"] if self.recovered else [])))

    def lines(self) -> Iterator[str]:
        """The message for people."""
        for one in self.broken[:NAMED_PROBLEMS]:
            yield f"{_cut(one.title)} (since {format_time(one.since_ms)})"
            yield from (f"    {one_line(detail)[:MAX_LETTERS]}" for detail in one.details)
            yield f"    {one.command}"
        yield from (f"recovered: {_cut(title)}" for title in list(self.recovered.values())[:NAMED_PROBLEMS])
        left = sum(max(0, len(many) - NAMED_PROBLEMS) for many in (self.broken, self.recovered))
        if left:
            yield f"and {left:,} more: etc freshness"


def kinds_judged(policy: Policy, found: TableFreshness) -> Iterator[ProblemKind]:
    """Of which kinds a look at a table shows every problem: of none that the policy does not judge, or nobody has looked at."""
    if has_limits(policy.freshness):
        yield "limit"
    has_limit = error_limit_ms(policy.freshness) is not None and policy.partition_time is not None
    if has_limit and found.complete_until_ms is not None:
        yield "partition"


def problems_of_freshness(
    policy: Policy, found: TableFreshness, state: TableState | None, now_ms: int
) -> Iterator[Problem]:
    """The table and those of its partitions that are beyond the policy's limit; nothing without one."""
    if not has_limits(policy.freshness):
        return
    name, command, limit_ms = policy.name, f"etc freshness --select {policy.name}", error_limit_ms(policy.freshness)
    problem = partial(Problem, policy=name, since_ms=now_ms)
    if found.status == "unknown":
        title = f"nobody knows how far `{name}` is complete"
        yield problem(kind="limit", title=title, details=(found.reason or "",), command=command)
    elif found.status == "error":
        title = f"`{name}` is beyond its limit: RO is complete until {format_time(found.complete_until_ms)}"
        late = f"that is {format_duration(round((found.lag_seconds or 0) * 1000))} ago"
        yield problem(kind="limit", title=title, details=(late, *_held_back_by(found, state)), command=command)
    if limit_ms is None or found.partitions is None:
        return
    for one in found.partitions.partitions:
        since_ms = _lacks_since_ms(one)
        if one.status != "closed" or since_ms is None or now_ms <= since_ms + limit_ms:
            continue
        behind = f"held back by `{one.held_back_by}` of `{one.file_id}`" if one.held_back_by else "it lacks its proof"
        yield problem(
            kind="partition",
            partition=_cut(one.partition),
            title=f"`{_cut(one.partition)}` of `{name}` is beyond its limit: it ended at {format_time(one.ends_ms)}",
            details=(f"{count_of(one.log_files, 'log file')} not compacted, {behind}",),
            command=f"{command} --by partition{_option_of(one.partition)}",
        )


def _option_of(partition: str) -> str:
    """The option that names it, to be pasted into a shell; nothing for a name that is not one short line of plain text."""
    return f" --partition {shlex.quote(partition)}" if one_line(partition) == partition == _cut(partition) else ""


def _cut(text: str) -> str:
    """The beginning of a long text, and what tells it from others."""
    return text if len(text) <= 2 * MAX_LETTERS else f"{text[:MAX_LETTERS]}... ({digest(text)})"


def _fitting(found: Iterable[Fits], most_bytes: int) -> Iterator[Fits]:
    """Those that have room together; one that is too large hides no other."""
    for one in found:
        size = len(json.dumps(one))
        if size <= most_bytes:
            most_bytes -= size
            yield one


def _lacks_since_ms(one: PartitionFreshness) -> int | None:
    """Of which time is the first row that RO lacks of it; its end, where that is later, or RO lacks none."""
    if one.ends_ms is None or not one.lacking:
        return one.ends_ms
    return max(one.ends_ms, one.complete_until_ms)


def _held_back_by(found: TableFreshness, state: TableState | None) -> Iterator[str]:
    """What of the table keeps it from being complete: a log file, writers, pending services."""
    if found.held_back_by:
        yield f"held back by `{found.held_back_by}`"
    if state is not None:
        if state.writes_in_flight:
            yield f"in flight: a write that began at {state.writes_in_flight[0].requested}"
        pending = next((one for one in state.pending if one.action != "deltacommit"), None)
        if pending is not None:
            yield f"pending: {pending.action} of {pending.requested}"


def document_of(message: Message, project: str | None, target: str = "") -> dict[str, object]:
    """The message as plain JSON, with as much as has room; `left_out` counts the rest."""
    found: Iterator[dict[str, object]] = ({"key": one.key, **one.model_dump(mode="json")} for one in message.broken)
    problems = list(_fitting(found, _BYTES))
    recovered = dict(_fitting(message.recovered.items(), _RECOVERED_BYTES))
    return {
        "id": message.key(project, target),
        "project": project,
        "title": message.title,
        "problems": problems,
        "recovered": recovered,
        "left_out": len(message.broken) - len(problems) + len(message.recovered) - len(recovered),
        "text": "\n".join(_fitting(message.lines(), _TEXT_BYTES)),
    }
