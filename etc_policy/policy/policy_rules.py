"""What must hold between the values of one policy; each rule yields its issues and raises nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator

from etc_policy.errors import Issue
from etc_policy.errors.codes import Code
from etc_policy.policy.hudi_options import (
    ARCHIVE_LIMITS,
    EVENT_TIME_KEYS,
    KEY_OF_OPTION,
    STOCK,
    WHOLE_NUMBER_OPTIONS,
    keys_of,
    lock_option_fault,
    option_fault,
    stock_options,
)
from etc_policy.policy.partition_time import length_fault
from etc_policy.policy.project import DeclaredPolicy
from etc_policy.policy.quantities import duration_text
from etc_policy.policy.secrets import REFERENCE_HINT, changed_secrets
from etc_policy.policy.suggestions import listed
from etc_policy.policy.yaml_marks import value_at


def event_time_is_readable(policy: DeclaredPolicy) -> Iterator[Issue]:
    """An event-time column has a unit (integers) or a pattern (text), not both, and the pattern is Spark's."""
    column = policy.declaration.event_time
    if column.unit is not None and column.format is not None:
        message = "`unit` and `format` exclude each other: `unit` is for integer columns, `format` for text"
        where = policy.where("event_time_column", "format", at_key=True)
        yield Issue(Code.UNIT_AND_FORMAT, message, where, "keep the one that fits the column")
    shown = policy.shown("event_time_column", "format")
    fault = format_fault(column.format, shown) if column.format is not None else None
    if fault is not None:
        hint = "Spark patterns look like `yyyy-MM-dd HH:mm:ss`"
        yield Issue(Code.BAD_FORMAT, fault, policy.where("event_time_column", "format"), hint)


def hudi_options_are_free(policy: DeclaredPolicy) -> Iterator[Issue]:
    """`hudi_options` holds options of Hudi only, and none that the policy or the table decides."""
    for key in policy.declaration.hudi_options:
        fault = option_fault(key)
        if fault is not None:
            where = policy.where("hudi_options", key, at_key=True)
            yield Issue(fault[0], f"the option `{key[:80]}` {fault[1]}", where, fault[2])


def planned_options_are_numbers(policy: DeclaredPolicy) -> Iterator[Issue]:
    """The Hudi options that planning reads are whole numbers, and archiving keeps fewer commits than it begins at."""
    options, numbers = policy.declaration.hudi_options, dict[str, int]()
    for key in filter(options.__contains__, WHOLE_NUMBER_OPTIONS):
        value = options[key]
        if not re.fullmatch(r"[0-9]{1,15}", value.strip()):
            message = f"the option `{key}` must be a whole number, not `{value[:60]}`"
            hint = f"planning reads it; Hudi's default is {WHOLE_NUMBER_OPTIONS[key]}"
            yield Issue(Code.NOT_A_WHOLE_NUMBER, message, policy.where("hudi_options", key), hint)
        else:
            numbers[key] = int(value)
    fewest, most = (numbers.get(key, WHOLE_NUMBER_OPTIONS[key]) for key in ARCHIVE_LIMITS)
    given = next((key for key in ARCHIVE_LIMITS if key in numbers), None)
    if given is not None and fewest >= most:
        message = f"`{ARCHIVE_LIMITS[0]}` ({fewest}) must be less than `{ARCHIVE_LIMITS[1]}` ({most})"
        hint = "Hudi refuses to write with them; give both, as the table's writers do"
        yield Issue(Code.NOT_A_WHOLE_NUMBER, message, policy.where("hudi_options", given), hint)


def lock_options_are_locks(policy: DeclaredPolicy) -> Iterator[Issue]:
    """`writer.lock` holds lock options only."""
    for key, value in policy.declaration.writer.lock.items():
        fault = lock_option_fault(key, value)
        if fault is not None:
            where = policy.where("writer", "lock", key, at_key=True)
            yield Issue(Code.NOT_AN_OPTION, f"the option `{key[:80]}` {fault[0]}", where, fault[1])


def secrets_have_a_reference(policy: DeclaredPolicy) -> Iterator[Issue]:
    """What `hudi_options` and `writer.lock` take from the environment is not changed on the way: files keep a reference."""
    for path in (("hudi_options",), ("writer", "lock")):
        for key, message in changed_secrets(value_at(policy.values, path)):
            yield Issue(Code.CHANGED_SECRET, message, policy.where(*path, key), REFERENCE_HINT)


