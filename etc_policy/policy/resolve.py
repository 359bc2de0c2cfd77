"""From declared policies to the manifest: what must hold between values, then defaults, absolute paths and options as text.

Each rule yields its issues and raises nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias, TypeVar

from etc_policy.errors import EtcError, Issue, PolicyError, let_go
from etc_policy.errors.codes import Code
from etc_policy.errors.plain_text import without_passwords
from etc_policy.policy.hudi_options import (
    ARCHIVE_LIMITS,
    EVENT_TIME_KEYS,
    EXPIRY,
    KEY_OF_OPTION,
    PROVIDER,
    STOCK,
    WHOLE_NUMBER_OPTIONS,
    expiry_minutes,
    is_file_lock,
    is_in_process,
    keys_of,
    lock_option_fault,
    option_fault,
    spark_conf_fault,
    stock_options,
)
from etc_policy.policy.locations import is_catalog_name, location_fault, location_identity, resolve_location
from etc_policy.policy.manifest import Manifest, Policy, digest
from etc_policy.policy.project import DeclaredPolicy, ProjectFiles, RefusedFolder
from etc_policy.policy.project_schema import Target
from etc_policy.policy.quantities import duration_text
from etc_policy.policy.schema import Done, Freshness, PolicyDeclaration
from etc_policy.policy.secrets import REFERENCE_HINT, changed_secrets
from etc_policy.policy.suggestions import did_you_mean, listed
from etc_policy.policy.times import length_fault
from etc_policy.policy.yaml_marks import Places, value_at


@dataclass(frozen=True, slots=True)
class CheckedProject:
    """What a rule looks at: every policy that is right by itself, and the suites that exist.

    `declared` are policies as files say them, those of namespaces among them, and `policies` those of single tables.
    `real_path` is a local path without links.
    """

    table_root: str
    policies: tuple[DeclaredPolicy, ...]
    declared: tuple[DeclaredPolicy, ...]
    target: Target
    target_places: Places | None
    suites: frozenset[str]
    real_path: Callable[[str], str] = str


_One = TypeVar("_One")
Rule: TypeAlias = Callable[[CheckedProject], Iterator[Issue]]
#: What to do where one entry makes several policies that are alike.
_EACH = "`for_each` makes a policy for each item: write `{{ each }}`, or a key of it, into this value"


def names_are_unique(project: CheckedProject) -> Iterator[Issue]:
    """No two policies of the project have one name."""
    first: dict[str, DeclaredPolicy] = {}
    for policy in project.policies:
        name = policy.declaration.name
        owner = first.setdefault(name, policy)
        if owner is not policy:
            message = f"two policies are named `{policy.title}`, the first at {owner.source}"
            hint = _EACH if policy.source == owner.source else "rename one of them"
            yield policy.issue(Code.DUPLICATE_POLICY, message, hint, "name")


def tables_have_one_policy(project: CheckedProject) -> Iterator[Issue]:
    """No two enabled policies govern one table, however it is written."""
    first: dict[str, DeclaredPolicy] = {}
    for policy in project.policies:
        if not policy.declaration.enabled:
            continue
        owner = first.setdefault(
            _real_identity(policy.declaration.table, project.table_root, project.real_path), policy
        )
        if owner is not policy:
            message = f"the table `{policy.shown('table')}` already has the policy `{owner.title}`"
            hint = f"remove one, or set `enabled: false` in one; the first is at {owner.source}"
            yield policy.issue(Code.SHARED_TABLE, message, _EACH if policy.source == owner.source else hint, "table")


def _real_identity(table: str, root: str, real_path: Callable[[str], str]) -> str:
    """The same text for every way of writing a table, through links too."""
    identity = location_identity(resolve_location(table, root))
    return real_path(identity) if identity.startswith("/") and location_fault(table) is None else identity


@dataclass(frozen=True, slots=True)
class _Claims:
    """What policies that a glob of `for_each` has found may share with no other one."""

    root: str
    real_path: Callable[[str], str]
    worked_on_since: Callable[[str], int | None]

    def of(self, policy: DeclaredPolicy, key: str) -> str | None:
        """What the policy claims by a key, the same however it is written."""
        if key == "name":
            return policy.declaration.name
        if not policy.declaration.enabled:
            return None
        ro_table = policy.declaration.sync.ro_table
        return self._real(policy) if key == "table" else ro_table and location_identity(ro_table)

    def owner(self, group: Sequence[DeclaredPolicy], key: str) -> DeclaredPolicy | None:
        """Which of the policies that claim the same keeps it; None where that is not known."""
        if (by_hand := next((one for one in group if one.folder is None), None)) is not None:
            return by_hand
        if key != "table":
            return first_worked_on([(self._place(one), one) for one in group], self.worked_on_since)
        first = [one for one in group if location_identity(self._place(one)) == self._real(one)]
        return first[0] if len(first) == 1 else None

    def _place(self, policy: DeclaredPolicy) -> str:
        return resolve_location(policy.declaration.table, self.root)

    def _real(self, policy: DeclaredPolicy) -> str:
        return _real_identity(policy.declaration.table, self.root, self.real_path)


def first_worked_on(places: Iterable[tuple[str, _One]], worked_on_since: Callable[[str], int | None]) -> _One | None:
    """The one whose table etc worked on first, of several with the place of each; None where that is not known."""
    try:
        since = [(begun, one) for place, one in places if (begun := worked_on_since(place)) is not None]
    except EtcError as error:  # a table that may not be reached, or does not answer, may be the first
        let_go(error)
        return None
    earliest = min((begun for begun, _ in since), default=None)
    first = [one for begun, one in since if begun == earliest]
    return first[0] if len(first) == 1 else None


def without_clashes(
    files: ProjectFiles, real_path: Callable[[str], str], worked_on_since: Callable[[str], int | None]
) -> ProjectFiles:
    """The files without policies of found folders whose table, name or RO table is another's too, so that they stop nobody.

    A policy that was written by hand keeps these, else the folder that is no link, else the table that etc worked on first.
    """
    claims = _Claims(table_root(files.target, files.project_dir), real_path, worked_on_since)
    kept, refused = list(files.policies), list(files.refused)
    keys = {("table",): Code.SHARED_TABLE, ("name",): Code.DUPLICATE_POLICY, ("sync", "ro_table"): Code.BAD_RO_TABLE}
    for path, code in keys.items() if any(one.folder is not None for one in kept) else ():
        groups = defaultdict[str | None, list[DeclaredPolicy]](list)
        for policy in kept:
            groups[claims.of(policy, path[-1])].append(policy)
        gone = set[int]()
        for group in (group for value, group in groups.items() if value is not None and len(group) > 1):
            owner = claims.owner(group, path[-1])
            for one in (one for one in group if one.folder is not None and one is not owner):
                gone.add(id(one))
                if owner is not None and path == ("table",):
                    continue  # it is that table's policy
                other = owner or next(other for other in group if other is not one)
                whose = f"`{other.title}` at {other.source}" if other.folder is None else f"`{other.folder}`"
                issue = one.issue(code, f"its `{path[-1]}` is that of {whose} too", _EACH, *path)
                refused.append(RefusedFolder(str(one.folder), issue, one.places))
        kept = [one for one in kept if id(one) not in gone]
    return replace(files, policies=tuple(kept), refused=tuple(refused))


def tables_are_locations(project: CheckedProject) -> Iterator[Issue]:
    """Every `table` is a path, a URI or `db.table`."""
    for policy in project.declared:
        fault = location_fault(policy.declaration.table, is_hidden=policy.is_hidden("table"))
        if fault is not None:
            yield policy.issue(Code.BAD_TABLE, f"the table `{policy.shown('table')}` {fault[0]}", fault[1], "table")
    root, places = project.target.table_root, project.target_places
    is_hidden = project.target.has_hidden_root
    fault = location_fault(f"{root}/x", is_hidden=is_hidden) if root else None  # a root need not name a folder
    if root and fault is not None:
        shown = "" if is_hidden else f" `{without_passwords(root)[:60]}`"
        message = f"the target's `table_root`{shown} {fault[0]}"
        yield Issue(Code.BAD_TABLE, message, places.where(("table_root",)) if places else None, fault[1])


def ro_tables_are_catalog_names(project: CheckedProject) -> Iterator[Issue]:
    """Every `sync.ro_table` is `db.table`, and no two enabled policies write the properties of one."""
    first: dict[str, DeclaredPolicy] = {}
    for policy in project.policies:
        ro_table = policy.declaration.sync.ro_table
        if ro_table is None:
            continue
        shown = policy.shown("sync", "ro_table")
        if not is_catalog_name(ro_table):
            hint = "name the table as SQL does, for example `lake.orders_ro`"
            yield policy.issue(
                Code.BAD_RO_TABLE, f"`{shown}` is not `db.table` of the catalog", hint, "sync", "ro_table"
            )
        elif policy.declaration.enabled:
            owner = first.setdefault(location_identity(ro_table), policy)
            if owner is not policy:
                message = f"the policy `{owner.title}` syncs to `{shown}` too"
                hint = f"each policy has an RO table of its own; the first is at {owner.source}"
                yield policy.issue(Code.BAD_RO_TABLE, message, hint, "sync", "ro_table")


def target_options_are_free(project: CheckedProject) -> Iterator[Issue]:
    """A target's lock holds lock options only, and its settings of Spark none that a policy may not set either."""
    places, target = project.target_places, project.target
    if places is None:
        return
    for key, value in target.lock.items():
        if (fault := lock_option_fault(key, value)) is not None:
            where = places.where(("lock", key), at_key=True)
            yield Issue(Code.NOT_AN_OPTION, f"the option `{key[:80]}` {fault[0]}", where, fault[1])
    for key in target.spark_confs:
        if (found := spark_conf_fault(key)) is not None:
            where = places.where(("spark", "confs", key), at_key=True)
            yield Issue(found[0], f"the option `{key[:80]}` {found[1]}", where, found[2])


