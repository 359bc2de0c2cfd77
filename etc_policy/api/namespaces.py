"""Namespaces: a policy for each table that a glob over folders means, or that is in a database of the catalog."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, count, takewhile
from typing import NamedTuple, TypeVar

from etc_policy.api.each_table import side_by_side
from etc_policy.api.importing import is_linked, plain_name
from etc_policy.api.loading import ProjectReading, reached_path
from etc_policy.errors import EtcError, Issue, TableError
from etc_policy.errors.codes import Code
from etc_policy.policy.locations import (
    glob_matches,
    is_catalog_name,
    is_local,
    location_fault,
    location_identity,
    resolve_location,
)
from etc_policy.policy.project import DeclaredNamespace, DeclaredPolicy, RefusedFolder
from etc_policy.policy.resolve import check_project, first_worked_on, table_root
from etc_policy.policy.schema import PolicyDeclaration, Sync
from etc_policy.policy.schema_values import GLOB
from etc_policy.storage.open_storage import real_path, table_identity
from etc_policy.wiring import Environment

_K = TypeVar("_K")
#: Letters of a folder's name in that of a policy that stands for it: a number may follow.
_PLAIN_LETTERS = 90


class _Found(NamedTuple):
    """A table: its own name and that of its folder or database, where it lies, and how else it may be named."""

    name: str
    folder: str
    location: str
    alias: str = ""


@dataclass
class _Lookup:
    """What is found so far; `owners` are the policies or namespaces that have a table, by its identity.

    `overlaps` are the errors of tables that two namespaces find. `last_tables` gives the table of each policy's last run.
    """

    environment: Environment
    root: str
    last_tables: Callable[[], Mapping[str, str]]
    owners: dict[str, DeclaredPolicy | DeclaredNamespace] = field(default_factory=dict)
    policies: list[DeclaredPolicy] = field(default_factory=list)
    issues: list[Issue] = field(default_factory=list)
    overlaps: dict[str, EtcError] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    _of_one_value: dict[tuple[str, ...], tuple[Mapping[str, str], str | None]] = field(default_factory=dict)

    def look_up(self, namespace: DeclaredNamespace) -> None:
        """Find its tables; where that fails a policy stands for those that are not known, which every verb reports."""
        tables: list[_Found] = []
        try:
            for one in _tables(self.environment, namespace, self.root):
                if isinstance(one, EtcError):
                    self._stands_for(namespace, one)
                    tables += self._known(namespace)
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

    def _known(self, namespace: DeclaredNamespace) -> Iterator[_Found]:
        """The tables of last runs that it means: what somebody else made in its folder hides none of them."""
        if namespace.tables.path is None:
            return
        folder, globs = _split_glob(namespace.tables.path, self.root)
        for table in self.last_tables().values():
            parts = table.removeprefix(f"{folder}/").split("/")
            is_meant = len(parts) == len(globs) and all(map(glob_matches, parts, globs))
            if is_meant and next(self.environment.find_tables(table), None) == table:
                yield _of_folder(table)

    def _is_free(self, namespace: DeclaredNamespace, found: _Found) -> bool:
        """Whether the namespace may have the table; an explicit policy goes first, and what is twice in a catalog is one."""
        if any(glob_matches(found.name, glob) for glob in namespace.exclude):
            self.left_out[found.location] = "excluded"
            return False
        if self._leads_out(namespace, found):
            self.left_out[found.location] = "a link to it leads out of the folder: name it by a policy of its own"
            return False
        if fault := location_fault(found.location):
            self.left_out[found.location] = f"the location {fault[0]}"
            return False
        named = [table_identity(one, self.root) for one in (found.location, found.alias) if one]
        owner = next((self.owners[one] for one in named if one in self.owners), None)
        if isinstance(owner, DeclaredPolicy):
            self.left_out[found.location] = f"has the policy `{owner.declaration.name}`"
        elif owner is not None and owner is not namespace:
            hint = "`exclude` the table in one of them, or write a policy with `table` for it"
            both = f"`{owner.tables}` at {owner.policy.source} and by `{namespace.tables}`"
            error = TableError(Code.SHARED_TABLE, f"the table `{found.location}` is found by {both}", hint=hint)
            self.overlaps |= dict.fromkeys(named, error)
        self.owners |= {one: self.owners.get(one, owner or namespace) for one in named}
        return owner is None

    def _leads_out(self, namespace: DeclaredNamespace, found: _Found) -> bool:
        """Whether a link in the folder of a glob leads to a table elsewhere: whoever may make links there would choose it."""
        if namespace.tables.path is None or not is_local(found.location):
            return False
        folder, _ = _split_glob(namespace.tables.path, self.root)
        real = real_path(folder)
        return os.path.commonpath([real, real_path(found.location)]) != real

    def refuse_ambiguous(self, declared: Iterable[DeclaredPolicy]) -> None:
        """Let a policy stand for an error where two namespaces find its table, its name or RO table is another policy's too, or
        the name of its RO table cannot be used in SQL.

        The others go on. Of several found tables the one goes on that etc worked on first, so that a newcomer stops nobody; where
        it has worked on none of them, which of them is meant is not known.
        """
        every = (*declared, *self.policies)
        names, ro_tables = _tables_by(every, _name), _tables_by(every, _ro_table)
        free = {one.declaration.table for one in self.policies}
        errors = [self._ambiguity(one, names, ro_tables, free) for one in self.policies]
        kept = {_name(one) for one, error in zip(self.policies, errors, strict=True) if error is None}
        kept |= {_name(one) for one in declared}
        numbers = defaultdict[str, Iterator[int]](partial(count, 2))
        for place, (one, error) in enumerate(zip(self.policies, errors, strict=True)):
            if error is not None:
                name = _free_name(_name(one), numbers, kept, names)
                self._refuse(one.declaration.table, error.message, error)
                changed = one.declaration.model_copy(update={"name": name, "sync": Sync()})
                self.policies[place] = replace(one, declaration=changed)

    def _ambiguity(
        self,
        policy: DeclaredPolicy,
        names: Mapping[str, Sequence[str]],
        ro_tables: Mapping[str | None, Sequence[str]],
        free: Container[str],
    ) -> EtcError | None:
        """Why a table that was found does not go on; `free` are those that were found and not named."""
        error = self.overlaps.get(table_identity(policy.declaration.table, self.root)) or _unreadable_ro_table(policy)
        error = error or self._shared(Code.DUPLICATE_POLICY, "name", policy, names[_name(policy)], free)
        ro_table = _ro_table(policy)
        if error is not None or ro_table is None:
            return error
        return self._shared(Code.BAD_RO_TABLE, "sync.ro_table", policy, ro_tables[ro_table], free)

    def _shared(
        self, code: Code, key: str, policy: DeclaredPolicy, tables: Sequence[str], found: Container[str]
    ) -> TableError | None:
        """That a table has a value of a key which is another's; None where it is the only one, or had it before the others."""
        if len(tables) == 1:
            return None
        owner = self._worked_on(_name(policy), tuple(tables), found)
        if owner == policy.declaration.table:
            return None
        shown = " and ".join(f"`{table}`" for table in tables[:2])
        more = f" and {len(tables) - 2} more" if len(tables) > 2 else ""
        hint = f"put `{{table}}` and `{{folder}}` into `{key}`, or exclude all but one of them"
        return TableError(code, f"the tables {shown}{more} would have one `{key}`", hint=hint)

    def _worked_on(self, name: str, tables: tuple[str, ...], found: Container[str]) -> str | None:
        """Of tables that would have one name the one of this project's last run, else the one that etc worked on first.

        None where one of them was not found, but is named, and where it is not known to which of them etc came first.
        """
        if tables not in self._of_one_value:  # once for all of them: a newcomer may make thousands
            are_found = all(one in found for one in tables)
            places = {resolve_location(one, self.root): one for one in tables if are_found}
            by_identity = {location_identity(place): one for place, one in places.items()}
            first = first_worked_on(places.items(), self.environment.worked_on_since)
            self._of_one_value[tables] = by_identity, first
        known, only = self._of_one_value[tables]
        last = self.last_tables().get(name) if known else None
        return only if last is None else known.get(location_identity(last), only)

    def _stands_for(self, namespace: DeclaredNamespace, error: EtcError) -> None:
        pattern = str(namespace.tables)
        if pattern not in self.left_out:
            self._refuse(pattern, f"cannot be looked up: {error.with_cause}", error)
            self.policies.append(namespace.policy_of("tables", "folder", pattern))

    def stand_ins(
        self, refused: Iterable[RefusedFolder], policies: Iterable[DeclaredPolicy]
    ) -> Iterator[DeclaredPolicy]:
        """A policy for each folder that a glob of `for_each` has found and that makes none: every verb reports why."""
        taken, numbers = {_name(one) for one in policies}, defaultdict[str, Iterator[int]](partial(count, 2))
        for one in refused:
            name = _free_name(plain_name([one.folder.rpartition("/")[2]])[:_PLAIN_LETTERS], numbers, taken)
            values = {"name": name, "table": "_", "event_time_column": "_", "data_latency": "1h"}
            declaration = PolicyDeclaration.from_yaml(values).model_copy(update={"table": one.folder})
            issue = one.warning
            self._refuse(one.folder, one.issue.message, TableError(issue.code, issue.message, hint=issue.hint))
            yield DeclaredPolicy(declaration, one.places, values, found_by="for_each")

    def _refuse(self, location: str, why: str, error: EtcError) -> None:
        self.left_out[location] = why
        self.environment.refused |= {resolve_location(location, self.root): error}


