"""From declared policies to the manifest: rules checked, defaults filled in, paths absolute, options as text."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice

from etc_policy.errors import Issue, PolicyError
from etc_policy.policy.locations import resolve_location
from etc_policy.policy.manifest import Manifest, Policy, digest
from etc_policy.policy.policy_rules import pace_issues
from etc_policy.policy.project import DeclaredPolicy, ProjectFiles
from etc_policy.policy.rules import PROJECT_RULES, CheckedProject
from etc_policy.policy.schema import PolicyDeclaration

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
    """The policy with what its files do not say: a relative table path is taken from `root`, `lock` serves where it has none."""
    declared = policy.declaration
    values = {name: getattr(declared, name) for name in PolicyDeclaration.model_fields}
    values["table"] = resolve_location(declared.table, root)
    if not declared.writer.lock:
        values["writer"] = declared.writer.model_copy(update={"lock": dict(lock)})
    return Policy.model_construct(**values, source=policy.source, suite_digest=suite_digests.get(declared.verify.suite))


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


def _place(issue: Issue) -> tuple[str, int, int]:
    where = issue.where
    return (where.path, where.line or 0, where.column or 0) if where else ("", 0, 0)