def locks_protect_the_table(project: CheckedProject) -> Iterator[Issue]:
    """Warns of locks that keep nobody away, or that a writer which dies leaves behind for ever."""
    for policy in project.declared:
        own = policy.declaration.writer.lock
        lock, keys = own or project.target.lock, ("writer", "lock", PROVIDER) if own else ("name",)
        if is_file_lock(lock) and not expiry_minutes(lock):
            message = "the lock file of the table's writers never expires: one that dies while it holds the lock stops all others"
            hint = f"give the writers, and this lock, `{EXPIRY}: 5` (minutes, longer than any commit takes)"
            yield policy.issue(Code.LOCK_WITHOUT_EXPIRY, message, hint, *keys, level="warning")
        if is_in_process(lock):
            message = "the lock of the table's writers is one inside a single Java process: no other writer and no `etc` sees it"
            hint = "declare the lock that all writers take (ZooKeeper, DynamoDB, Hive metastore, file system), or none"
            yield policy.issue(Code.LOCK_IN_PROCESS, message, hint, *keys, level="warning")


def suites_exist(project: CheckedProject) -> Iterator[Issue]:
    """Every policy names a suite that there is."""
    for policy in project.declared:
        suite = policy.declaration.verify.suite
        if suite not in project.suites:
            known = ", ".join(f"`{name}`" for name in sorted(project.suites))
            hint = did_you_mean(suite, project.suites) or f"the suites are {known}; own ones go to `suites/<name>.yml`"
            message = f"there is no suite `{policy.shown('verify', 'suite')}`"
            yield policy.issue(Code.UNKNOWN_SUITE, message, hint, "verify", "suite")


