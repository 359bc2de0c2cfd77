"""A policy for a table that exists: what the table shows with the reason, and what it does not show as a question.

A question is a comment line that begins with `# ?` (`policy/files.py`); the line below it is an answer to be uncommented.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import NamedTuple

import yaml

from etc_policy.errors.codes import Code
from etc_policy.errors.plain_text import one_line
from etc_policy.hudi.discovery import Range
from etc_policy.hudi.event_time_values import UNIT_OF_DIGITS, format_ms, kind_of, text_ms, time_reader
from etc_policy.hudi.properties import ordering_fields
from etc_policy.plan.plan_warnings import column_warnings
from etc_policy.policy.files import MARK
from etc_policy.policy.manifest import EventTime, Frozen, Policy
from etc_policy.policy.quantities import QuantityError, parse_duration_ms
from etc_policy.policy.schema import PartitionTime
from etc_policy.policy.suggestions import did_you_mean
from etc_policy.policy.times import usual_pattern
from etc_policy.table.formats import count_of, format_bytes, format_duration, format_time, lateness, part_of
from etc_policy.table.impossible_times import (
    EARLIEST_MS,
    OLD_MS,
    Arrival,
    LateCommits,
    fitting_unit,
    late_text,
    mostly_late,
    unit_advice,
    whole_days_ms,
)
from etc_policy.table.instants import DAY_MS
from etc_policy.verify.diagnosis import (
    TableFacts,
    declared_index,
    declared_lock,
    diagnose_table,
    foreign_compactions,
)
from etc_policy.verify.latency import round_up_ms

_WIDTH = 118
#: What a policy cannot do without.
_NEEDED = ("event_time_column", "data_latency")
_TARGET = "freshness.target"
#: A run an hour, and half an hour for it.
_RUN_MS = 90 * 60_000
TARGET_REASON = "`data_latency`, an hour between two runs and half an hour for one"
_OF_COLUMN, _SAID = "event_time_column.", "said by `--set` when it was imported"
#: Checks that have a question, or a value, of their own.
_ASKED = ("lock", "compactions", "index", "event times", "data latency")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_TIME_WORDS = frozenset(
    _WORD.findall("at date datetime day dt dtm dttm epoch micros millis ms time timestamp ts tstamp when")
)
_EVENT_WORDS = frozenset(_WORD.findall("event happened measured observed occurred placed"))
_MOVING_WORDS = frozenset(_WORD.findall("changed chg modified upd update updated"))
#: When a row came in, which moves with updates and is no time of an event.
_CAME_WORDS = frozenset(
    _WORD.findall("ingest ingested ingestion inserted kafka load loaded processed processing received")
)
_NEVER_WORDS = frozenset(_WORD.findall("birth born deadline deleted due expiration expires expiry to until"))
#: When what a row is about began, which updates leave as it was.
_BEGAN_WORDS = frozenset(
    _WORD.findall("created creation crt first hire hired joined opened registered registration signup since")
)
#: A number or a text is looked at where its name has one of these.
_NAMING_WORDS = _TIME_WORDS | _EVENT_WORDS | _MOVING_WORDS | _CAME_WORDS
_OTHER_WORDS = _MOVING_WORDS | _CAME_WORDS | _NEVER_WORDS
#: A column is taken without a question when it has this rank, and leads by so much where there are others.
_RANK, _LEAD = 2, 3
_YEAR_MS = 365 * DAY_MS
_NAMED = 8
#: A column whose events come so many times sooner than those of another, and that late, moves with updates; the other does not.
_MOVES_TIMES, _STILL_MS = 10, 60_000
#: So many commits show that updates move a column.
_ENOUGH_LAGS = 3
#: An ordering field whose events come so soon is the column, whatever its name.
_SOON_MS = 3_600_000
_TAKES_BACK = "by a column that does not each update of an old row takes RO back"
#: What to do with a table without such a column.
_SKIPS = (
    "take a column that says when an event happened; a table without one is skipped by `--set 'NAME:enabled=false'`"
)
_SKIPPED = "skipped, as none of its columns moves with the writes"
_DAYS = "it has days alone, so that RO's freshness can be told by days only"
#: Patterns of texts that are not ISO 8601, by their parts; where several fit, the first is offered.
_PATTERNS = tuple(
    f"{day}{clock}"
    for day in ("yyyyMMdd", "yyyy/MM/dd", "yyyy.MM.dd", "dd.MM.yyyy", "dd/MM/yyyy", "MM/dd/yyyy", "dd-MM-yyyy")
    for clock in ("", "HHmmss", " HH:mm:ss", " HH:mm", " HHmmss", " HH:mm:ss.SSSSSS", "'T'HHmmss", "'T'HHmmss'Z'")
)
_SPAN = re.compile(r"[1-9]\d*(ms|s|m|h|d)")
_NONE: Mapping[str, object] = {}
_PLAIN = re.compile(r"(?!(?:true|false|null|yes|no|on|off)$)[A-Za-z_/][\w./=-]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Survey:
    """What is known of a table; `facts` are those of a provisional policy, `table` is how the policy is to name it.

    `columns` are the Avro types by name, `ranges` what the newest base file holds of some, `written_ms` when that was written.
    `lags` are how late the events of the newest commits came by some columns, the shortest first; below 0 where they came before.
    `given` are values that the user has said for its policy, `answered` those that the user said for all and etc_project.yml has,
    and `defaults` what it has else: that is not asked.
    """

    table: str
    facts: TableFacts
    columns: Mapping[str, str]
    ranges: Mapping[str, Range]
    written_ms: int | None = None
    ro_table: str | None = None
    lags: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    given: Mapping[str, object] = field(default_factory=dict)
    answered: Mapping[str, object] = field(default_factory=dict)
    defaults: Mapping[str, object] = field(default_factory=dict)


class Line(NamedTuple):
    """A key of the policy with its value as YAML, and why; a question where `asks`, whose value is a possible answer.

    With `offers` it is one that nobody has to answer, with `stays` one that an answer for all tables leaves as it is.
    """

    key: str
    value: str
    reason: str
    asks: bool = False
    offers: bool = False
    stays: bool = False


class _Candidate(NamedTuple):
    """A column that may hold event times; `fault` says why what it holds is no such time, `seen` what it holds.

    `pattern` is one that its texts fit, `lags` are how late its events came, `last_ms` is the latest that was seen. With
    `midnights` it holds nothing but those, with `is_said` the user said its unit or pattern, and with `is_ambiguous` the texts
    fit another pattern as well.
    """

    name: str
    type_name: str
    rank: int
    unit: str | None = None
    pattern: str | None = None
    seen: str = ""
    fault: str | None = None
    lags: tuple[int, ...] = ()
    last_ms: int | None = None
    midnights: bool = False
    is_said: bool = False
    is_ambiguous: bool = False

    @property
    def has_days_alone(self) -> bool:
        """Whether it says on which day an event happened, and no more."""
        return self.midnights or kind_of(self.type_name) == "date"

    @property
    def half_ms(self) -> int | None:
        """So late or later came half of its events; None where that is not known. In its day an event may come at any time."""
        if not self.lags:
            return None
        half_ms = self.lags[len(self.lags) // 2]
        return max(0, half_ms - 1) // DAY_MS * DAY_MS if self.has_days_alone else half_ms

    @property
    def late(self) -> str:
        """How late its events came; empty where that is not known. Years are not counted: those are no times of writes."""
        if not self.lags:
            return ""
        if 2 * (years := sum(one > _YEAR_MS for one in self.lags)) > len(self.lags):
            return f"{part_of(years, len(self.lags), 'commit')} came years after their earliest event"
        shown = [whole_days_ms(one) if self.has_days_alone else one for one in self.lags]
        return lateness(len(shown), "commit", shown[(len(shown) - 1) // 2], shown[-1])

    @property
    def is_unseen(self) -> bool:
        """Whether no value was found, though its type says how to read each."""
        return not self.lags and not self.seen and kind_of(self.type_name) not in ("number", "text")

    @property
    def comes_soon(self) -> bool:
        """Whether enough commits show that its events come within the hour, or on their day."""
        return len(self.lags) >= _ENOUGH_LAGS and self.half_ms is not None and self.half_ms <= _SOON_MS

    @property
    def is_guess(self) -> bool:
        """Whether the pattern of its texts is guessed: another would read other times, or none shows that they are such."""
        return self.pattern is not None and not self.is_said and (self.is_ambiguous or not self.comes_soon)

    @property
    def is_named(self) -> bool:
        """Whether its name or type says that it is a time."""
        return kind_of(self.type_name) not in ("number", "text") or bool(_words(self.name) & _NAMING_WORDS)

    @property
    def may_be_event(self) -> bool:
        """Whether neither its name nor what it holds says that it is no time of events."""
        is_read = self.fault is None or kind_of(self.type_name) == "text"  # of which the pattern may not be known
        is_old = len(self.lags) >= _ENOUGH_LAGS and self.half_ms is not None and self.half_ms > OLD_MS
        return is_read and not _words(self.name) & _NEVER_WORDS and not (is_old and self.says_when_it_began)

    @property
    def says_when_it_came(self) -> bool:
        """Whether it is by its name the time when a row came in, which is no event."""
        return bool(_words(self.name) & _CAME_WORDS)

    @property
    def says_when_it_began(self) -> bool:
        """Whether it is by its name the time of a row's first write."""
        return bool(_words(self.name) & _BEGAN_WORDS)

    @property
    def is_of_updates(self) -> bool:
        """Whether updates move it by its name."""
        return bool(_words(self.name) & _MOVING_WORDS)

    def may_move(self, ordering: Sequence[str]) -> bool:
        """Whether updates move it, by what is known without a look at them."""
        return self.name in ordering or self.is_of_updates

    @property
    def text(self) -> str:
        shown = f"{one_line(self.name)} ({self.type_name})"
        said = "; ".join(filter(None, (self.fault or self.seen, _DAYS if self.has_days_alone else "", self.late)))
        return f"{shown}: {said}" if said else shown

    def value(self, given: Mapping[str, object]) -> str:
        """The column as a policy names it, with what was said of how to read it."""
        form = {"unit": self.unit} if self.unit else {"format": self.pattern}
        parts = {key: value for key, value in {**form, **given}.items() if value is not None}
        said = (f", {key}: {yaml_text(value)}" for key, value in parts.items())
        return f"{{column: {_text(self.name)}{''.join(said)}}}" if parts else _text(self.name)


