"""What reading a project gives: the policies that could be read, where each part is, all that is wrong so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from etc_policy.errors import Issue, Where
from etc_policy.errors.codes import Code
from etc_policy.errors.plain_text import without_passwords
from etc_policy.policy.notify_schema import Notify
from etc_policy.policy.project_schema import Folders
from etc_policy.policy.schema import PolicyDeclaration, Tables
from etc_policy.policy.schema_values import FOLDER_MARK, TABLE_MARK
from etc_policy.policy.secrets import without_secret
from etc_policy.policy.targets import Target
from etc_policy.policy.yaml_marks import Places, value_at


@dataclass(frozen=True, slots=True)
class DeclaredPolicy:
    """A policy that is right by itself, with the place of each of its keys; `values` are as merged, before defaults."""

    declaration: PolicyDeclaration
    places: Places
    values: Mapping[str, object] = field(repr=False)
    #: The namespace that found its table; None where the policy names the table itself.
    found_by: str | None = None

    def where(self, *keys: str, at_key: bool = False) -> Where:
        """The place of a value of the policy, found by its keys."""
        return self.places.where(keys, self.declaration.name, at_key=at_key)

    def issue(
        self, code: Code, message: str, hint: str | None, *keys: str, at_key: bool = False, level: str = "error"
    ) -> Issue:
        """What is wrong with a value of the policy, found by its keys."""
        return Issue(code, message, self.where(*keys, at_key=at_key), hint, level)

    def shown(self, *keys: str) -> str:
        """The value at the keys as messages show it: not long, and a reference where it came from the environment."""
        return without_passwords(str(without_secret(value_at(self.values, keys)))).strip()[:60]

    @property
    def source(self) -> str:
        """`file:line:column` of the policy's name, the file relative to the project."""
        return self.places.source(("name",))


@dataclass(frozen=True, slots=True)
class DeclaredNamespace:
    """A policy that has `tables`; `policy` is that of each table but for its name and table, which are still patterns."""

    tables: Tables
    exclude: tuple[str, ...]
    policy: DeclaredPolicy

    def policy_of(self, table: str, folder: str, location: str) -> DeclaredPolicy:
        """The policy of the table with that name, in a folder or database with that one."""
        declared = self.policy.declaration

        def filled(pattern: str) -> str:
            return pattern.replace(TABLE_MARK, table).replace(FOLDER_MARK, folder)

        name, ro_table = filled(declared.name), declared.sync.ro_table
        changes: dict[str, object] = {"name": name, "table": location}
        if ro_table is not None:
            changes["sync"] = declared.sync.model_copy(update={"ro_table": filled(ro_table)})
        values = {**self.policy.values, "name": name, "table": location}
        declaration = declared.model_copy(update=changes)
        return DeclaredPolicy(declaration, self.policy.places, values, found_by=str(self.tables))


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """A project as read: `project_dir` is absolute, `issues` are those of files and single values.

    `name` and `folders` are those of etc_project.yml; `target` is where this run takes place, at `target_places`; `texts` are
    the files by the path that errors name; `variables` are those that were given beside the files;
    `notify` says where messages about problems are sent.
    """

    project_dir: str
    policies: tuple[DeclaredPolicy, ...]
    issues: tuple[Issue, ...]
    name: str | None = None
    target: Target = field(default_factory=Target)
    texts: Mapping[str, str] = field(default_factory=dict, repr=False)
    target_places: Places | None = None
    variables: Mapping[str, object] = field(default_factory=dict)
    folders: Folders = field(default_factory=Folders)
    notify: Notify | None = None
    namespaces: tuple[DeclaredNamespace, ...] = ()

    @property
    def declared(self) -> tuple[DeclaredPolicy, ...]:
        """What its files say, each once: policies that name their table, and those of namespaces."""
        own = (policy for policy in self.policies if policy.found_by is None)
        return (*own, *(namespace.policy for namespace in self.namespaces))