def event_time_is_readable(policy: DeclaredPolicy) -> Iterator[Issue]:
    """An event-time column has a unit (integers) or a pattern (text), not both, and the pattern is Spark's."""
    column = policy.declaration.event_time
    if column.unit is not None and column.format is not None:
        message = "`unit` and `format` exclude each other: `unit` is for integer columns, `format` for text"
        hint = "keep the one that fits the column"
        yield policy.issue(Code.UNIT_AND_FORMAT, message, hint, "event_time_column", "format", at_key=True)
    if column.format is None:
        return
    if (fault := format_fault(column.format, policy.shown("event_time_column", "format"))) is not None:
        hint = "Spark patterns look like `yyyy-MM-dd HH:mm:ss`"
        yield policy.issue(Code.BAD_FORMAT, fault, hint, "event_time_column", "format")


def hudi_options_are_free(policy: DeclaredPolicy) -> Iterator[Issue]:
    """`hudi_options` holds options of Hudi only, and none that the policy or the table decides."""
    for key in policy.declaration.hudi_options:
        if (fault := option_fault(key)) is not None:
            code, reason, hint = fault
            yield policy.issue(code, f"the option `{key[:80]}` {reason}", hint, "hudi_options", key, at_key=True)


def planned_options_are_numbers(policy: DeclaredPolicy) -> Iterator[Issue]:
    """The Hudi options that planning reads are whole numbers, and archiving keeps fewer commits than it begins at."""
    options, numbers = policy.declaration.hudi_options, dict[str, int]()
    for key in filter(options.__contains__, WHOLE_NUMBER_OPTIONS):
        value = options[key]
        if re.fullmatch(r"[0-9]{1,15}", value.strip()):
            numbers[key] = int(value)
            continue
        shown = policy.shown("hudi_options", key) if policy.is_hidden("hudi_options", key) else value[:60]
        message = f"the option `{key}` must be a whole number, not `{shown}`"
        hint = f"planning reads it; Hudi's default is {WHOLE_NUMBER_OPTIONS[key]}"
        yield policy.issue(Code.NOT_A_WHOLE_NUMBER, message, hint, "hudi_options", key)
    fewest, most = (numbers.get(key, WHOLE_NUMBER_OPTIONS[key]) for key in ARCHIVE_LIMITS)
    given = next((key for key in ARCHIVE_LIMITS if key in numbers), None)
    if given is not None and fewest >= most:
        message = f"`{ARCHIVE_LIMITS[0]}` ({fewest}) must be less than `{ARCHIVE_LIMITS[1]}` ({most})"
        hint = "Hudi refuses to write with them; give both, as the table's writers do"
        yield policy.issue(Code.NOT_A_WHOLE_NUMBER, message, hint, "hudi_options", given)