def time_columns(
    columns: Mapping[str, str], properties: Mapping[str, str], given: Mapping[str, object] = _NONE
) -> tuple[str, ...]:
    """The columns that may hold event times by name and type, the likeliest first, and the one that was said."""
    return tuple(one.name for one in _candidates(columns, properties, {}, None, {}, _said_column(given)))


def readable_times(survey: Survey) -> tuple[EventTime, ...]:
    """The columns that may hold event times as a policy names them, those whose values can be read, and the one that was said."""
    said = _said_time(survey)
    is_there = said is not None and kind_of(survey.columns.get(said.column, "")) is not None
    return (
        *([said] if said is not None and is_there else []),
        *(
            EventTime.model_validate({"column": one.name, "unit": one.unit, "format": one.pattern})
            for one in _candidates_of(survey)
            if one.fault is None and (one.unit is not None or not one.seen or kind_of(one.type_name) != "number")
        ),
    )


def why_not_guessed(survey: Survey) -> str | None:
    """What is known of the columns where none can be taken for a time of events without a question; None where one can."""
    best = _choose(survey).best
    is_likely = best.is_named or best.seen or best.lags
    return None if best.may_be_event and not best.fault and is_likely else _listed(_candidates_of(survey))


def proposed_lines(survey: Survey) -> tuple[Line, ...]:
    """What the table, or the user, says of its policy, and what is left open."""
    seen = (_skip, _event_time, _latency, _freshness, _partition_time, _strategy, _writer, _verify, _sync)
    shown = [line for lines in seen for line in lines(survey) if not _is_said(line, survey)]
    is_skipped = any(line.key == "enabled" for line in shown) or survey.given.get("enabled") is False
    if is_skipped:
        shown = [_unasked(line) if line.key != "enabled" else line for line in shown]
    said_now = {key: value for key, value in survey.given.items() if not key.startswith(_OF_COLUMN)}
    if (own := said_now.get("event_time_column")) is not None and (form := _said_of_column(survey)):
        said_now["event_time_column"] = {**(own if isinstance(own, dict) else {"column": own}), **form}
    shows = {"event_time_column": [_taken(survey).text], "data_latency": [*_latency_doubt(survey)]}
    reasons = {key: "; ".join((_SAID, *shows.get(key, ()))) for key in said_now}
    return (*shown, *(Line(key, yaml_text(value), reasons[key], stays=True) for key, value in said_now.items()))


