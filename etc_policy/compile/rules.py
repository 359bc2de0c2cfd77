"""What must hold between values, policies and suites; each rule yields its issues and raises nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from etc_policy.codes.registry import Code
from etc_policy.compile.formats import format_fault
from etc_policy.compile.freshness_rules import order_issues
from etc_policy.compile.locations import is_catalog_name, location_fault, location_identity, resolve_location
from etc_policy.compile.lock_rules import lock_issues
from etc_policy.compile.pace_rules import interval_issues, pace_issues
from etc_policy.compile.reserved_options import (
    ARCHIVE_LIMITS,
    WHOLE_NUMBER_OPTIONS,
    lock_option_fault,
    option_fault,
    spark_conf_fault,
)
from etc_policy.compile.strategy_rules import strategy_issues
from etc_policy.declare.project import DeclaredPolicy, Places
from etc_policy.declare.secrets import REFERENCE_HINT, changed_secrets
from etc_policy.declare.suggestions import did_you_mean
from etc_policy.declare.targets import Target
from etc_policy.errors import Issue
from etc_policy.plain_text import without_passwords


@dataclass(frozen=True, slots=True)
class CheckedProject:
    """What a rule looks at: every policy that is right by itself, the suites that exist, and the target with its places.

    `real_path` is a local path without links.
    """

    table_root: str
    policies: tuple[DeclaredPolicy, ...]
    suites: frozenset[str]
    target: Target = field(default_factory=Target)
    target_places: Places | None = None
    real_path: Callable[[str], str] = str


Rule: TypeAlias = Callable[[CheckedProject], Iterator[Issue]]


def names_are_unique(project: CheckedProject) -> Iterator[Issue]:
    """No two policies of the project have one name."""
    first: dict[str, DeclaredPolicy] = {}
    for policy in project.policies:
        name = policy.declaration.name
        if name in first:
            message = f"two policies are named `{name}`, the first at {first[name].source}"
            yield Issue(Code.DUPLICATE_POLICY, message, policy.where("name"), "rename one of them")
        first.setdefault(name, policy)


def tables_have_one_policy(project: CheckedProject) -> Iterator[Issue]:
    """No two enabled policies govern one table, however it is written."""
    first: dict[str, DeclaredPolicy] = {}
    for policy in project.policies:
        if not policy.declaration.enabled:
            continue
        identity = location_identity(resolve_location(policy.declaration.table, project.table_root))
        is_path = identity.startswith("/") and location_fault(policy.declaration.table) is None
        real = project.real_path(identity) if is_path else identity
        owner = first.setdefault(real, policy)
        if owner is not policy:
            message = f"the table `{policy.shown('table')}` already has the policy `{owner.declaration.name}`"
            hint = f"remove one, or set `enabled: false` in one; the first is at {owner.source}"
            yield Issue(Code.SHARED_TABLE, message, policy.where("table"), hint)


def tables_are_locations(project: CheckedProject) -> Iterator[Issue]:
    """Every `table` is a path, a URI or `db.table`."""
    for policy in project.policies:
        fault = location_fault(policy.declaration.table)
        if fault is not None:
            message = f"the table `{policy.shown('table')}` {fault[0]}"
            yield Issue(Code.BAD_TABLE, message, policy.where("table"), fault[1])
    root, places = project.target.table_root, project.target_places
    fault = location_fault(f"{root}/x") if root else None  # a root need not name a folder
    if root and fault is not None:
        where = places.where(("table_root",)) if places else None
        yield Issue(
            Code.BAD_TABLE, f"the target's `table_root` `{without_passwords(root)[:60]}` {fault[0]}", where, fault[1]
        )


def ro_tables_are_catalog_names(project: CheckedProject) -> Iterator[Issue]:
    """Every `sync.ro_table` is `db.table`, and no two enabled policies write the properties of one."""
    first: dict[str, DeclaredPolicy] = {}
    for policy in project.policies:
        ro_table = policy.declaration.sync.ro_table
        if ro_table is None:
            continue
        where, shown = policy.where("sync", "ro_table"), policy.shown("sync", "ro_table")
        if not is_catalog_name(ro_table):
            hint = "name the table as SQL does, for example `lake.orders_ro`"
            yield Issue(Code.BAD_RO_TABLE, f"`{shown}` is not `db.table` of the catalog", where, hint)
        elif policy.declaration.enabled:
            owner = first.setdefault(location_identity(ro_table), policy)
            if owner is not policy:
                message = f"the policy `{owner.declaration.name}` syncs to `{shown}` too"
                hint = f"each policy has an RO table of its own; the first is at {owner.source}"
                yield Issue(Code.BAD_RO_TABLE, message, where, hint)


def freshness_can_be_met(project: CheckedProject) -> Iterator[Issue]:
    """No limit of freshness is below `data_latency`: completeness never comes nearer to now than that."""
    for policy in project.policies:
        latency, limits = policy.declaration.data_latency, policy.declaration.freshness
        for key, limit in limits:
            if isinstance(limit, int) and limit < latency:
                meaning = "can never be met" if key == "target" else "is always exceeded"
                message = f"`freshness.{key}` {meaning}: it is shorter than `data_latency`"
                hint = "the view cannot be complete for events that may still arrive; raise it or lower `data_latency`"
                yield Issue(Code.TARGET_TOO_SHORT, message, policy.where("freshness", key), hint)
        yield from pace_issues(policy, policy.declaration.strategy.every)
        yield from interval_issues(policy)


def freshness_is_ordered(project: CheckedProject) -> Iterator[Issue]:
    """`warn_after` comes before `error_after`, and `error_after` not before `target`."""
    for policy in project.policies:
        yield from order_issues(policy)


def proofs_can_be_made(project: CheckedProject) -> Iterator[Issue]:
    """What `freshness.proof` wants is what `etc apply` verifies: the level, and for `data` all rows."""
    for policy in project.policies:
        wanted, verify = policy.declaration.freshness.proof, policy.declaration.verify
        is_partial = verify.window is not None or verify.where is not None
        is_weaker = verify.level in (("metadata",) if wanted == "logs" else ("metadata", "logs", "sample"))
        if wanted is None or not (is_weaker or (wanted == "data" and is_partial)):
            continue
        proves = "some rows alone" if not is_weaker else f"level `{verify.level}`"
        message = f"`freshness.proof: {wanted}` wants more than `etc apply` verifies by this policy: {proves}"
        hint = (
            f"the table is `unknown` until `etc verify --level {wanted}` passes; raise `verify.level`, or lower `proof`"
        )
        yield Issue(Code.PROOF_NOT_MADE, message, policy.where("freshness", "proof"), hint, level="warning")


def event_time_is_readable(project: CheckedProject) -> Iterator[Issue]:
    """An event-time column has a unit (integers) or a pattern (text), not both, and the pattern is Spark's."""
    for policy in project.policies:
        column = policy.declaration.event_time_column
        if column.unit is not None and column.format is not None:
            message = "`unit` and `format` exclude each other: `unit` is for integer columns, `format` for text"
            where = policy.where("event_time_column", "format", at_key=True)
            yield Issue(Code.UNIT_AND_FORMAT, message, where, "keep the one that fits the column")
        shown = policy.shown("event_time_column", "format")
        fault = format_fault(column.format, shown) if column.format is not None else None
        if fault is not None:
            hint = "Spark patterns look like `yyyy-MM-dd HH:mm:ss`"
            yield Issue(Code.BAD_FORMAT, fault, policy.where("event_time_column", "format"), hint)