def _name(policy: DeclaredPolicy) -> str:
    return policy.declaration.name


def _ro_table(policy: DeclaredPolicy) -> str | None:
    name = policy.declaration.sync.ro_table if policy.declaration.enabled else None
    return name and location_identity(name)


def _unreadable_ro_table(policy: DeclaredPolicy) -> TableError | None:
    """That a folder's name makes no name of an RO table: whoever made the folder would stop the whole project."""
    name = policy.declaration.sync.ro_table
    if name is None or is_catalog_name(name):
        return None
    hint = "put backticks round the name in `sync.ro_table`, as SQL does, or exclude the table"
    return TableError(Code.BAD_RO_TABLE, f"`{name}` is not `db.table` of the catalog", hint=hint)


def _tables_by(policies: Iterable[DeclaredPolicy], key: Callable[[DeclaredPolicy], _K]) -> Mapping[_K, list[str]]:
    found = defaultdict[_K, list[str]](list)
    for one in policies:
        found[key(one)].append(one.declaration.table)
    return found


def _free_name(name: str, numbers: Mapping[str, Iterator[int]], taken: set[str], others: Container[str] = ()) -> str:
    """The name, or it with the next of its numbers that makes it one of no other; taken from now on."""
    numbered = (new for number in numbers[name] if (new := f"{name}_{number}") not in others)
    free = next(new for new in chain((name,), numbered) if new not in taken)
    taken.add(free)
    return free