def _is_said(line: Line, survey: Survey) -> bool:
    """Whether something was said in the place of the line, for this table, for all, or by the project where it asks."""
    if (
        line.key == "data_latency"
        and line.stays
        and (for_all_ms := _longest_ms(_for_all(survey).get(line.key))) is not None
    ):
        return line.key in survey.given or for_all_ms >= (_longest_ms(line.value) or 0)
    if line.key == _TARGET:
        return False  # it is there where what was said is too short
    is_of_all = is_below(line.key, (*survey.given, *survey.answered))
    return is_of_all or (line.asks and is_below(line.key, survey.defaults))


def _for_all(survey: Survey) -> Mapping[str, object]:
    """What was said for all tables, or the project says."""
    return {**survey.answered, **survey.defaults}


def _taken(survey: Survey) -> _Candidate:
    """The event-time column that the policy has, as it was said or else is proposed."""
    named = _said_column(survey.given)
    said = (one for one in _candidates_of(survey) if one.name == named)
    return next(said, None) or _choose(survey).best


def said_doubts(survey: Survey) -> Iterator[str]:
    """What the table shows against a column, or a `data_latency`, that was said and is taken all the same."""
    choice = _choose(survey)
    if (named := _said_column(survey.given)) in [one.name for one in choice.still]:
        yield f"updates leave `{one_line(str(named))}` as it was, and move `{one_line(choice.best.name)}`"
    yield from _latency_doubt(survey)


def _latency_doubt(survey: Survey) -> Iterator[str]:
    said, column = {**survey.defaults, **survey.answered, **survey.given}.get("data_latency"), _taken(survey)
    declared_ms = _longest_ms(said)
    if declared_ms is None or survey.given.get("enabled") is False:
        return
    lags = [Arrival(0, -lag_ms) for lag_ms in reversed(column.lags)]  # old data first: they do not count
    if (late := mostly_late(lags, declared_ms, of_days=column.has_days_alone)) is not None:
        yield late_text(late._replace(which=f"by `{one_line(column.name)}`"), declared_ms)
    elif column.name == survey.facts.policy.event_time.column:
        policy = survey.facts.policy.model_copy(update={"data_latency_ms": declared_ms})
        verdict, _ = replace(survey.facts, policy=policy).judged
        if verdict.status == "too_short":
            yield f"{verdict.observed}, and `data_latency` is {format_duration(declared_ms)}"


def _unasked(line: Line) -> Line:
    """The line in a policy that may take part in nothing."""
    return (
        line._replace(asks=False, reason="needed, and of no effect while the table is skipped") if line.asks else line
    )


def _said_of_column(survey: Survey) -> dict[str, object]:
    """What the user said of how to read the event-time column, without the column or beside it."""
    return {key.removeprefix(_OF_COLUMN): value for key, value in survey.given.items() if key.startswith(_OF_COLUMN)}


def _said_column(given: Mapping[str, object]) -> object:
    """The event-time column that the user said."""
    said = given.get("event_time_column")
    return said.get("column") if isinstance(said, dict) else said


def is_below(key: str, keys: Iterable[str]) -> bool:
    """Whether one of the keys is this one, or holds it."""
    return any(key == one or key.startswith(f"{one}.") for one in keys)


def _candidates(
    columns: Mapping[str, str],
    properties: Mapping[str, str],
    ranges: Mapping[str, Range],
    written_ms: int | None,
    said: Mapping[str, object],
    named: object,
) -> list[_Candidate]:
    ordering = ordering_fields(properties)
    found = [
        _read(_with_form(_Candidate(name, kind, _rank(name, kind, ordering)), said), ranges.get(name), written_ms)
        for name, kind in columns.items()
        if (_may_be_time(name, kind, ordering) and not _is_word(name, ranges.get(name)))
        or (name == named and kind_of(kind) is not None)
    ]
    return sorted(found, key=lambda one: (-one.rank, one.name))