def lock_options_are_locks(policy: DeclaredPolicy) -> Iterator[Issue]:
    """`writer.lock` holds lock options only."""
    for key, value in policy.declaration.writer.lock.items():
        if (fault := lock_option_fault(key, value)) is not None:
            message = f"the option `{key[:80]}` {fault[0]}"
            yield policy.issue(Code.NOT_AN_OPTION, message, fault[1], "writer", "lock", key, at_key=True)


def secrets_have_a_reference(policy: DeclaredPolicy) -> Iterator[Issue]:
    """What `hudi_options` and `writer.lock` take from the environment is not changed on the way: files keep a reference."""
    for path in (("hudi_options",), ("writer", "lock")):
        for key, message in changed_secrets(value_at(policy.values, path)):
            yield policy.issue(Code.CHANGED_SECRET, message, REFERENCE_HINT, *path, key)


def writers_leave_compaction(policy: DeclaredPolicy) -> Iterator[Issue]:
    """Warns where the table's writers compact on their own, whatever the policy says."""
    kind = policy.declaration.writer.compaction
    if kind != "none":
        message = f"the table's writers compact on their own (`{kind}`), outside of this policy"
        hint = "give the writers the options that `etc compile` writes, then set `compaction: none`"
        yield policy.issue(Code.WRITER_COMPACTS, message, hint, "writer", "compaction", level="warning")


def carried_files_outlive_cleaning(policy: DeclaredPolicy) -> Iterator[Issue]:
    """No carried log file is a symbolic link: Hudi's cleaner removes what it leads to (facts: carried-no-symlink)."""
    if policy.declaration.strategy.carry == "symlink":
        message = "`strategy.carry: symlink` would lose rows: Hudi's cleaner removes the file that the link leads to"
        hint = "set `carry: auto`: a hard link where the file system has them, else a copy"
        yield policy.issue(Code.SYMLINKS_DANGLE, message, hint, "strategy", "carry")


