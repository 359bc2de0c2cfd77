"""From declared policies to the manifest: rules checked, defaults filled in, paths absolute, options as text."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice

from etc_policy.compile.freshness_rules import pace_issues
from etc_policy.compile.locations import resolve_location
from etc_policy.compile.manifest import (
    Carry,
    EventTime,
    Freshness,
    Manifest,
    Policy,
    Sample,
    Sync,
    Verify,
    Writer,
    digest,
)
from etc_policy.compile.rules import PROJECT_RULES, CheckedProject
from etc_policy.compile.stock_options import STOCK, stock_options
from etc_policy.declare.project import DeclaredPolicy, ProjectFiles
from etc_policy.declare.schema import VerifyChoice
from etc_policy.declare.schema_strategy import Strategy
from etc_policy.declare.targets import option_texts
from etc_policy.errors import Issue, PolicyError

#: So many issues of one kind are reported.
MAX_ISSUES = 1_000


def check_project(
    files: ProjectFiles, known_suites: Iterable[str], real_path: Callable[[str], str] = str
) -> tuple[Issue, ...]:
    """Every issue of the project, errors and warnings, in the order of their places; `real_path` follows links."""
    root, suites = table_root(files), frozenset(known_suites)
    project = CheckedProject(root, files.policies, suites, files.target, files.target_places, real_path)
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
    root, lock = table_root(files), files.target.lock
    digests = {name: digest(content) for name, content in (own_suites or {}).items()}
    policies = (resolve_policy(policy, root, lock, digests) for policy in files.policies)
    return Manifest(
        project=files.name,
        target=files.target.name,
        table_root=root,
        vars=dict(files.variables),
        policies=tuple(sorted(policies, key=lambda policy: policy.name)),
    )


def table_root(files: ProjectFiles) -> str:
    """What relative paths of tables start from: the target's `table_root`, else the project's folder."""
    return resolve_location(f"{files.target.table_root or '.'}/", files.project_dir).rstrip("/") or "/"


def resolve_policy(
    policy: DeclaredPolicy,
    root: str,
    lock: Mapping[str, str],
    suite_digests: Mapping[str, str],
) -> Policy:
    """The policy in plain units; a relative table path is taken from `root`, `lock` serves where it has none itself."""
    declared = policy.declaration
    limits = declared.freshness
    return Policy(
        name=declared.name,
        description=declared.description,
        table=resolve_location(declared.table, root),
        event_time=EventTime(**declared.event_time_column.model_dump()),
        data_latency_ms=declared.data_latency,
        log_file_max_bytes=declared.log_file_max_size,
        strategy=declared.strategy.type,
        granularity="file_slice" if declared.strategy.type in STOCK else declared.strategy.granularity,
        partitions=declared.strategy.partitions,
        max_io_bytes=declared.strategy.max_io,
        every_ms=declared.strategy.every,
        carry=_carry(declared.strategy),
        stock_options=stock_options(declared.strategy),
        freshness=Freshness(
            target_ms=limits.target,
            warn_after_ms=limits.warn_after,
            error_after_ms=limits.error_after,
            proof=limits.proof,
        ),
        verify=_verify(declared.verify, suite_digests.get(declared.verify.suite)),
        writer=Writer(
            index=declared.writer.index,
            lock=option_texts(declared.writer.lock) or dict(lock),
            lock_wait_ms=declared.writer.lock_wait,
            compaction=declared.writer.compaction,
            merges_tested_with=tuple(declared.writer.merges_tested_with),
        ),
        hudi_options=option_texts(declared.hudi_options),
        sync=Sync(**declared.sync.model_dump()),
        tags=declared.tags,
        enabled=declared.enabled,
        source=policy.source,
    )


def _carry(declared: Strategy) -> Carry | None:
    """A link is an error of the project (`carried_files_outlive_cleaning`), so that it never gets here."""
    return None if declared.carry == "symlink" else declared.carry


def _with_lines(issues: Iterable[Issue], texts: Mapping[str, str]) -> Iterator[Issue]:
    """The issues, each with the line that it is about."""
    split: dict[str, list[str]] = {}
    for issue in issues:
        where = issue.where
        if where is None or where.line is None or where.path not in texts:
            yield issue
            continue
        lines = split.get(where.path) or split.setdefault(where.path, texts[where.path].split("\n"))
        is_there = 0 < where.line <= len(lines)
        yield replace(issue, where=replace(where, excerpt=lines[where.line - 1])) if is_there else issue


def _verify(declared: VerifyChoice, suite_digest: str | None) -> Verify:
    return Verify(
        suite=declared.suite,
        level=declared.level,
        sample=Sample(share=declared.sample.share, seed=declared.sample.seed) if declared.sample else None,
        window_ms=declared.window,
        where=declared.where,
        full=declared.full,
        suite_digest=suite_digest,
    )


def _place(issue: Issue) -> tuple[str, int, int]:
    where = issue.where
    return (where.path, where.line or 0, where.column or 0) if where else ("", 0, 0)