def _candidates_of(survey: Survey) -> list[_Candidate]:
    """The columns that may hold event times with all that was seen of them, the likeliest first."""
    said = _said_of_column(survey)
    named = _said_column(survey.given)
    found = _candidates(survey.columns, survey.facts.properties, survey.ranges, survey.written_ms, said, named)
    return [_with_lags(one, survey.lags.get(one.name, ())) for one in found]


def _with_lags(one: _Candidate, lags: Sequence[int]) -> _Candidate:
    """The candidate with how late its events came; none came before it happened, but by another zone."""
    if lags and lags[0] < -DAY_MS:
        ahead = "log files hold days after their commits, which are no times of events that had happened"
        return one._replace(fault=one.fault or ahead)
    return one._replace(lags=tuple(max(0, lag_ms) for lag_ms in lags))


class _Choice(NamedTuple):
    """The column that is proposed, whether that is a question, and those that are no times or do not move with updates."""

    best: _Candidate
    asks: bool
    still: tuple[_Candidate, ...] = ()


def _choose(survey: Survey) -> _Choice:
    """The column that moves with updates, as far as lags show it; else the likeliest by name, type and values."""
    candidates, ordering = _candidates_of(survey), ordering_fields(survey.facts.properties)
    usable = [one for one in candidates if one.fault is None]
    still = tuple(_still(usable))
    is_seen = any(len(one.lags) >= _ENOUGH_LAGS for one in usable)
    empty = [one for one in usable if is_seen and one.is_unseen]
    moves = any(one.is_of_updates and _is_near_writes(one, survey.written_ms) for one in usable)
    left = sorted(
        (one for one in usable if one not in still),
        key=lambda one: (
            not one.is_named,
            one in empty,
            one.has_days_alone,
            moves and one.says_when_it_began,
        ),
    )
    if not left:
        return _Choice(candidates[0], asks=True)
    best, rest = left[0], left[1:]
    by_number = any(not one.is_named for one in candidates if one.name != best.name)
    is_only = not any(_may_be_meant(one, best) for one in candidates if one != best and one not in empty)
    is_certain = _is_certain(best, rest, ordering, is_last=bool(still), by_number=by_number)
    if is_certain or (is_only and _is_near_writes(best, survey.written_ms)):
        return _Choice(best, asks=False, still=still)
    if len(best.lags) < _ENOUGH_LAGS and not best.may_move(ordering):
        best = min(
            (one for one in rest if one.may_move(ordering)), key=lambda one: one.name not in ordering, default=best
        )
    return _Choice(best, asks=True, still=still)


def _may_be_meant(other: _Candidate, best: _Candidate) -> bool:
    """Whether a column that does not move, or cannot be read, may be the time of the event all the same."""
    return other.may_be_event and not (best.is_of_updates and other.says_when_it_began)


def _is_near_writes(best: _Candidate, written_ms: int | None) -> bool:
    """Whether what was seen of a column that may say when an event happened shows that it moves with the writes."""
    if not best.is_named or not best.may_be_event or best.says_when_it_came or best.is_guess:
        return False
    if best.half_ms is not None:
        return best.half_ms < (DAY_MS if len(best.lags) >= _ENOUGH_LAGS else _SOON_MS)
    return best.last_ms is not None and written_ms is not None and written_ms - best.last_ms < DAY_MS


def _still(usable: list[_Candidate]) -> Iterator[_Candidate]:
    """The columns that do not move with updates: events by another come far sooner."""
    known = [(one.half_ms, one) for one in usable if one.half_ms is not None and not one.says_when_it_came]
    soonest_ms = min((half_ms + DAY_MS * one.has_days_alone for half_ms, one in known), default=0)
    limit_ms = max(_MOVES_TIMES * soonest_ms, _STILL_MS)
    return (one for half_ms, one in known if half_ms > limit_ms)


def _is_certain(
    best: _Candidate, rest: list[_Candidate], ordering: tuple[str, ...], *, is_last: bool, by_number: bool
) -> bool:
    """Whether nobody has to be asked; `is_last` says that others do not move with updates, `by_number` that the rows are ordered
    by what is named as no time.
    """
    if kind_of(best.type_name) == "text" and (best.is_guess or not (best.seen or best.comes_soon)):
        return False
    if not (best.is_named or best.seen or best.lags):
        return False
    if best.half_ms is not None and best.half_ms > DAY_MS and len(best.lags) >= _ENOUGH_LAGS:
        return False  # it may be that of the first write of a row
    is_soon = best.half_ms is not None and best.half_ms <= _SOON_MS and not best.has_days_alone
    orders = best.name in ordering
    if is_soon and not best.says_when_it_came and (orders or by_number):
        return True
    leads = best.rank >= _RANK and all(best.rank >= one.rank + _LEAD for one in rest)
    may_others = any(one.may_move(ordering) for one in rest)
    return leads and (orders or not (is_last or (len(best.lags) < _ENOUGH_LAGS and may_others)))


def _words(name: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(name.rpartition(".")[2])}


def _may_be_time(name: str, kind: str, ordering: tuple[str, ...]) -> bool:
    held = kind_of(kind)
    if held in ("number", "text"):
        return bool(_words(name) & _NAMING_WORDS) or (held == "number" and name in ordering)
    return held is not None


def _is_word(name: str, found: Range | None) -> bool:
    """Whether what was seen of a column, whose name does not say that it is a time, are texts without a digit, as of a flag."""
    ends = () if found is None or _words(name) & _TIME_WORDS else found
    return bool(ends) and not any(isinstance(one, int) or re.search(r"\d", one) for one in ends)