def writers_leave_compaction(policy: DeclaredPolicy) -> Iterator[Issue]:
    """Warns where the table's writers compact on their own, whatever the policy says."""
    kind = policy.declaration.writer.compaction
    if kind != "none":
        message = f"the table's writers compact on their own (`{kind}`), outside of this policy"
        hint = "give the writers the options that `etc compile` writes, then set `compaction: none`"
        yield Issue(Code.WRITER_COMPACTS, message, policy.where("writer", "compaction"), hint, level="warning")


def carried_files_outlive_cleaning(policy: DeclaredPolicy) -> Iterator[Issue]:
    """No carried log file is a symbolic link: Hudi's cleaner removes what it leads to (facts: carried-no-symlink)."""
    if policy.declaration.strategy.carry == "symlink":
        message = "`strategy.carry: symlink` would lose rows: Hudi's cleaner removes the file that the link leads to"
        hint = "set `carry: auto`: a hard link where the file system has them, else a copy"
        yield Issue(Code.SYMLINKS_DANGLE, message, policy.where("strategy", "carry"), hint)


def strategies_have_their_keys(policy: DeclaredPolicy) -> Iterator[Issue]:
    """No key of `strategy` that its type does not have, and none that it needs is missing."""
    declared = policy.declaration.strategy
    known = keys_of(declared.type)
    for key, name in sorted(declared.names_by_key().items()):
        if name in declared.model_fields_set and key not in ("type", *known) and getattr(declared, name) is not None:
            message = f"the strategy `{declared.type}` has no `{key}`"
            yield Issue(Code.NOT_OF_STRATEGY, message, policy.where("strategy", key, at_key=True), _hint(key, known))
    if declared.type == "partition_regex" and declared.regex is None:
        message = "`strategy.regex` is missing: `partition_regex` compacts the partitions in whose paths it is found"
        where = policy.where("strategy", "type")
        yield Issue(Code.NOT_OF_STRATEGY, message, where, "add it, for example `regex: ^2026/`")
    if declared.type == "event_time" and declared.carry and declared.granularity != "log_file":
        message = (
            f"`strategy.carry` has no meaning with `granularity: {declared.granularity}`, which carries no log file"
        )
        hint = "add `granularity: log_file`, or remove `carry`"
        yield Issue(Code.NOT_OF_STRATEGY, message, policy.where("strategy", "carry", at_key=True), hint)
    yield from _said_twice(policy)


#: By these RO is not the table as of one T: some slices hold more than others.
_INEXACT_KEYS = {"partitions": "partitions", "max_io_bytes": "max_io", "every_ms": "every", "on_close": "on_close"}


def records_are_split_alike(policy: DeclaredPolicy) -> Iterator[Issue]:
    """`granularity: record` splits the whole table at one T."""
    declared = policy.declaration.strategy
    if declared.type != "event_time" or declared.granularity != "record":
        return
    for name, key in _INEXACT_KEYS.items():
        if getattr(declared, name):
            message = (
                f"`strategy.{key}` has no meaning with `granularity: record`, which splits the whole table at one T"
            )
            hint = f"remove `{key}`, or set `granularity: log_file`"
            yield Issue(Code.NOT_OF_STRATEGY, message, policy.where("strategy", key, at_key=True), hint)


def views_have_a_cut(policy: DeclaredPolicy) -> Iterator[Issue]:
    """A view up to T is one of an RO table that is split by record."""
    strategy, sync = policy.declaration.strategy, policy.declaration.sync
    is_exact = strategy.type == "event_time" and strategy.granularity == "record"
    if sync.as_of_view is not None and (sync.ro_table is None or not is_exact):
        message = "`sync.as_of_view` shows the rows of `sync.ro_table` up to T, to which `granularity: record` cuts it"
        hint = "name the RO table and set `strategy.granularity: record`, or remove it"
        yield Issue(Code.NOT_OF_STRATEGY, message, policy.where("sync", "as_of_view", at_key=True), hint)