def hudi_options_are_free(project: CheckedProject) -> Iterator[Issue]:
    """`hudi_options` holds options of Hudi only, and none that the policy or the table decides."""
    for policy in project.policies:
        for key in policy.declaration.hudi_options:
            fault = option_fault(key)
            if fault is not None:
                where = policy.where("hudi_options", key, at_key=True)
                yield Issue(fault[0], f"the option `{key[:80]}` {fault[1]}", where, fault[2])


def planned_options_are_numbers(project: CheckedProject) -> Iterator[Issue]:
    """The Hudi options that planning reads are whole numbers, and archiving keeps fewer commits than it begins at."""
    for policy in project.policies:
        options, numbers = policy.declaration.hudi_options, dict[str, int]()
        for key in filter(options.__contains__, WHOLE_NUMBER_OPTIONS):
            value = options[key]
            if isinstance(value, bool) or not re.fullmatch(r"[0-9]{1,15}", str(value).strip()):
                message = f"the option `{key}` must be a whole number, not `{str(value).lower()[:60]}`"
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


def lock_options_are_locks(project: CheckedProject) -> Iterator[Issue]:
    """`writer.lock` holds lock options only."""
    for policy in project.policies:
        for key in policy.declaration.writer.lock:
            fault = lock_option_fault(key)
            if fault is not None:
                where = policy.where("writer", "lock", key, at_key=True)
                yield Issue(Code.NOT_AN_OPTION, f"the option `{key[:80]}` {fault[0]}", where, fault[1])