def _rank(name: str, kind: str, ordering: tuple[str, ...]) -> int:
    words, held = _words(name), kind_of(kind)
    rank = 4 * bool(words & _EVENT_WORDS) + 2 * bool(words & _TIME_WORDS) + 2 * (name in ordering)
    return rank - 5 * bool(words & _OTHER_WORDS) + {"text": -1, "date": -1, "number": 0}.get(held or "", 1)


def _with_form(one: _Candidate, said: Mapping[str, object]) -> _Candidate:
    """The candidate with the unit, or the pattern, that was said of the column, whichever it can have."""
    key = {"number": "unit", "text": "format"}.get(kind_of(one.type_name) or "")
    value = None if key is None else said.get(key)
    if value is None:
        return one
    said_of_it = one._replace(is_said=True)
    return said_of_it._replace(unit=str(value)) if key == "unit" else said_of_it._replace(pattern=str(value))


def _read(one: _Candidate, found: Range | None, written_ms: int | None) -> _Candidate:
    """The candidate with what its values in a base file say of it."""
    if found is None:
        return one
    kind, pattern, is_ambiguous = kind_of(one.type_name) or "", one.pattern, False
    unit = one.unit or _unit(found) if kind == "number" else None
    if kind == "text" and pattern is None:
        pattern, is_ambiguous = _pattern(found, written_ms)
    form = EventTime.model_validate({"column": one.name, "unit": unit, "format": pattern})
    first, last = map(time_reader(kind, form), found)
    shown = f"`{one_line(str(found.first))[:30]}` to `{one_line(str(found.last))[:30]}`"
    if first is None or last is None:
        return one._replace(fault=f"its values, {shown}, cannot be read as times without more being known")
    fits = f", as its texts fit `{pattern}`" if pattern else ""
    seen = f"{format_time(first)} to {format_time(last)} in the newest base file{fits}"
    if last < EARLIEST_MS or (written_ms is not None and last > written_ms + DAY_MS):
        return one._replace(fault=f"{seen}, which are no times of events that had happened")
    are_midnights = not (first % DAY_MS or last % DAY_MS) and (kind == "text" or first != last)
    of_values = one._replace(unit=unit, pattern=pattern, seen=seen, last_ms=last)
    return of_values._replace(midnights=are_midnights, is_ambiguous=is_ambiguous)


def _pattern(found: Range, written_ms: int | None) -> tuple[str | None, bool]:
    """The pattern that both ends of a text column fit, and whether another may be meant: of several that by which they are
    nearest before the write. None where they need none, or fit none that is known.
    """
    texts = [str(one) for one in found]
    if all(text_ms(one, None) is not None for one in texts):
        return None, False
    read = {
        pattern: [time_ms for text in texts if (time_ms := format_ms(text, pattern)) is not None]
        for pattern in _PATTERNS
    }
    latest = {pattern: max(times) for pattern, times in read.items() if len(times) == len(texts)}
    if written_ms is not None:
        latest = {one: -1 if time_ms > written_ms + DAY_MS else time_ms for one, time_ms in latest.items()}
    best = max(latest, key=latest.__getitem__, default=None)
    return best, best is not None and [*latest.values()].count(latest[best]) > 1


def _unit(found: Range) -> str | None:
    first, last = (UNIT_OF_DIGITS.get(len(str(value))) for value in found)
    return last if first == last else None


def _skip(survey: Survey) -> Iterator[Line]:
    """That the table is left alone, where no column can say when an event happened, and nothing was said of that."""
    candidates = _candidates_of(survey)
    if any(is_below(key, survey.given) for key in ("enabled", "event_time_column")) or any(
        one.may_be_event for one in candidates
    ):
        return
    text = (
        f"{_SKIPPED}: {_listed(candidates)}. etc does not go by Hudi's commit time. Where one is a time of events all the same "
        "take this line away, and name it below"
    )
    yield Line("enabled", "false", text, stays=True)


def why_skipped(survey: Survey) -> str | None:
    """Why import skips the table, in short; None where it does not."""
    names = ", ".join(f"`{one_line(one.name)}`" for one in _candidates_of(survey)[:_NAMED])
    return f"{_SKIPPED} ({names})" if any(_skip(survey)) else None


def _event_time(survey: Survey) -> Iterator[Line]:
    candidates, ordering = _candidates_of(survey), ordering_fields(survey.facts.properties)
    best, asks, still = _choose(survey)
    others = [one for one in candidates if one != best]
    orders = "the ordering field" if best.name in ordering else ""
    if still:
        why = f"{orders}, which moves with updates" if orders else "it moves with updates"
        text = f"{best.text}; {why}: {_TAKES_BACK}. Others: {_listed(others)}"
    elif asks:
        text = f"which column says when an event happened? By name and type these may: {_listed(candidates)}"
        if others and len(best.lags) < _ENOUGH_LAGS and best.may_move(ordering):
            text += f". Take one that moves with updates, such as `{one_line(best.name)}`{_in_brackets(orders)}: {_TAKES_BACK}"
        if all(one.half_ms is not None and one.half_ms > OLD_MS for one in candidates if one.fault is None):
            text += ". None moves with the writes, unless old rows are being loaded: `enabled: false` beside it skips the table"
        if kind_of(best.type_name) == "text":
            text += ". `format` is the pattern of texts that are not ISO 8601, such as `dd.MM.yyyy HH:mm:ss`"
    else:
        less = f"less likely by name, type and values: {_listed(others)}" if others else "the only column of times"
        text = f"{best.text}{f', {orders}' if orders else ''}; {less}"
    yield Line("event_time_column", best.value(_said_of_column(survey)), text, asks=asks)