def boundaries_have_room(policy: DeclaredPolicy) -> Iterator[Issue]:
    """`strategy.at` says when T moves, so that no other key does; no limit of freshness ends before the next boundary."""
    declared, limits = policy.declaration.strategy, policy.declaration.freshness
    if declared.type == "event_time" and declared.keep and (declared.at is None or declared.granularity != "record"):
        message = "`strategy.keep` counts cuts, which `granularity: record` makes at the times of `at`"
        where = policy.where("strategy", "keep", at_key=True)
        yield Issue(Code.NOT_OF_STRATEGY, message, where, "add `granularity: record` and `at: 00:00 UTC`, or remove it")
    if declared.boundaries is None or declared.type != "event_time":
        return
    for name, key in (("every_ms", "every"), ("on_close", "on_close")):
        if getattr(declared, name):
            message = f"`strategy.{key}` has no meaning with `at`, which says when T moves"
            where = policy.where("strategy", key, at_key=True)
            yield Issue(Code.NOT_OF_STRATEGY, message, where, f"remove `{key}` or `at`")
    latency, longest = policy.declaration.data_latency_ms, declared.boundaries.longest_ms
    for key, name in limits.names_by_key().items():
        limit = getattr(limits, name)
        if isinstance(limit, int) and latency <= limit < latency + longest:
            message = (
                f"`freshness.{key}` is exceeded before every boundary of `strategy.at`: it is shorter than `data_latency` and "
                f"the time between two of them together ({duration_text(latency)} + {duration_text(longest)})"
            )
            hint = "raise it by the time that a run takes above these, or add times to `at`"
            yield Issue(Code.TARGET_TOO_SHORT, message, policy.where("freshness", key), hint)


def _said_twice(policy: DeclaredPolicy) -> Iterator[Issue]:
    """No option that the strategy becomes is given as one of Hudi too."""
    becomes = stock_options(policy.declaration.strategy)
    for option in filter(becomes.__contains__, policy.declaration.hudi_options):
        message = f"the option `{option}` is decided by `strategy`"
        where = policy.where("hudi_options", option, at_key=True)
        key = KEY_OF_OPTION.get(option)
        yield Issue(Code.RESERVED_OPTION, message, where, f"write `strategy.{key}`" if key else "remove it")


def _hint(key: str, known: tuple[str, ...]) -> str:
    types = ("event_time",) if key in EVENT_TIME_KEYS else tuple(name for name in STOCK if key in STOCK[name].keys)
    which = f"it has {listed(known)}" if known else "it has no other key"
    return f"remove it ({which}), or set `type` to {listed(types)}"


_ADD = "add the time between two runs and that of a run to the target"


def freshness_can_be_met(policy: DeclaredPolicy) -> Iterator[Issue]:
    """No limit of freshness is below `data_latency`: completeness never comes nearer to now than that."""
    latency, limits = policy.declaration.data_latency_ms, policy.declaration.freshness
    is_learned = policy.declaration.learned_latency is not None
    what = "data_latency.at_most" if is_learned else "data_latency"
    for key, name in limits.names_by_key().items():
        limit = getattr(limits, name)
        if isinstance(limit, int) and limit < latency:
            meaning = "can never be met" if key == "target" else "is always exceeded"
            meaning = "leaves no room for what may be learned" if is_learned else meaning
            message = f"`freshness.{key}` {meaning}: it is shorter than `{what}`"
            hint = f"the view cannot be complete for events that may still arrive; raise it or lower `{what}`"
            yield Issue(Code.TARGET_TOO_SHORT, message, policy.where("freshness", key), hint)
    yield from pace_issues(policy, policy.declaration.strategy.every_ms)
    yield from _interval_issues(policy)


def pace_issues(policy: DeclaredPolicy, every_ms: int | None) -> Iterator[Issue]:
    """What is wrong with the policy's target when a run comes every `every_ms`; None where nobody knows how often.

    A target below `data_latency` is an error whatever the interval, and no issue here.
    """
    latency_ms, target_ms = policy.declaration.data_latency_ms, policy.declaration.freshness.target_ms
    if target_ms is None or target_ms < latency_ms:
        return
    where = policy.where("freshness", "target")
    if target_ms == latency_ms:
        message = "`freshness.target` equals `data_latency`, which leaves no time to compact"
        if every_ms is None:
            yield Issue(Code.NO_TIME_TO_COMPACT, message, where, _ADD, level="warning")
        else:
            message = f"{message}: with a run every {duration_text(every_ms)} it is missed again and again"
            yield Issue(Code.TARGET_TOO_SHORT, message, where, _ADD)
    elif every_ms is not None and target_ms < latency_ms + every_ms:
        message = (
            f"`freshness.target` ({duration_text(target_ms)}) is shorter than `data_latency` and the time from run to run "
            f"together ({duration_text(latency_ms)} + {duration_text(every_ms)}): an event that arrives late can miss it"
        )
        yield Issue(Code.NO_TIME_TO_COMPACT, message, where, _ADD, level="warning")