def target_options_are_free(project: CheckedProject) -> Iterator[Issue]:
    """A target's lock holds lock options only, and its settings of Spark none that a policy may not set either."""
    places = project.target_places
    if places is None:
        return
    for key in project.target.lock:
        fault = lock_option_fault(key)
        if fault is not None:
            where = places.where(("lock", key), at_key=True)
            yield Issue(Code.NOT_AN_OPTION, f"the option `{key[:80]}` {fault[0]}", where, fault[1])
    for key in project.target.spark_confs:
        found = spark_conf_fault(key)
        if found is not None:
            where = places.where(("spark", "confs", key), at_key=True)
            yield Issue(found[0], f"the option `{key[:80]}` {found[1]}", where, found[2])


def locks_protect_the_table(project: CheckedProject) -> Iterator[Issue]:
    """Warns of locks that keep nobody away, or that a writer which dies leaves behind for ever."""
    for policy in project.policies:
        yield from lock_issues(policy, project.target.lock)


def secrets_have_a_reference(project: CheckedProject) -> Iterator[Issue]:
    """What `hudi_options` and `writer.lock` take from the environment is not changed on the way: files keep a reference."""
    for policy in project.policies:
        writer = policy.values.get("writer")
        lock = writer.get("lock") if isinstance(writer, dict) else None
        for path, options in ((("hudi_options",), policy.values.get("hudi_options")), (("writer", "lock"), lock)):
            for key, message in changed_secrets(options):
                yield Issue(Code.CHANGED_SECRET, message, policy.where(*path, key), REFERENCE_HINT)


def suites_exist(project: CheckedProject) -> Iterator[Issue]:
    """Every policy names a suite that there is."""
    for policy in project.policies:
        suite = policy.declaration.verify.suite
        if suite not in project.suites:
            known = ", ".join(f"`{name}`" for name in sorted(project.suites))
            hint = did_you_mean(suite, project.suites) or f"the suites are {known}; own ones go to `suites/<name>.yml`"
            message = f"there is no suite `{policy.shown('verify', 'suite')}`"
            yield Issue(Code.UNKNOWN_SUITE, message, policy.where("verify", "suite"), hint)


def writers_leave_compaction(project: CheckedProject) -> Iterator[Issue]:
    """Warns where the table's writers compact on their own, whatever the policy says."""
    for policy in project.policies:
        kind = policy.declaration.writer.compaction
        if kind != "none":
            message = f"the table's writers compact on their own (`{kind}`), outside of this policy"
            hint = "give the writers the options that `etc compile` writes, then set `compaction: none`"
            yield Issue(Code.WRITER_COMPACTS, message, policy.where("writer", "compaction"), hint, level="warning")


def carried_files_outlive_cleaning(project: CheckedProject) -> Iterator[Issue]:
    """No carried log file is a symbolic link: Hudi's cleaner removes what it leads to (FACTS 8)."""
    for policy in project.policies:
        if policy.declaration.strategy.carry == "symlink":
            message = (
                "`strategy.carry: symlink` would lose rows: Hudi's cleaner removes the file that the link leads to"
            )
            hint = "set `carry: auto`: a hard link where the file system has them, else a copy"
            yield Issue(Code.SYMLINKS_DANGLE, message, policy.where("strategy", "carry"), hint)


def strategies_have_their_keys(project: CheckedProject) -> Iterator[Issue]:
    """No key of `strategy` that its type does not have, and none that it needs is missing."""
    for policy in project.policies:
        yield from strategy_issues(policy)


PROJECT_RULES: tuple[Rule, ...] = (
    names_are_unique,
    tables_have_one_policy,
    tables_are_locations,
    ro_tables_are_catalog_names,
    freshness_can_be_met,
    freshness_is_ordered,
    proofs_can_be_made,
    event_time_is_readable,
    hudi_options_are_free,
    planned_options_are_numbers,
    lock_options_are_locks,
    target_options_are_free,
    locks_protect_the_table,
    secrets_have_a_reference,
    suites_exist,
    writers_leave_compaction,
    carried_files_outlive_cleaning,
    strategies_have_their_keys,
)