def _in_brackets(text: str) -> str:
    return f" ({text})" if text else ""


def _listed(candidates: list[_Candidate]) -> str:
    more = f"; and {len(candidates) - _NAMED} more" if len(candidates) > _NAMED else ""
    return "; ".join(one.text for one in candidates[:_NAMED]) + more


def _latency(survey: Survey) -> Iterator[Line]:
    facts = survey.facts
    verdict, _ = facts.judged
    best, by_column = _taken(survey), facts.policy.event_time.column
    if verdict.suggested_ms is not None and verdict.observed is not None and best.name == by_column:
        yield Line(
            "data_latency",
            format_duration(verdict.suggested_ms),
            f"{verdict.observed}; this covers {verdict.covers} them",
            stays=best.has_days_alone,
        )
        return
    seen = f" So far, {verdict.observed}." if verdict.observed and best.name == by_column else ""
    reason = f"{verdict.reason}.{seen}"
    if best.late:
        reason = f"too few writes. By `{one_line(best.name)}`, {best.late}."
    has_days, name = best.has_days_alone, one_line(best.name)
    usual_ms = DAY_MS if has_days else _SOON_MS
    is_longer = best.half_ms is not None and best.half_ms > usual_ms
    value = format_duration(round_up_ms(best.lags[-1]) if is_longer else usual_ms)
    of_days = f"`{name}` has days alone, for which less than a day is too short"
    is_for_all = _for_all(survey).get("data_latency") is not None
    asks = not has_days or not (is_for_all or (best.comes_soon and best.lags[-1] <= DAY_MS))
    if asks:
        days = f" {of_days}." if has_days else ""
        text = f"how late may an event arrive? The table does not show it: {reason}{days}"
    else:
        text = f"{of_days}; {best.late}" if best.late else of_days
    yield Line("data_latency", value, text, asks=asks, stays=has_days)


def _freshness(survey: Survey) -> Iterator[Line]:
    """How far RO may lag, but where etc_project.yml says it for all, or will, or any limit was said.

    Where `data_latency` is asked it is offered: an answer may be longer than what is proposed.
    """
    latency, of_all = next(_latency(survey)), _for_all(survey)
    is_own = "data_latency" in survey.given or not (latency.asks or _is_said(latency, survey))
    said = survey.given.get("data_latency", latency.value) if is_own else of_all.get("data_latency")
    if _has_limits(survey.given) or _is_limited(survey, said if is_own else None):
        return
    target = target_for(latency.value if said is None else said)
    if target is not None:
        text = f"how far RO may lag behind now: {TARGET_REASON}"
        is_open = said is None and latency.asks
        yield Line("freshness", f"{{target: {target}}}", text, offers=True) if is_open else Line(_TARGET, target, text)


def _is_limited(survey: Survey, own: object) -> bool:
    """Whether etc_project.yml has limits, or will have, that a table can keep, whose own `data_latency` is this if it has one."""
    of_all = _for_all(survey)
    if not _has_limits(of_all):
        return own is None and "data_latency" in survey.answered and "data_latency" not in survey.defaults
    limits = of_all.get("freshness")
    target_ms = _longest_ms(limits.get("target") if isinstance(limits, dict) else of_all.get(_TARGET))
    return own is None or target_ms is None or target_ms > (_longest_ms(own) or 0)


def _has_limits(said: Mapping[str, object]) -> bool:
    return any(key.partition(".")[0] == "freshness" for key in said)


def target_for(data_latency: object) -> str | None:
    """A `freshness.target` for a `data_latency` as YAML has it; None if that is not a duration."""
    longest_ms = _longest_ms(data_latency)
    return None if longest_ms is None else format_duration(round_up_ms(longest_ms + _RUN_MS))


def _longest_ms(data_latency: object) -> int | None:
    """The longest that a `data_latency` may be, as YAML has it; None if it is not a duration."""
    longest = data_latency.get("at_most") if isinstance(data_latency, dict) else data_latency
    with suppress(QuantityError):
        return parse_duration_ms(longest)
    return None


def _partition_time(survey: Survey) -> Iterator[Line]:
    timed = survey.facts.policy.partition_time
    if timed is not None:
        text = "the paths look like hours, days or months: with this key `etc wait` and `done` can say when one is complete"
        yield Line("partition_time", f"{{from: {_text(timed.pattern)}}}", text, offers=True)


def _strategy(survey: Survey) -> Iterator[Line]:
    if survey.facts.state.table_version < 8:
        reason = (
            f"table version {survey.facts.state.table_version}: whole slices are compacted; `etc explain strategies`"
        )
        yield Line("strategy.granularity", "file_slice", f"{reason} says what `log_file` needs there")


def _writer(survey: Survey) -> Iterator[Line]:
    facts = survey.facts
    if facts.has_buckets:
        shown = "the names of all file groups begin with the numbers of buckets"
        kept = "its writers keep buckets by consistent hashing"
        yield Line("writer.index", "bucket", kept if facts.consistent_buckets else shown)
    else:
        has = " has a record index, but" if "record_index" in facts.state.metadata_partitions else ""
        yield Line("writer.index", "unknown", f"the table{has} does not say by which index its writers find keys")
    if facts.foreign_compactions and facts.policy.writer.compaction == "none":
        count, last = count_of(len(facts.foreign_compactions), "compaction"), facts.foreign_compactions[-1].requested
        text = f"who compacts? The history has {count} by others, the last at {last}. Turn these off (`etc compile`), or say so:"
        yield Line("writer.compaction", "async", text, asks=True)
    status, message, hint = declared_lock(facts)
    if status == "warn":
        text = f"which lock do the writers take? {one_line(message)}: {one_line(hint or '')}"
        yield Line("writer.lock", "{hoodie.write.lock.provider: CLASS}", text, asks=True)