def strategies_have_their_keys(policy: DeclaredPolicy) -> Iterator[Issue]:
    """No key of `strategy` that its type does not have, none that it needs is missing, and none is an option of Hudi too."""
    declared, known = policy.declaration.strategy, keys_of(policy.declaration.strategy.type)
    for key, name in sorted(declared.names_by_key().items()):
        if name in declared.model_fields_set and key not in ("type", *known) and getattr(declared, name) is not None:
            types = (
                ("event_time",) if key in EVENT_TIME_KEYS else tuple(name for name in STOCK if key in STOCK[name].keys)
            )
            which = f"it has {listed(known)}" if known else "it has no other key"
            message, hint = (
                f"the strategy `{declared.type}` has no `{key}`",
                f"remove it ({which}), or set `type` to {listed(types)}",
            )
            yield policy.issue(Code.NOT_OF_STRATEGY, message, hint, "strategy", key, at_key=True)
    if declared.type == "partition_regex" and declared.regex is None:
        message = "`strategy.regex` is missing: `partition_regex` compacts the partitions in whose paths it is found"
        yield policy.issue(Code.NOT_OF_STRATEGY, message, "add it, for example `regex: ^2026/`", "strategy", "type")
    if declared.type == "event_time" and declared.carry and declared.granularity != "log_file":
        message = (
            f"`strategy.carry` has no meaning with `granularity: {declared.granularity}`, which carries no log file"
        )
        hint = "add `granularity: log_file`, or remove `carry`"
        yield policy.issue(Code.NOT_OF_STRATEGY, message, hint, "strategy", "carry", at_key=True)
    becomes = stock_options(declared)
    for option in filter(becomes.__contains__, policy.declaration.hudi_options):
        instead = KEY_OF_OPTION.get(option)
        message, hint = (
            f"the option `{option}` is decided by `strategy`",
            f"write `strategy.{instead}`" if instead else "remove it",
        )
        yield policy.issue(Code.RESERVED_OPTION, message, hint, "hudi_options", option, at_key=True)


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
            yield policy.issue(Code.NOT_OF_STRATEGY, message, hint, "strategy", key, at_key=True)


def views_have_a_cut(policy: DeclaredPolicy) -> Iterator[Issue]:
    """A view up to T is one of an RO table that is split by record."""
    strategy, sync = policy.declaration.strategy, policy.declaration.sync
    is_exact = strategy.type == "event_time" and strategy.granularity == "record"
    if sync.as_of_view is not None and (sync.ro_table is None or not is_exact):
        message = "`sync.as_of_view` shows the rows of `sync.ro_table` up to T, to which `granularity: record` cuts it"
        hint = "name the RO table and set `strategy.granularity: record`, or remove it"
        yield policy.issue(Code.NOT_OF_STRATEGY, message, hint, "sync", "as_of_view", at_key=True)


def boundaries_have_room(policy: DeclaredPolicy) -> Iterator[Issue]:
    """`strategy.at` says when T moves, so that no other key does; no limit of freshness ends before the next boundary."""
    declared, limits = policy.declaration.strategy, policy.declaration.freshness
    if declared.type == "event_time" and declared.keep and (declared.at is None or declared.granularity != "record"):
        message = "`strategy.keep` counts cuts, which `granularity: record` makes at the times of `at`"
        hint = "add `granularity: record` and `at: 00:00 UTC`, or remove it"
        yield policy.issue(Code.NOT_OF_STRATEGY, message, hint, "strategy", "keep", at_key=True)
    if declared.boundaries is None or declared.type != "event_time":
        return
    for key, value in (("every", declared.every_ms), ("on_close", declared.on_close)):
        if value:
            message = f"`strategy.{key}` has no meaning with `at`, which says when T moves"
            yield policy.issue(Code.NOT_OF_STRATEGY, message, f"remove `{key}` or `at`", "strategy", key, at_key=True)
    latency, longest = policy.declaration.data_latency_ms, declared.boundaries.longest_ms
    for key, limit in _limits(limits).items():
        if latency <= limit < latency + longest:
            message = (
                f"`freshness.{key}` is exceeded before every boundary of `strategy.at`: it is shorter than `data_latency` and "
                f"the time between two of them together ({duration_text(latency)} + {duration_text(longest)})"
            )
            hint = "raise it by the time that a run takes above these, or add times to `at`"
            yield policy.issue(Code.TARGET_TOO_SHORT, message, hint, "freshness", key)


def _limits(freshness: Freshness) -> dict[str, int]:
    """The limits that are given, by their keys."""
    limits = {
        "target": freshness.target_ms,
        "warn_after": freshness.warn_after_ms,
        "error_after": freshness.error_after_ms,
    }
    return {key: limit for key, limit in limits.items() if limit is not None}


_ADD = "add the time between two runs and that of a run to the target"


