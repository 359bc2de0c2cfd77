"""Namespaces: a policy for each table that a glob over folders means, or that is in a database of the catalog."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from itertools import takewhile
from typing import NamedTuple

from etc_policy.api.importing import is_linked, plain_name, table_identity
from etc_policy.api.loading import ProjectReading
from etc_policy.api.one_table import side_by_side
from etc_policy.errors import EtcError, Issue
from etc_policy.errors.codes import Code
from etc_policy.policy.locations import location_fault, resolve_location
from etc_policy.policy.project import DeclaredNamespace, DeclaredPolicy
from etc_policy.policy.resolve import check_project, table_root
from etc_policy.policy.schema_values import GLOB
from etc_policy.wiring import Environment


class _Found(NamedTuple):
    """A table: its own name and that of its folder or database, where it lies, and how else it may be named."""

    name: str
    folder: str
    location: str
    alias: str = ""


@dataclass
class _Lookup:
    """What is found so far; `owners` are the policies or namespaces that have a table, by its identity."""

    environment: Environment
    root: str
    owners: dict[str, DeclaredPolicy | DeclaredNamespace] = field(default_factory=dict)
    policies: list[DeclaredPolicy] = field(default_factory=list)
    issues: list[Issue] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def look_up(self, namespace: DeclaredNamespace) -> None:
        """Find its tables; where that fails a policy stands for those that are not known, which every verb reports."""
        tables: list[_Found] = []
        try:
            for one in _tables(self.environment, namespace, self.root):
                if isinstance(one, EtcError):
                    self._stands_for(namespace, one)
                else:
                    tables.append(one)
        except EtcError as error:
            self._stands_for(namespace, error)
        tables.sort(key=lambda one: (is_linked(one.location, self.root), one))  # a table is known by its own name
        new = [one for one in tables if self._is_free(namespace, one)]
        calls = ((partial(self.environment.why_not_a_policy, one.location), True) for one in new)
        faults = side_by_side(calls, min(self.environment.jobs, len(new)))
        for one, fault in zip(new, faults, strict=True):
            if fault is not None:
                self.left_out[one.location] = fault.message
            else:
                names = plain_name([one.name]), plain_name([one.folder])
                self.policies.append(namespace.policy_of(*names, one.location))
        if not tables and str(namespace.tables) not in self.left_out:
            hint = "a table is a folder with `.hoodie` in it; relative paths start from `table_root`, else from the project"
            message = f"`{namespace.policy.shown('table')}` matches no table"
            where = namespace.policy.where("table")
            self.issues.append(Issue(Code.EMPTY_NAMESPACE, message, where, hint, level="warning"))

    def _is_free(self, namespace: DeclaredNamespace, found: _Found) -> bool:
        """Whether the namespace may have the table; an explicit policy goes first, and what is twice in a catalog is one."""
        if any(fnmatchcase(found.name, glob) for glob in namespace.exclude):
            self.left_out[found.location] = "excluded"
            return False
        if fault := location_fault(found.location):
            self.left_out[found.location] = f"the location {fault[0]}"
            return False
        named = [table_identity(one, self.root) for one in (found.location, found.alias) if one]
        owner = next((self.owners[one] for one in named if one in self.owners), None)
        if isinstance(owner, DeclaredPolicy):
            self.left_out[found.location] = f"has the policy `{owner.declaration.name}`"
        elif owner is not None and owner is not namespace:
            self._overlap(owner, namespace, found)
        self.owners |= {one: self.owners.get(one, owner or namespace) for one in named}
        return owner is None

    def _overlap(self, first: DeclaredNamespace, second: DeclaredNamespace, found: _Found) -> None:
        """One error for two namespaces, whatever number of tables they share."""
        where = second.policy.where("table")
        if not any(issue.where == where for issue in self.issues):
            message = f"the table `{found.location}` is found by `{first.tables}` too, at {first.policy.source}"
            hint = "`exclude` the tables that both find in one of them, or write a policy with `table` for each"
            self.issues.append(Issue(Code.SHARED_TABLE, message, where, hint))

    def _stands_for(self, namespace: DeclaredNamespace, error: EtcError) -> None:
        pattern = str(namespace.tables)
        if pattern not in self.left_out:
            self.left_out[pattern] = f"cannot be looked up: {error.with_cause}"
            location = resolve_location(pattern, self.root)
            self.environment.not_looked_up |= {location: error}
            self.policies.append(namespace.policy_of("tables", "folder", pattern))


def with_found_tables(reading: ProjectReading, environment: Environment) -> ProjectReading:
    """The reading with a policy for each merge-on-read table that its namespaces find now, and what is wrong with these."""
    files = reading.files
    environment.not_looked_up.clear()
    if not files.namespaces or reading.has_errors:
        return reading
    lookup = _Lookup(environment, table_root(files.target, files.project_dir))
    lookup.owners = {table_identity(one.declaration.table, lookup.root): one for one in files.policies}
    for namespace in files.namespaces:
        lookup.look_up(namespace)
    found = replace(files, policies=(*files.policies, *lookup.policies), issues=(*files.issues, *lookup.issues))
    issues = check_project(found, reading.suites, os.path.realpath)
    return replace(reading, files=found, issues=issues, left_out=dict(sorted(lookup.left_out.items())))


def _tables(environment: Environment, namespace: DeclaredNamespace, root: str) -> Iterator[_Found | EtcError]:
    tables = namespace.tables
    if tables.path is not None:
        parts = resolve_location(tables.path.rstrip("/"), root).split("/")
        fixed = list(takewhile(lambda part: not GLOB.search(part), parts))
        for one in environment.find_tables("/".join(fixed) or "/", parts[len(fixed) :]):
            above, _, name = str(one).rpartition("/")
            yield one if isinstance(one, EtcError) else _Found(name, above.rpartition("/")[2], one)
        return
    for name, location in environment.catalog_tables(str(tables.catalog), tables.match):
        database, table = name.split(".", 1)
        yield _Found(table, database, location.rstrip("/") if isinstance(location, str) else name, name)