def _verify(survey: Survey) -> Iterator[Line]:
    if survey.facts.state.lacks_meta_columns:
        yield Line("verify.level", "logs", "its rows carry no keys by which they could be compared")


def _sync(survey: Survey) -> Iterator[Line]:
    if survey.ro_table is not None:
        yield Line("sync.ro_table", _text(survey.ro_table), "the catalog has this table of the same folder")


def render_proposal(survey: Survey, *, guesses: bool = False) -> str:
    """The policy file: what was seen of the table, its values with their reasons, and its open questions.

    With `guesses` the questions that a policy cannot do without are answered by what is likely, and there are no others.
    """
    facts, lines = survey.facts, proposed_lines(survey)
    if guesses:
        needed = (line for line in lines if line.key in _NEEDED or not (line.asks or line.key == _TARGET))
        lines = tuple(line._replace(asks=False) for line in needed)
    head = [
        f"Made by `etc import` at {format_time(facts.clock_ms // 1000 * 1000)} from the table's metadata and footers.",
        *_shown(facts),
    ]
    if any(line.asks for line in lines):
        head.append(
            f"A line that begins with `{MARK}` is a question. Answer it in the line below and take away the `?`: until then "
            "the policy takes part in no run, and `etc parse` lists it."
        )
    parts = [*_comment(head, ""), "version: 1", "policies:", f"  - name: {_text(facts.policy.name)}"]
    parts.append(f"    table: {_text(survey.table)}")
    groups = dict.fromkeys(line.key.partition(".")[0] for line in lines)
    for group in groups:
        parts += _group(group, [line for line in lines if line.key.partition(".")[0] == group])
    return "\n".join(parts) + "\n"


def _group(group: str, lines: list[Line]) -> Iterator[str]:
    indent = "    "
    if "." in lines[0].key:
        yield f"{indent}{group}:"
        indent += "  "
    for line in lines:
        yield from _comment([f"? {line.key}: {line.reason}" if line.asks else line.reason], indent)
        yield f"{indent}{'# ' if line.asks or line.offers else ''}{line.key.rpartition('.')[2]}: {line.value}"


def _comment(texts: list[str], indent: str) -> Iterator[str]:
    for text in texts:
        for folded in textwrap.wrap(
            one_line(text), _WIDTH - len(indent), break_long_words=False, break_on_hyphens=False
        ):
            yield f"{indent}# {folded}"


def _shown(facts: TableFacts) -> Iterator[str]:
    """What else was seen: how the table is kept and written, and what `etc debug` has against it."""
    state, properties = facts.state, facts.properties
    keys = properties.get("hoodie.table.recordkey.fields") or "not named"
    by = f"partitioned by {', '.join(state.partition_fields)}" if state.partition_fields else "without partitions"
    sizes = [log_file.size_bytes for _, log_file in state.log_files]
    logs = f", the largest of {format_bytes(max(sizes))}" if sizes else ""
    ordering = ", ".join(ordering_fields(properties)) or "none"
    done: dict[str, int] = {}
    for commit in facts.history.commits:
        kind = (commit.operation or commit.action).lower()
        done[kind] = done.get(kind, 0) + 1
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(done.items()))
    slices, files = count_of(len(state.slices), "file slice"), count_of(len(sizes), "log file")
    yield f"{state.merging[:1].upper()}{state.merging[1:]} ({ordering}); keys: {keys}; {by}."
    yield f"{slices}, {files}{logs}; writes: {kinds or 'none'}."
    for finding in diagnose_table(facts):
        if finding.status in ("warn", "error") and finding.check not in _ASKED:
            hint = f"; {finding.hint}" if finding.hint else ""
            yield f"`etc debug`, {finding.check}: {finding.message}{hint}"


def yaml_text(value: object) -> str:
    """A value as YAML on one line."""
    if isinstance(value, str):
        return value if _SPAN.fullmatch(value) else _text(value)
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=sys.maxsize)
    return text.removesuffix("...\n").strip()


def _text(value: str) -> str:
    """A text as YAML, which Jinja leaves as it is."""
    if _PLAIN.fullmatch(value):
        return value
    quoted = json.dumps(value, ensure_ascii=False).replace("}", "\\u007d")  # so that no expression ends within it
    braced = f"{{{{ {quoted} }}}}" if "{" in value else value
    return yaml.safe_dump(braced, default_style='"', width=sys.maxsize).strip()


class AnswerFault(NamedTuple):
    """What a table has against an answer, as the same words for every table that has it, and a hint from this one."""

    code: Code
    key: str
    fault: str
    hint: str


def answer_faults(survey: Survey) -> Iterator[AnswerFault]:
    """What the table has against what was said of it: a column that it lacks or that cannot be read so, paths, an index."""
    said = {**survey.answered, **survey.given}
    if (event_time := _said_time(survey)) is not None:
        yield from _column_faults(survey, event_time)
    if isinstance(timed := said.get("partition_time"), dict):
        yield from _partition_faults(survey, PartitionTime.model_validate(timed))
    if isinstance(index := said.get("writer.index"), str):
        writer = survey.facts.policy.writer.model_copy(update={"index": index})
        policy = survey.facts.policy.model_copy(update={"writer": writer})
        status, message, hint = declared_index(replace(survey.facts, policy=policy))
        if status == "error":
            yield AnswerFault(Code.USAGE, "writer.index", message, hint or "")