def freshness_can_be_met(policy: DeclaredPolicy) -> Iterator[Issue]:
    """No limit of freshness is below `data_latency`: completeness never comes nearer to now than that."""
    declared = policy.declaration
    is_learned, every_ms = declared.learned_latency is not None, declared.strategy.every_ms
    what = "data_latency.at_most" if is_learned else "data_latency"
    for key, limit in _limits(declared.freshness).items():
        if limit < declared.data_latency_ms:
            meaning = "can never be met" if key == "target" else "is always exceeded"
            meaning = "leaves no room for what may be learned" if is_learned else meaning
            message = f"`freshness.{key}` {meaning}: it is shorter than `{what}`"
            hint = f"the view cannot be complete for events that may still arrive; raise it or lower `{what}`"
            yield policy.issue(Code.TARGET_TOO_SHORT, message, hint, "freshness", key)
    yield from pace_issues(policy, every_ms)
    if every_ms is not None and declared.freshness.target_ms is None:
        message = "`strategy.every` does nothing without `freshness.target`: every run compacts all that has arrived"
        hint = "say how far RO may lag behind by `freshness: {target: ...}`, or remove it"
        yield policy.issue(
            Code.INTERVAL_WITHOUT_TARGET, message, hint, "strategy", "every", at_key=True, level="warning"
        )


def pace_issues(policy: DeclaredPolicy, every_ms: int | None) -> Iterator[Issue]:
    """What is wrong with the policy's target when a run comes every `every_ms`; None where nobody knows how often.

    A target below `data_latency` is an error whatever the interval, and no issue here.
    """
    latency_ms, target_ms = policy.declaration.data_latency_ms, policy.declaration.freshness.target_ms
    if target_ms is None or target_ms < latency_ms:
        return
    if target_ms == latency_ms:
        message = "`freshness.target` equals `data_latency`, which leaves no time to compact"
        if every_ms is None:
            yield policy.issue(Code.NO_TIME_TO_COMPACT, message, _ADD, "freshness", "target", level="warning")
        else:
            message = f"{message}: with a run every {duration_text(every_ms)} it is missed again and again"
            yield policy.issue(Code.TARGET_TOO_SHORT, message, _ADD, "freshness", "target")
    elif every_ms is not None and target_ms < latency_ms + every_ms:
        message = (
            f"`freshness.target` ({duration_text(target_ms)}) is shorter than `data_latency` and the time from run to run "
            f"together ({duration_text(latency_ms)} + {duration_text(every_ms)}): an event that arrives late can miss it"
        )
        yield policy.issue(Code.NO_TIME_TO_COMPACT, message, _ADD, "freshness", "target", level="warning")


def freshness_is_ordered(policy: DeclaredPolicy) -> Iterator[Issue]:
    """`warn_after` comes before `error_after`, and `error_after` not before `target`; a limit without effect is a warning."""
    limits = policy.declaration.freshness
    target, warn, error = limits.target_ms, limits.warn_after_ms, limits.error_after_ms
    is_unordered, is_early = (
        error is not None and warn is not None and warn >= error,
        error is not None and target is not None and error < target,
    )
    if is_unordered:
        message = "`freshness.error_after` must be longer than `freshness.warn_after`"
        hint = "a warning comes before the error"
        yield policy.issue(Code.FRESHNESS_ORDER, message, hint, "freshness", "error_after")
    if is_early:
        message = "`freshness.error_after` must not be shorter than `freshness.target`"
        hint = "an error means that the target was missed"
        yield policy.issue(Code.FRESHNESS_ORDER, message, hint, "freshness", "error_after")
    if is_unordered or is_early or warn is None or target is None or target < policy.declaration.data_latency_ms:
        return
    # beyond the target a table is a warning anyway, and without `error_after` an error
    if warn > target or (warn == target and error is None):
        beyond = "an error, as there is no `error_after`" if error is None else "a warning"
        message = f"`freshness.warn_after` has no effect: beyond the `target` the table is {beyond}"
        hint = "make it shorter than the target, to be warned before the target is missed, or remove it"
        yield policy.issue(Code.LIMIT_WITHOUT_EFFECT, message, hint, "freshness", "warn_after", level="warning")


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
    yield policy.issue(Code.PROOF_NOT_MADE, message, hint, "freshness", "proof", level="warning")