def with_found_tables(
    reading: ProjectReading, environment: Environment, last_tables: Callable[[], Mapping[str, str]]
) -> ProjectReading:
    """The reading with a policy for each merge-on-read table that its namespaces find now, and what is wrong with these."""
    files = reading.files
    environment.refused.clear()
    if not (files.namespaces or files.refused) or reading.has_errors:
        return reading
    lookup = _Lookup(environment, table_root(files.target, files.project_dir), last_tables)
    lookup.owners = {table_identity(one.declaration.table, lookup.root): one for one in files.policies}
    for namespace in files.namespaces:
        lookup.look_up(namespace)
    lookup.refuse_ambiguous(files.policies)
    policies, issues = (*files.policies, *lookup.policies), (*files.issues, *lookup.issues)
    found = replace(files, policies=policies, issues=issues, refused=())
    issues = check_project(found, reading.suites, partial(reached_path, environment.may_look))
    found = replace(found, policies=(*policies, *lookup.stand_ins(files.refused, policies)))
    return replace(reading, files=found, issues=issues, left_out=dict(sorted(lookup.left_out.items())))


def _split_glob(path: str, root: str) -> tuple[str, Sequence[str]]:
    """The folder that a glob begins with, and a glob for each level below it."""
    parts = resolve_location(path.rstrip("/"), root).split("/")
    fixed = list(takewhile(lambda part: not GLOB.search(part), parts))
    return "/".join(fixed) or "/", parts[len(fixed) :]


def _of_folder(location: str) -> _Found:
    above, _, name = location.rpartition("/")
    return _Found(name, above.rpartition("/")[2], location)


def _tables(environment: Environment, namespace: DeclaredNamespace, root: str) -> Iterator[_Found | EtcError]:
    tables = namespace.tables
    if tables.path is not None:
        for one in environment.find_tables(*_split_glob(tables.path, root)):
            yield one if isinstance(one, EtcError) else _of_folder(one)
        return
    for name, location in environment.catalog_tables(str(tables.catalog), tables.match):
        database, table = name.split(".", 1)
        yield _Found(table, database, location.rstrip("/") if isinstance(location, str) else name, name)
