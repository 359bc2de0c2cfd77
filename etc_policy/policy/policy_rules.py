"""What must hold between the values of one policy; each rule yields its issues and raises nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator

from etc_policy.codes.registry import Code
from etc_policy.errors import Issue
from etc_policy.policy.formats import format_fault
from etc_policy.policy.project import DeclaredPolicy, value_at
from etc_policy.policy.reserved_options import (
    ARCHIVE_LIMITS,
    WHOLE_NUMBER_OPTIONS,
    lock_option_fault,
    option_fault,
)
from etc_policy.policy.secrets import REFERENCE_HINT, changed_secrets
from etc_policy.policy.stock_options import EVENT_TIME_KEYS, KEY_OF_OPTION, STOCK, keys_of, stock_options
from etc_policy.policy.suggestions import listed


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
    for key in policy.declaration.writer.lock:
        fault = lock_option_fault(key)
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
    """No carried log file is a symbolic link: Hudi's cleaner removes what it leads to (FACTS 8)."""
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
    yield from _said_twice(policy)


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