def _said_time(survey: Survey) -> EventTime | None:
    """The event-time column as it was said, whole or in part."""
    if not any(is_below(key, ("event_time_column",)) for key in (*survey.answered, *survey.given)):
        return None
    line = next(one for one in proposed_lines(survey) if one.key == "event_time_column")
    return EventTime.model_validate(_unrendered(line.value))


def _column_faults(survey: Survey, event_time: EventTime) -> Iterator[AnswerFault]:
    column, key = event_time.column, "event_time_column"
    type_name = survey.columns.get(column)
    if type_name is None:
        near = did_you_mean(column, survey.columns)
        shown = ", ".join(f"`{one_line(name)}`" for name in islice(survey.columns, _NAMED))
        yield AnswerFault(Code.NO_EVENT_TIME_COLUMN, key, f"no column `{column}`", near or f"its columns are {shown}")
        return
    kind, no_time = kind_of(type_name), partial(AnswerFault, Code.NOT_A_TIME_COLUMN)
    shown = f"`{column}` is {type_name}"
    if kind is None:
        yield no_time(key, f"{shown}, which holds no times", f"such as `{_candidates_of(survey)[0].name}`")
    elif event_time.unit and kind not in ("number", "text"):
        yield no_time(f"{key}.unit", f"{shown}, which has a unit of its own", "leave `unit` out")
    elif event_time.format and kind != "text":
        yield no_time(f"{key}.format", f"{shown}, and no text", "leave `format` out")
    elif (found := survey.ranges.get(column)) is not None:
        yield from _value_faults(survey, event_time, found, kind)
    elif event_time.unit and survey.facts.clock_ms - min(survey.lags.get(column, (0,))) < EARLIEST_MS:
        yield no_time(key, f"what log files hold of `{column}` are no times of events in `{event_time.unit}`", _SKIPS)


def _value_faults(survey: Survey, event_time: EventTime, found: Range, kind: str) -> Iterator[AnswerFault]:
    """Whether both ends of what the newest base file holds can be read so, and are times of this unit."""
    times = [*map(time_reader(kind, event_time), found)]
    shown = f"`{one_line(str(found.first))[:30]}` to `{one_line(str(found.last))[:30]}`"
    values = f"its values of `{event_time.column}`, {shown},"
    if None in times:
        hint = "`event_time_column.unit` says the unit of numbers, `event_time_column.format` the pattern of texts"
        yield AnswerFault(Code.NOT_A_TIME_COLUMN, "event_time_column", f"{values} cannot be read so", hint)
        return
    latest_ms = (survey.written_ms or survey.facts.clock_ms) + event_time.ahead_ms
    known = [time_ms for time_ms in times if time_ms is not None]
    fitting = {fitting_unit(event_time, time_ms, latest_ms) for time_ms in known}
    if len(fitting) == 1 and (unit := fitting.pop()) is not None:
        fault = f"{values} are no times in `{event_time.unit}`"
        yield AnswerFault(Code.WRONG_UNIT, "event_time_column.unit", fault, unit_advice(unit, event_time.column))
    elif event_time.unit and (max(known) < EARLIEST_MS or min(known) > latest_ms):
        fault = f"{values} are no times of events in `{event_time.unit}`"
        yield AnswerFault(Code.NOT_A_TIME_COLUMN, "event_time_column", fault, _SKIPS)


def _partition_faults(survey: Survey, timed: PartitionTime) -> Iterator[AnswerFault]:
    partitions = sorted({one.partition for one in survey.facts.state.slices})
    if partitions and not any(timed.clock.span(one) for one in partitions):
        usual = usual_pattern(partitions)
        hint = f"such as `partition_time={{from: {usual}}}`" if usual else f"a partition is `{one_line(partitions[0])}`"
        yield AnswerFault(Code.BAD_PARTITION_TIME, "partition_time", f"no partition that fits `{timed.pattern}`", hint)


def _unrendered(value: str) -> object:
    """What a value in the text of a policy means; such a text holds no template but braces as texts."""
    found = yaml.safe_load(value)
    return {"column": found} if isinstance(found, str) else found


class DriftedKey(Frozen):
    """A key of a policy, what it says, and what the table shows now."""

    key: str
    declared: str
    reason: str


def find_drift(facts: TableFacts) -> Iterator[DriftedKey]:
    """Where the table is not, or no longer, what its policy says of it and its writers; not what only the policy decides."""
    policy = facts.policy
    (verdict, doubt), state, column = facts.judged, facts.state, policy.event_time.column
    may_be_latency = isinstance(doubt, LateCommits) and verdict.suggested_ms is not None
    is_of_latency = may_be_latency and not (state.ordering_fields and column not in state.ordering_fields)
    said = next(column_warnings(policy, state, None if is_of_latency else doubt), None)
    if said is not None:
        yield DriftedKey(key="event_time_column", declared=column, reason="; ".join(said))
    elif verdict.status == "too_short":
        enough = f"; {format_duration(verdict.suggested_ms)} would do" if verdict.suggested_ms else ""
        declared, reason = format_duration(policy.data_latency_ms), f"{verdict.observed}{enough}"
        yield DriftedKey(key="data_latency", declared=declared, reason=reason)
    for key, check in _CHECKS.items():
        status, message, _ = check(facts)
        if status in ("warn", "error"):
            yield DriftedKey(key=key, declared=_declared(policy, key), reason=one_line(message))


def _declared(policy: Policy, key: str) -> str:
    return str(getattr(policy.writer, key.rpartition(".")[2]) or "nothing")


#: What is declared of the writers -> the check that compares it with the table.
_CHECKS = {"writer.index": declared_index, "writer.compaction": foreign_compactions, "writer.lock": declared_lock}