def _interval_issues(policy: DeclaredPolicy) -> Iterator[Issue]:
    """An interval without a target decides nothing."""
    if policy.declaration.strategy.every_ms is not None and policy.declaration.freshness.target_ms is None:
        message = "`strategy.every` does nothing without `freshness.target`: every run compacts all that has arrived"
        where = policy.where("strategy", "every", at_key=True)
        hint = "say how far RO may lag behind by `freshness: {target: ...}`, or remove it"
        yield Issue(Code.INTERVAL_WITHOUT_TARGET, message, where, hint, level="warning")


def freshness_is_ordered(policy: DeclaredPolicy) -> Iterator[Issue]:
    """`warn_after` comes before `error_after`, and `error_after` not before `target`; a limit without effect is a warning."""
    errors = tuple(_errors(policy))
    yield from errors or _warning_in_vain(policy)


def _errors(policy: DeclaredPolicy) -> Iterator[Issue]:
    limits, where = policy.declaration.freshness, policy.where("freshness", "error_after")
    if limits.error_after_ms is None:
        return
    if limits.warn_after_ms is not None and limits.warn_after_ms >= limits.error_after_ms:
        message = "`freshness.error_after` must be longer than `freshness.warn_after`"
        yield Issue(Code.FRESHNESS_ORDER, message, where, "a warning comes before the error")
    if limits.target_ms is not None and limits.error_after_ms < limits.target_ms:
        message = "`freshness.error_after` must not be shorter than `freshness.target`"
        yield Issue(Code.FRESHNESS_ORDER, message, where, "an error means that the target was missed")


def _warning_in_vain(policy: DeclaredPolicy) -> Iterator[Issue]:
    """Beyond the target a table is a warning anyway, and without `error_after` an error."""
    limits = policy.declaration.freshness
    if (
        limits.warn_after_ms is None
        or limits.target_ms is None
        or limits.target_ms < policy.declaration.data_latency_ms
    ):
        return
    is_same = limits.warn_after_ms == limits.target_ms and limits.error_after_ms is not None
    if is_same or limits.warn_after_ms < limits.target_ms:
        return
    beyond = "an error, as there is no `error_after`" if limits.error_after_ms is None else "a warning"
    message = f"`freshness.warn_after` has no effect: beyond the `target` the table is {beyond}"
    hint = "make it shorter than the target, to be warned before the target is missed, or remove it"
    yield Issue(Code.LIMIT_WITHOUT_EFFECT, message, policy.where("freshness", "warn_after"), hint, level="warning")


def proofs_can_be_made(policy: DeclaredPolicy) -> Iterator[Issue]:
    """What `freshness.proof` wants is what `etc apply` verifies: the level, and for `data` all rows."""
    wanted, verify = policy.declaration.freshness.proof, policy.declaration.verify
    is_partial = verify.window_ms is not None or verify.where is not None
    is_weaker = verify.level in (("metadata",) if wanted == "logs" else ("metadata", "logs", "sample"))
    if wanted is None or not (is_weaker or (wanted == "data" and is_partial)):
        return
    proves = "some rows alone" if not is_weaker else f"level `{verify.level}`"
    message = f"`freshness.proof: {wanted}` wants more than `etc apply` verifies by this policy: {proves}"
    hint = f"the table is `unknown` until `etc verify --level {wanted}` passes; raise `verify.level`, or lower `proof`"
    yield Issue(Code.PROOF_NOT_MADE, message, policy.where("freshness", "proof"), hint, level="warning")