def partitions_can_close(policy: DeclaredPolicy) -> Iterator[Issue]:
    """A partition's length fits its pattern, and what needs partitions to close says when they do, once."""
    declared, timed = policy.declaration, policy.declaration.partition_time
    is_idle = declared.partition_idle_ms is not None
    if timed is not None and (fault := length_fault(timed.pattern, timed.length_ms)) is not None:
        is_given = timed.length_ms is not None and "fixed" in fault
        hint = "remove `length`" if is_given else "for example `length: 1d`"
        message, key = f"the length in `partition_time` does not fit: {fault}", "length" if timed.length_ms else "from"
        yield policy.issue(Code.BAD_PARTITION_TIME, message, hint, "partition_time", key)
    if timed is not None and is_idle:
        message = "`partition_time` and `partition_idle` exclude each other: each says when a partition is done"
        yield policy.issue(Code.NEVER_CLOSES, message, "keep one of them", "partition_idle", at_key=True)
    if declared.done is not None:
        yield from _done_issues(policy, declared.done)
    if declared.strategy.on_close and timed is None:
        message = "`strategy.on_close` needs `partition_time`, which says when a partition closes"
        yield policy.issue(Code.NEVER_CLOSES, message, _FROM, "strategy", "on_close", at_key=True)


_FROM = "for example `partition_time: {from: dt=%Y-%m-%d}`"


def _done_issues(policy: DeclaredPolicy, done: Done) -> Iterator[Issue]:
    timed, is_idle = policy.declaration.partition_time, policy.declaration.partition_idle_ms is not None
    if timed is None and not is_idle:
        message = "`done` needs `partition_time` or `partition_idle`, which says when a partition is done"
        yield policy.issue(Code.NEVER_CLOSES, message, _FROM, "done", at_key=True)
    if done.proof == "data" and is_idle:
        message = (
            "`done.proof: data` needs `partition_time`: rows are compared up to a time, and a quiet partition has none"
        )
        yield policy.issue(Code.NEVER_CLOSES, message, "set it to `logs`", "done", "proof")
    if done.rows == "until_end" and is_idle:
        message = "`done.rows: until_end` needs `partition_time`: a partition that is about no time has no end"
        yield policy.issue(Code.NEVER_CLOSES, message, "remove it", "done", "rows")
    is_fit = timed is None or length_fault(timed.pattern, timed.length_ms) is None
    if done.since is not None and is_fit and (timed is None or timed.clock.span(done.since) is None):
        message = (
            f"`done.since: {policy.shown('done', 'since')}` is not the path of a partition as `partition_time` reads it"
        )
        hint = "give the first partition of which events are sent, such as `dt=2026-01-01`"
        yield policy.issue(Code.NEVER_CLOSES, message, hint, "done", "since")


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
_LONGEST_PATTERN = 200
_OPTIONAL = re.compile(r"\[[^\[\]]*\]")
_MONTHS = re.compile(r"M+|L+")
_WRONG = {"Y": "y", "u": "y", "e": "E", "w": None, "W": None, "n": "S", "N": "S", "A": "S"}


def format_fault(pattern: str, shown: str) -> str | None:
    """Why Spark cannot read times with the pattern, which messages show so; None where it looks right."""
    if len(pattern) > _LONGEST_PATTERN:
        return f"`{shown}` has more than {_LONGEST_PATTERN} characters"
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


def _each(rule: Callable[[DeclaredPolicy], Iterator[Issue]]) -> Rule:
    """A rule of one policy as one of the project."""
    return lambda project: (issue for policy in project.declared for issue in rule(policy))


PROJECT_RULES: tuple[Rule, ...] = (
    names_are_unique,
    tables_have_one_policy,
    tables_are_locations,
    ro_tables_are_catalog_names,
    _each(freshness_can_be_met),
    _each(freshness_is_ordered),
    _each(proofs_can_be_made),
    _each(partitions_can_close),
    _each(event_time_is_readable),
    _each(hudi_options_are_free),
    _each(planned_options_are_numbers),
    _each(lock_options_are_locks),
    target_options_are_free,
    locks_protect_the_table,
    _each(secrets_have_a_reference),
    suites_exist,
    _each(writers_leave_compaction),
    _each(carried_files_outlive_cleaning),
    _each(strategies_have_their_keys),
    _each(records_are_split_alike),
    _each(boundaries_have_room),
    _each(views_have_a_cut),
)


