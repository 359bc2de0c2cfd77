"""From declared policies to the manifest: rules checked, defaults filled in, paths absolute, options as text."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeAlias

from etc_policy.errors import Issue, PolicyError
from etc_policy.errors.codes import Code
from etc_policy.errors.plain_text import without_passwords
from etc_policy.policy import policy_rules
from etc_policy.policy.hudi_options import (
    EXPIRY,
    PROVIDER,
    expiry_minutes,
    is_file_lock,
    is_in_process,
    lock_option_fault,
    spark_conf_fault,
)
from etc_policy.policy.locations import is_catalog_name, location_fault, location_identity, resolve_location
from etc_policy.policy.manifest import Manifest, Policy, digest
from etc_policy.policy.policy_rules import pace_issues
from etc_policy.policy.project import DeclaredPolicy, ProjectFiles
from etc_policy.policy.schema import PolicyDeclaration
from etc_policy.policy.suggestions import did_you_mean
from etc_policy.policy.targets import Target
from etc_policy.policy.yaml_marks import Places


@dataclass(frozen=True, slots=True)
class CheckedProject:
    """What a rule looks at: every policy that is right by itself, the suites that exist, and the target with its places.

    `declared` are policies as files say them, those of namespaces among them, and `policies` those of single tables.
    `real_path` is a local path without links.
    """

    table_root: str
    policies: tuple[DeclaredPolicy, ...]
    declared: tuple[DeclaredPolicy, ...]
    suites: frozenset[str]
    target: Target = field(default_factory=Target)
    target_places: Places | None = None
    real_path: Callable[[str], str] = str


Rule: TypeAlias = Callable[[CheckedProject], Iterator[Issue]]
#: What to do where one entry makes several policies that are alike.
_EACH = "`for_each` makes a policy for each item: write `{{ each }}`, or a key of it, into this value"


def names_are_unique(project: CheckedProject) -> Iterator[Issue]:
    """No two policies of the project have one name."""
    first: dict[str, DeclaredPolicy] = {}
    for policy in project.policies:
        name = policy.declaration.name
        if name in first:
            message = f"two policies are named `{name}`, the first at {first[name].source}"
            hint = _EACH if policy.source == first[name].source else "rename one of them"
            yield Issue(Code.DUPLICATE_POLICY, message, policy.where("name"), hint)
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
            hint = _EACH if policy.source == owner.source else hint
            yield Issue(Code.SHARED_TABLE, message, policy.where("table"), hint)


def tables_are_locations(project: CheckedProject) -> Iterator[Issue]:
    """Every `table` is a path, a URI or `db.table`."""
    for policy in project.declared:
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


def target_options_are_free(project: CheckedProject) -> Iterator[Issue]:
    """A target's lock holds lock options only, and its settings of Spark none that a policy may not set either."""
    places = project.target_places
    if places is None:
        return
    for key, value in project.target.lock.items():
        fault = lock_option_fault(key, value)
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
    for policy in project.declared:
        own = policy.declaration.writer.lock
        lock = own or project.target.lock
        where = policy.where("writer", "lock", PROVIDER) if own else policy.where("name")
        if is_file_lock(lock) and not expiry_minutes(lock):
            message = "the lock file of the table's writers never expires: one that dies while it holds the lock stops all others"
            hint = f"give the writers, and this lock, `{EXPIRY}: 5` (minutes, longer than any commit takes)"
            yield Issue(Code.LOCK_WITHOUT_EXPIRY, message, where, hint, level="warning")
        if is_in_process(lock):
            message = "the lock of the table's writers is one inside a single Java process: no other writer and no `etc` sees it"
            hint = "declare the lock that all writers take (ZooKeeper, DynamoDB, Hive metastore, file system), or none"
            yield Issue(Code.LOCK_IN_PROCESS, message, where, hint, level="warning")


def suites_exist(project: CheckedProject) -> Iterator[Issue]:
    """Every policy names a suite that there is."""
    for policy in project.declared:
        suite = policy.declaration.verify.suite
        if suite not in project.suites:
            known = ", ".join(f"`{name}`" for name in sorted(project.suites))
            hint = did_you_mean(suite, project.suites) or f"the suites are {known}; own ones go to `suites/<name>.yml`"
            message = f"there is no suite `{policy.shown('verify', 'suite')}`"
            yield Issue(Code.UNKNOWN_SUITE, message, policy.where("verify", "suite"), hint)


def _each(rule: Callable[[DeclaredPolicy], Iterator[Issue]]) -> Rule:
    """A rule of one policy as one of the project."""
    return lambda project: (issue for policy in project.declared for issue in rule(policy))


PROJECT_RULES: tuple[Rule, ...] = (
    names_are_unique,
    tables_have_one_policy,
    tables_are_locations,
    ro_tables_are_catalog_names,
    _each(policy_rules.freshness_can_be_met),
    _each(policy_rules.freshness_is_ordered),
    _each(policy_rules.proofs_can_be_made),
    _each(policy_rules.partitions_can_close),
    _each(policy_rules.event_time_is_readable),
    _each(policy_rules.hudi_options_are_free),
    _each(policy_rules.planned_options_are_numbers),
    _each(policy_rules.lock_options_are_locks),
    target_options_are_free,
    locks_protect_the_table,
    _each(policy_rules.secrets_have_a_reference),
    suites_exist,
    _each(policy_rules.writers_leave_compaction),
    _each(policy_rules.carried_files_outlive_cleaning),
    _each(policy_rules.strategies_have_their_keys),
    _each(policy_rules.records_are_split_alike),
    _each(policy_rules.boundaries_have_room),
    _each(policy_rules.views_have_a_cut),
)


#: So many issues of one kind are reported.
MAX_ISSUES = 1_000


def check_project(
    files: ProjectFiles, known_suites: Iterable[str], real_path: Callable[[str], str] = str
) -> tuple[Issue, ...]:
    """Every issue of the project, errors and warnings, in the order of their places; `real_path` follows links."""
    root, suites = table_root(files.target, files.project_dir), frozenset(known_suites)
    project = CheckedProject(root, files.policies, files.declared, suites, files.target, files.target_places, real_path)
    found = [*files.issues, *(issue for rule in PROJECT_RULES for issue in islice(rule(project), MAX_ISSUES))]
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