def partitions_can_close(policy: DeclaredPolicy) -> Iterator[Issue]:
    """A partition's length fits its pattern, and what needs partitions to close says when they do, once."""
    declared = policy.declaration
    timed = declared.partition_time
    fault = length_fault(timed.pattern, timed.length_ms) if timed is not None else None
    if timed is not None and fault is not None:
        is_given = timed.length_ms is not None and "fixed" in fault
        hint = "remove `length`" if is_given else "for example `length: 1d`"
        where = policy.where("partition_time", "from" if timed.length_ms is None else "length")
        yield Issue(Code.BAD_PARTITION_TIME, f"the length in `partition_time` does not fit: {fault}", where, hint)
    if timed is not None and declared.partition_idle_ms is not None:
        message = "`partition_time` and `partition_idle` exclude each other: each says when a partition is done"
        yield Issue(Code.NEVER_CLOSES, message, policy.where("partition_idle", at_key=True), "keep one of them")
    if declared.done is not None and timed is None and declared.partition_idle_ms is None:
        message = "`done` needs `partition_time` or `partition_idle`, which says when a partition is done"
        hint = "for example `partition_time: {from: dt=%Y-%m-%d}`"
        yield Issue(Code.NEVER_CLOSES, message, policy.where("done", at_key=True), hint)
    if declared.done is not None and declared.done.proof == "data" and declared.partition_idle_ms is not None:
        message = (
            "`done.proof: data` needs `partition_time`: rows are compared up to a time, and a quiet partition has none"
        )
        yield Issue(Code.NEVER_CLOSES, message, policy.where("done", "proof"), "set it to `logs`")
    if declared.done is not None and declared.done.rows == "until_end" and declared.partition_idle_ms is not None:
        message = "`done.rows: until_end` needs `partition_time`: a partition that is about no time has no end"
        yield Issue(Code.NEVER_CLOSES, message, policy.where("done", "rows"), "remove it")
    since = declared.done.since if declared.done is not None else None
    if since is not None and fault is None and (timed is None or timed.clock.span(since) is None):
        message = f"`done.since: {since}` is not the path of a partition as `partition_time` reads it"
        hint = "give the first partition of which events are sent, such as `dt=2026-01-01`"
        yield Issue(Code.NEVER_CLOSES, message, policy.where("done", "since"), hint)
    if declared.strategy.on_close and timed is None:
        message = "`strategy.on_close` needs `partition_time`, which says when a partition closes"
        hint = "for example `partition_time: {from: dt=%Y-%m-%d}`"
        yield Issue(Code.NEVER_CLOSES, message, policy.where("strategy", "on_close", at_key=True), hint)


_QUOTED = re.compile(r"'[^']*'")
#: A year that may be of any length, and a fraction in the same run of digits: Spark takes too many digits for the year.
_RUN_INTO_FRACTION = re.compile(r"yyy[a-zA-Z]*S")
_LETTERS = frozenset("GyMLdDEQqahkKHmsSVzOXxZ")
#: Fields of a point in time and the letters of each. Spark puts the first month, day, hour or minute where one is missing.
_FIELDS = {
    "year (`yyyy`)": "y",
    "month (`MM`; `mm` is the minute)": "MLD",
    "day (`dd`)": "dD",
    "hour (`HH`)": "HkhK",
    "minute (`mm`; `MM` is the month)": "m",
    "second (`ss`)": "sS",
}
_OPTIONAL = re.compile(r"\[[^\[\]]*\]")
_MONTHS = re.compile(r"M+|L+")
_WRONG = {"Y": "y", "u": "y", "e": "E", "w": None, "W": None, "n": "S", "N": "S", "A": "S"}


def format_fault(pattern: str, shown: str) -> str | None:
    """Why Spark cannot read times with the pattern, which messages show so; None where it looks right."""
    if "%" in pattern:
        return f"`{shown}` is a pattern of strftime, not of Spark"
    letters = [letter for letter in _QUOTED.sub("", pattern) if letter.isalpha()]
    for letter in letters:
        if letter not in _LETTERS:
            better = _WRONG.get(letter)
            return f"`{letter}` in `{shown}` is not a letter of Spark's patterns" + (
                f"; `{better}` may be meant" if better else ""
            )
    fault = _missing_field(frozenset(letters)) or _misread_letter(_QUOTED.sub("", pattern))
    if fault is not None:
        return f"`{shown}` {fault}"
    if _RUN_INTO_FRACTION.search(pattern):
        return (
            f"Spark reads nothing with `{shown}`: the fraction of a second (`S`) must be separated from the date, "
            "as in `yyyyMMddHHmmss.SSS`"
        )
    return None


def _missing_field(letters: frozenset[str]) -> str | None:
    """Which field is missing before one that is there."""
    found = [not letters.isdisjoint(of_field) for of_field in _FIELDS.values()]
    for place, name in enumerate(_FIELDS):
        if not found[place] and (place == 0 or any(found[place:])):
            return f"has no {name}, so it is not a point in time"
    return None


def _misread_letter(pattern: str) -> str | None:
    """Which letter means something else than it may seem to, in a pattern without quoted text."""
    if "a" not in pattern:
        for letter in "hK":
            if letter in pattern:
                return f"has an hour of twelve (`{letter}`) and no half of the day (`a`); `HH` is one of twenty-four"
    if "D" in pattern and _MONTHS.search(pattern):
        return "has a month and a day of the year (`D`); `dd` is the day of the month"
    if len(_MONTHS.findall(_OPTIONAL.sub("", pattern))) > 1:
        return "has the month twice; `mm` is the minute"
    return None