#: So many issues of one kind are reported.
MAX_ISSUES = 1_000


def check_project(
    files: ProjectFiles, known_suites: Iterable[str], real_path: Callable[[str], str] = str
) -> tuple[Issue, ...]:
    """Every issue of the project, errors and warnings, in the order of their places; `real_path` follows links."""
    project = CheckedProject(
        table_root(files.target, files.project_dir),
        files.policies,
        files.declared,
        files.target,
        files.target_places,
        frozenset(known_suites),
        real_path,
    )
    found = [*files.issues, *(one.warning for one in islice(files.refused, MAX_ISSUES))]
    found += (issue for rule in PROJECT_RULES for issue in islice(rule(project), MAX_ISSUES))
    return tuple(_with_lines(sorted(found, key=_place), files.texts))


def interval_errors(files: ProjectFiles, names: Container[str], every_ms: int) -> list[Issue]:
    """What is wrong with targets of the named policies when a run comes every `every_ms`, whatever the policies say."""
    chosen = (policy for policy in files.policies if policy.declaration.name in names)
    found = (issue for policy in chosen for issue in pace_issues(policy, every_ms))
    return list(_with_lines((issue for issue in found if issue.level == "error"), files.texts))


def compile_project(
    files: ProjectFiles,
    known_suites: Iterable[str],
    issues: Iterable[Issue] | None = None,
    own_suites: Mapping[str, object] | None = None,
) -> Manifest:
    """The manifest of the project's policies, sorted by name; `issues` are those of `check_project`, if it ran before.

    `own_suites` are the contents of suites that are the project's own: they decide what a policy proves.

    Raises:
        PolicyError: the project has errors; carries all of them, and no warnings.

    """
    found = check_project(files, known_suites) if issues is None else issues
    errors = [issue for issue in found if issue.level == "error"]
    if errors:
        raise PolicyError(errors)
    root, lock = table_root(files.target, files.project_dir), files.target.lock
    digests = {name: digest(content) for name, content in (own_suites or {}).items()}
    policies = (resolve_policy(policy, root, lock, digests) for policy in files.policies)
    return Manifest(
        project=files.name,
        target=files.target.name,
        table_root=root,
        vars=dict(files.variables),
        namespaces={
            str(one.tables): resolve_policy(one.policy, "", lock, digests).fingerprint for one in files.namespaces
        },
        policies=tuple(sorted(policies, key=lambda policy: policy.name)),
    )


def table_root(target: Target, project_dir: str) -> str:
    """What relative paths of tables start from: the target's `table_root`, else the project's folder."""
    return resolve_location(f"{target.table_root or '.'}/", project_dir).rstrip("/") or "/"


def resolve_policy(
    policy: DeclaredPolicy,
    root: str,
    lock: Mapping[str, str],
    suite_digests: Mapping[str, str],
) -> Policy:
    """The policy with what its files do not say: a relative table path is taken from `root`, `lock` serves where it has none."""
    declared = policy.declaration
    values = {name: getattr(declared, name) for name in PolicyDeclaration.model_fields}
    values["table"] = resolve_location(declared.table, root)
    if not declared.writer.lock:
        values["writer"] = declared.writer.model_copy(update={"lock": dict(lock)})
    return Policy.model_construct(
        **values,
        source=policy.source,
        suite_digest=suite_digests.get(declared.verify.suite),
        found_by=policy.found_by,
    )


def _with_lines(issues: Iterable[Issue], texts: Mapping[str, str]) -> Iterator[Issue]:
    """The issues, each with the line that it is about."""
    split: dict[str, list[str]] = {}
    for issue in issues:
        where = issue.where
        if where is None or where.line is None or where.excerpt is not None or where.path not in texts:
            yield issue
            continue
        lines = split.get(where.path) or split.setdefault(where.path, texts[where.path].split("\n"))
        is_there = 0 < where.line <= len(lines)
        yield replace(issue, where=replace(where, excerpt=lines[where.line - 1])) if is_there else issue


def _place(issue: Issue) -> tuple[str, int, int]:
    where = issue.where
    return (where.path, where.line or 0, where.column or 0) if where else ("", 0, 0)
