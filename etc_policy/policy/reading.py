"""From a project's folder to policies that are right by themselves: texts, YAML, expressions, templates and defaults, models.

Each text is read once, and each value has its place with it. Every fault is gathered, none raised.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, islice, pairwise
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from pydantic import ValidationError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from etc_policy import __version__
from etc_policy.errors import Issue, PolicyError, Where
from etc_policy.errors.codes import Code
from etc_policy.policy.files import (
    MayLook,
    SourceFile,
    Sources,
    find_tables,
    open_questions,
    read_project_file,
    read_sources,
)
from etc_policy.policy.findings import schema_issues
from etc_policy.policy.project import DeclaredNamespace, DeclaredPolicy, ProjectFiles, RefusedFolder
from etc_policy.policy.project_schema import ProjectFile, Target, choose_target, target_of
from etc_policy.policy.resolve import CheckedProject, ro_tables_are_catalog_names, tables_are_locations
from etc_policy.policy.schema import PolicyDeclaration, PolicyEntry, PolicyFileShape, TemplateFile
from etc_policy.policy.schema_values import LEARNED, Declared
from etc_policy.policy.scope import Scope, Value, require_known, without_blank
from etc_policy.policy.secrets import (
    REFERENCE_HINT,
    EnvText,
    canonical_references,
    changed_secrets,
    is_secret,
    without_secret,
)
from etc_policy.policy.suggestions import begin_project, did_you_mean
from etc_policy.policy.yaml_marks import (
    FileMarks,
    Places,
    YamlDocument,
    YamlPath,
    compose,
    has_template,
    plain_value,
    value_at,
)

_HINT = "begin with `version: 1` and `policies:`"
_TEMPLATE_HINT = "begin with `version: 1` and `template:`"
_PROJECT_HINT = "begin with `name: ` and the project's name"
#: The key of a policy that makes many.
FOR_EACH = "for_each"
MAX_ITEMS = 10_000
_FORMS = "write a list, a mapping, an expression that gives one, or a glob over the folders of tables such as `lake/*`"
_MAX_EXTENDS = 10
#: After so many faults no further policy is looked at.
MAX_ISSUES = 1_000
_COLUMN, _LATENCY = "event_time_column", "data_latency"
DEFAULT_KEYS = [key for key in PolicyDeclaration.names_by_key() if key not in ("name", "table", LEARNED)]
#: Stands where an expression gave no value: a text that fits most keys, so that only the expression is complained of.
NO_VALUE = "?"

Model = TypeVar("Model", bound=Declared)


def read_project(
    project_dir: str,
    environment: Mapping[str, str],
    variables: Mapping[str, Value] | None = None,
    target: str | None = None,
    may_look: MayLook = lambda _: True,
) -> ProjectFiles:
    """The project's policies with their places, and every issue of its files.

    `environment` serves `env_var`; `variables` win over `vars:` in the files; `target` names one of the profile's
    targets, None for its default; tables are looked for in folders that `may_look` takes.

    Raises:
        PolicyError: there is no folder of policies, or nothing in it.
        UsageError: there is no such target, or a variable that no file knows.

    """
    issues: list[Issue] = []
    project_file = read_project_file(project_dir, issues)
    settings = read_settings(project_file, environment, target, variables)
    folders = settings.project.folders
    sources = read_sources(project_dir, folders.policies, folders.templates)
    reader = _ProjectReader(settings, sources, project_dir, may_look)
    read = [policy for source in sources.policy_files for policy in reader.policies(source)]
    issues += [*settings.issues, *sources.issues, *reader.issues, *reader.default_issues()]
    files = (*sources.policy_files, *sources.template_files, *([project_file] if project_file else []))
    texts = {file.path: file.text for file in files}
    unique = _each_once(issues)
    if not any(issue.level == "error" for issue in unique):
        require_known(variables or {}, settings.scope.known_variables, texts.values())
    return ProjectFiles(
        sources.project_dir,
        tuple(policy for policy in read if isinstance(policy, DeclaredPolicy)),
        unique,
        settings.project.name,
        settings.target,
        texts,
        settings.target_places,
        variables or {},
        folders,
        settings.project.notify,
        tuple(policy for policy in read if isinstance(policy, DeclaredNamespace)),
        tuple(reader.refused),
    )


def _each_once(issues: Iterable[Issue]) -> tuple[Issue, ...]:
    """The issues, each at its first place: `for_each` makes a fault again for each of its policies."""
    first: dict[object, Issue] = {}
    for issue in issues:
        where = issue.where
        here = (where.path, where.line, where.column) if where is not None and where.line is not None else issue
        first.setdefault((issue.code, issue.message, here), issue)
    return tuple(first.values())


@dataclass(slots=True)
class _File(YamlDocument):
    """A file on its way: `value` is None where it is no mapping, or too much. `scope` is what its expressions reach."""

    scope: Scope = field(kw_only=True)
    value: dict[str, Any] | None = None
    #: The paths of values that an item of `for_each` is in.
    of_each: set[YamlPath] = field(default_factory=set)

    def worked_out(self, node: Node, path: YamlPath, scope: Scope | None = None, key: Node | None = None) -> Any:  # noqa: ANN401
        """The value of a node, with its expressions worked out; where it is too much the file has no value any more."""
        if self.value is None:
            return None
        reach = scope or self.scope
        try:
            return self.build(node, path, lambda scalar, at: self._rendered(scalar, at, reach), key)
        except PolicyError as error:
            self.issues.extend(error.issues)
            self.value = None
            return None

    def _rendered(self, node: ScalarNode, path: YamlPath, scope: Scope) -> Value:
        text, is_option = node.value, is_engine_option(path)
        if is_option and not has_template((references := canonical_references(text))[1]):
            return references[0]
        from etc_policy.policy.render import render

        if scope.each and "each" in text:
            self.of_each.add(path)
        value, problems = render(text, scope, is_option=is_option)
        if not problems:
            return value
        self.problems[path] = [
            Issue(problem.code, problem.message, self.place_in(node, problem.offset), problem.hint)
            for problem in problems
            if not problem.is_quiet
        ]
        return NO_VALUE

    def item(self, node: Node, path: YamlPath, scope: Scope) -> _Item:
        """A part of the file, with the problems of its own expressions."""
        others, self.problems = self.problems, {}
        value = self.worked_out(node, path, scope)
        problems, self.problems = self.problems, others
        return _Item(value, path, problems)

    def has_each(self, path: YamlPath) -> bool:
        """Whether the item of `for_each` is in the value at a path, in one around it or in a part of it."""
        return any(path == each[: len(path)] or each == path[: len(each)] for each in self.of_each)

    def shown(self, *path: str) -> str:
        """The value at a path as messages show it: what the file says where it came from the environment."""
        return str(without_secret(value_at(self.value, path)))[:60]

    def validate(self, model: type[Model]) -> Model | None:
        """The file as `model`; None when it has issues, which are then recorded."""
        if self.value is None:
            return None
        try:
            return model.from_yaml(self.value)
        except ValidationError as error:
            found = schema_issues(error, model, Places(self.marks))
            self.issues.extend(issue for path, issue in found if path not in self.problems)
            return None

    def problem_issues(self, *paths: YamlPath) -> list[Issue]:
        """What is wrong with the expressions below some paths; without one, all of it."""
        found = self.problems.items()
        return [issue for at, issues in found if not paths or any(at[: len(p)] == p for p in paths) for issue in issues]


def is_engine_option(path: YamlPath) -> bool:
    """Whether a value is an option of Hudi, of a lock or of Spark, which is passed on as it is when the engine starts."""
    keys = [str(key).lstrip("+") for key in path]
    if keys[0] == "profiles":
        return keys[4:5] == ["lock"] or keys[4:6] == ["spark", "confs"]
    return keys[0] != "vars" and ("hudi_options" in keys or ("writer", "lock") in pairwise(keys))


def _load(source: SourceFile, scope: Scope, hint: str, late: str | None = None) -> _File:
    """The file, whose `vars:` are worked out first and reach the rest; the key `late` is left to the caller.

    `hint` says how such a file begins.
    """
    file = _File(source.text, FileMarks(source.path, source.relative), scope=scope)
    try:
        root = file.root = compose(source.text, source.path)
    except PolicyError as error:
        file.issues += error.issues
        return file
    if root is not None:
        file.mark(root, ())
    if not isinstance(root, MappingNode):
        is_empty = root is None or (isinstance(root, ScalarNode) and plain_value(root) is None)
        message = f"the file is {'empty' if is_empty else 'not a mapping'}"
        file.issues.append(Issue(Code.WRONG_TYPE, message, file.marks.where(()), hint))
        return file
    value = file.value = {}
    for name, (key, node) in sorted(file.entries(root).items(), key=lambda entry: entry[0] != "vars"):
        if name != late:
            value[name] = file.worked_out(node, (name,), key=key)
        if name == "vars" and file.value is not None:
            _reach_variables(file, value[name])
    return file


def _reach_variables(file: _File, declared: Value) -> None:
    """Have the file's expressions reach its own variables; a key such as `lake:/prod` is a name without a value."""
    if not isinstance(declared, dict):
        return
    file.scope.known_variables.update(declared)
    for name, value in declared.items():
        hint = without_blank(name)
        if value is None and hint is not None:
            where = file.marks.where(("vars", name), at_key=True)
            file.issues.append(Issue(Code.WRONG_TYPE, f"the variable `{name[:60]}` has no value", where, hint))
    lost = {path[1] for path in file.problems if path[:1] == ("vars",) and len(path) > 1}
    file.scope = file.scope.with_variables({name: value for name, value in declared.items() if name not in lost})


@dataclass(frozen=True, slots=True)
class Settings:
    """The project file's content, with what is wrong in it; a project without the file has all defaults.

    `scope` is what expressions of the project's files reach; `defaults` is `policies:` with its places in `file`.
    """

    scope: Scope
    project: ProjectFile = field(default_factory=ProjectFile)
    target: Target = field(default_factory=Target)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    file: FileMarks | None = None
    issues: tuple[Issue, ...] = ()
    target_places: Places | None = None


def read_own_settings(
    project_dir: str,
    environment: Mapping[str, str],
    target: str | None,
    given: Mapping[str, Value] | None = None,
) -> Settings:
    """The settings of a run in the project; `target` is its target's name, None for the default of the profile.

    `given` are variables that win over those of the files.

    Raises:
        PolicyError: the project file has errors.
        UsageError: there is no such target.

    """
    issues: list[Issue] = []
    settings = read_settings(read_project_file(project_dir, issues), environment, target, given)
    issues += settings.issues
    if issues:
        raise PolicyError(issues)
    return settings


def read_settings(
    source: SourceFile | None, environment: Mapping[str, str], target: str | None, given: Mapping[str, Value] | None
) -> Settings:
    """The settings of a project file; of the targets only the one that is used needs its environment variables.

    Raises:
        UsageError: there is no target `target`.

    """
    begin_project()
    scope = Scope(environment, dict(given or {}))
    if source is None:
        choose_target(ProjectFile(), target)
        return Settings(replace(scope, target=_visible(Target())))
    file = _load(source, scope, _PROJECT_HINT, late="policies")
    project = file.validate(ProjectFile)
    general = [path for path in file.problems if path[0] != "profiles"]
    if project is None or general or file.issues:
        return Settings(file.scope, issues=(*file.problem_issues(*general), *file.issues), file=file.marks)
    outside = tuple(_wrong_folders(project, file))
    issues = (*_wrong_version(project, file), *_missing_targets(project, file), *outside)
    if outside:
        return Settings(file.scope, issues=issues, file=file.marks)
    if issues:  # what does not go by the target is looked at all the same
        return _with_defaults(Settings(file.scope, project, file=file.marks, issues=issues), file)
    return _with_defaults(_of_target(project, target, file), file)


def _of_target(project: ProjectFile, target: str | None, file: _File) -> Settings:
    """The settings for the target that is asked for, without `policies:`."""
    chosen = choose_target(project, target)
    if chosen is None:
        return Settings(replace(file.scope, target=_visible(Target())), project, file=file.marks)
    places = Places(file.marks, ("profiles", chosen[0], "targets", chosen[1]))
    issues = file.problem_issues(places.path)
    for place in (("lock",), ("spark", "confs")):
        for key, message in changed_secrets(value_at(file.value, (*places.path, *place))):
            issues.append(Issue(Code.CHANGED_SECRET, message, places.where((*place, key)), REFERENCE_HINT))
    paths = (("catalog", "uri"), ("table_root",))
    hidden = {path[-1] for path in paths if is_secret(value_at(file.value, (*places.path, *path)))}
    used = Target() if issues else target_of(chosen, project, hidden)
    scope = replace(file.scope, target=_visible(used))
    return Settings(scope, project, used, file=file.marks, issues=tuple(issues), target_places=places)


def _with_defaults(settings: Settings, file: _File) -> Settings:
    """The settings with `policies:`, which may name the target."""
    entry = file.entry("policies")
    if entry is None:
        return settings
    file.problems, file.issues = {}, []
    value = file.worked_out(entry[1], ("policies",), settings.scope, entry[0])
    file.value = None if file.value is None else {"policies": value}
    shape = file.validate(ProjectFile)
    issues = (*settings.issues, *file.problem_issues(), *file.issues)
    return replace(settings, defaults=value if shape else {}, issues=issues)


def _visible(target: Target) -> dict[str, Value]:
    """What templates see of the target: nothing that could be a secret."""
    database = target.catalog.database if target.catalog else None
    return {
        "name": target.name,
        "profile": target.profile,
        "table_root": target.table_root,
        "database": database,
    }


def _wrong_version(project: ProjectFile, file: _File) -> Iterator[Issue]:
    """The version of etc that runs must be one that the project takes."""
    if project.require_etc is None:
        return
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    where, shown = file.marks.where(("require_etc",)), file.shown("require_etc")
    try:
        wanted = SpecifierSet(project.require_etc, prereleases=True)
    except InvalidSpecifier:
        message = f"`{shown}` is not a range of versions"
        yield Issue(Code.WRONG_VERSION, message, where, 'write it as pip does, for example ">=0.1,<1"')
        return
    if __version__ not in wanted:
        message = f"the project wants etc {shown}, this is {__version__}"
        is_hidden = is_secret(value_at(file.value, ("require_etc",)))
        install = f"run `pip install {shlex.quote(f'etc-policy{wanted}')}`, or "
        hint = f"{'' if is_hidden else install}change `require_etc`"
        yield Issue(Code.WRONG_VERSION, message, where, hint)


def _wrong_folders(project: ProjectFile, file: _File) -> Iterator[Issue]:
    """The project's folders must lie in it; links are looked at when they are read."""
    for key, folder in project.folders:
        parts = PurePosixPath(folder).parts
        if folder.startswith("/") or ".." in parts or "\0" in folder or not parts:
            message = f"the folder `{file.shown('folders', key)}` is not in the project"
            where = file.marks.where(("folders", key))
            yield Issue(Code.LEAVES_PROJECT, message, where, "name a folder of the project")


def _missing_targets(project: ProjectFile, file: _File) -> Iterator[Issue]:
    """A profile's default target must exist, also where another one is asked for."""
    for name, profile in project.profiles.items():
        if profile.target not in profile.targets:
            where, shown = file.marks.where(("profiles", name, "target")), file.shown("profiles", name, "target")
            hint = did_you_mean(profile.target, profile.targets) or f"the targets are {', '.join(profile.targets)}"
            yield Issue(Code.UNKNOWN_TARGET, f"there is no target `{shown}`", where, hint)
    if project.profile is not None and project.profile not in project.profiles:
        hint = did_you_mean(project.profile, project.profiles) or "declare it under `profiles:`"
        message = f"there is no profile `{file.shown('profile')}`"
        yield Issue(Code.UNKNOWN_TARGET, message, file.marks.where(("profile",)), hint)
    if project.profile is None and len(project.profiles) > 1 and project.name not in project.profiles:
        message = "the project does not say which of its profiles it uses"
        hint = f"set `profile:` to one of {', '.join(project.profiles)}"
        yield Issue(Code.UNKNOWN_TARGET, message, file.marks.where(("profiles",), at_key=True), hint)


@dataclass(frozen=True, slots=True)
class _Layer:
    """Keys of a policy that are in one place: each with its value and its path in `file`."""

    file: FileMarks
    entries: Mapping[str, tuple[Any, YamlPath]] = field(default_factory=dict)

    @classmethod
    def of(cls, value: Mapping[str, Any], file: FileMarks, path: YamlPath) -> _Layer:
        """A mapping of a file as a layer."""
        return cls(file, {key: (item, (*path, key)) for key, item in value.items()})


@dataclass(slots=True)
class _Template:
    """A file that policies extend."""

    layer: _Layer
    extends: str | None = None
    broken: bool = False


@dataclass(frozen=True, slots=True)
class _Item:
    """A policy as a file says it, `path` in the file; `problems` say for each path why there is no value."""

    value: Any
    path: YamlPath
    problems: Mapping[YamlPath, list[Issue]] = field(default_factory=dict)
    #: The table's folder, where a glob has found it.
    folder: str | None = None

    @property
    def name(self) -> str | None:
        """Its name, as far as it can be shown."""
        name = self.value.get("name") if isinstance(self.value, dict) else None
        return name if isinstance(name, str) and len(name) <= 60 and name != NO_VALUE and not is_secret(name) else None

    def problem_issues(self) -> Iterator[tuple[YamlPath, Issue]]:
        """What is wrong with its expressions, each with its path in the item."""
        for path, issue in ((path, issue) for path, issues in self.problems.items() for issue in issues):
            where = replace(issue.where, object_name=self.name) if issue.where else None
            yield path[len(self.path) :], replace(issue, where=where)


class _ProjectReader:
    """Reads policy files in the light of the project's settings, templates and defaults."""

    def __init__(self, settings: Settings, sources: Sources, project_dir: str, may_look: MayLook) -> None:
        self.issues, self.refused = list[Issue](), list[RefusedFolder]()
        self._scope, self._may_look = settings.scope, may_look
        root, folder = settings.target.table_root or ".", PurePosixPath(settings.project.folders.policies)
        folder_of_tables = root if ":/" in root else str(Path(project_dir) / root)
        is_hidden = settings.target.has_hidden_root
        self._table_root = EnvText.of(folder_of_tables, "table_root") if is_hidden else folder_of_tables
        #: The folders of each policy file, and its own name without suffix.
        self._parts = {
            source.relative: PurePosixPath(source.relative).relative_to(folder).with_suffix("").parts
            for source in sources.policy_files
        }
        self._default_issues: list[Issue] = []
        file, values = settings.file, settings.defaults
        self._defaults = dict(_folder_defaults(values, file, self._default_issues)) if file else {}
        self._templates = {
            PurePosixPath(file.relative).stem: self._read_template(file) for file in sources.template_files
        }

    def policies(self, source: SourceFile) -> Iterator[DeclaredPolicy | DeclaredNamespace]:
        """The file's policies and namespaces that are right by themselves; none of a file with open questions."""
        questions = list(islice(open_questions(source), MAX_ISSUES))
        if questions:
            self.issues += questions
            return
        file = _load(source, self._scope, _HINT, late="policies")
        items = list(self._items(file))
        file.validate(PolicyFileShape)
        self.issues += [*file.issues, *file.problem_issues()]
        parts = self._parts[source.relative]
        around = (self._defaults.get(parts[:length]) for length in range(len(parts) + 1))
        layers = [layer for layer in around if layer is not None and layer.entries]
        for item in items if file.value is not None else ():
            if len(self.issues) >= MAX_ISSUES:
                break
            policy, faults = self._policy(item, file.marks, layers)
            faults = [*item.problem_issues(), *faults]
            if item.folder is not None:
                found = chain(faults, _faults_of_names(policy))
                of_name = [issue for path, issue in found if file.has_each((*item.path, *path))]
                if of_name:
                    self.refused.append(RefusedFolder(item.folder, of_name[0], Places(file.marks, item.path)))
                    continue
            self.issues += (issue for _, issue in faults)
            if policy is not None:
                yield replace(policy, folder=item.folder) if isinstance(policy, DeclaredPolicy) else policy

    def _items(self, file: _File) -> Iterator[_Item]:
        """The policies that the file says, one for each item of a `for_each`."""
        value, entry = file.value, file.entry("policies")
        if value is None or entry is None:
            return
        key, node = entry
        if not isinstance(node, SequenceNode):
            value["policies"] = listed = file.worked_out(node, ("policies",), key=key)
            yield from (
                _Item(item, ("policies", n)) for n, item in enumerate(listed if isinstance(listed, list) else ())
            )
            return
        file.mark(node, ("policies",), key)
        value["policies"] = [None] * len(node.value)  # they are looked at one by one
        for number, item in enumerate(node.value):
            path: YamlPath = ("policies", number)
            if isinstance(item, MappingNode) and (each := file.entries(item).get(FOR_EACH)) is not None:
                yield from self._expanded(file, item, each[1], path)
            else:
                yield file.item(item, path, file.scope)

    def _expanded(self, file: _File, node: MappingNode, each: Node, path: YamlPath) -> Iterator[_Item]:
        """A policy for each item of its `for_each`."""
        listed = file.item(each, (*path, FOR_EACH), file.scope)
        file.issues.extend(issue for _, issue in listed.problem_issues())
        if listed.problems:
            return
        pairs = [pair for pair in node.value if pair[0].value != FOR_EACH]
        rest = MappingNode(node.tag, pairs, node.start_mark, node.end_mark)
        where, refused = file.marks.where((*path, FOR_EACH)), list[tuple[str, Issue]]()
        is_glob, count = isinstance(listed.value, str), file.count
        for each_item in self._each(listed.value, where, file.issues, refused):
            if file.value is None:  # it was too much
                return
            if is_glob:  # how many they are is not for the file to say
                file.count = count
            item = file.item(rest, path, file.scope.with_each(each_item))
            shown = "name" if is_secret(listed.value) else "path"
            yield replace(item, folder=str(each_item[shown])) if isinstance(each_item, dict) and is_glob else item
        self.refused += (RefusedFolder(folder, issue, Places(file.marks, path)) for folder, issue in refused)

    def _each(self, value: Value, where: Where, issues: list[Issue], refused: list[tuple[str, Issue]]) -> list[Value]:
        """What `each` is in turn; what is wrong goes to `issues`, or to `refused` where what lies in folders is at fault."""
        if isinstance(value, dict):
            found: list[Value] = [{"key": key, "value": item} for key, item in value.items()]
        elif isinstance(value, list):
            found = value
        elif isinstance(value, str) and value:
            paths = find_tables(value, self._table_root, where, issues, refused, self._may_look)
            found = [{"path": path, "name": PurePosixPath(path).name} for path in paths]
        else:
            message = "`for_each` goes through a list, a mapping or the tables of a glob"
            issues.append(Issue(Code.BAD_FOR_EACH, message, where, _FORMS))
            return []
        if len(found) > MAX_ITEMS:
            issue = Issue(Code.TOO_BIG, f"`for_each` has more than {MAX_ITEMS:,} items", where, "split the list")
            if isinstance(value, str):
                refused.append((str(without_secret(value)), issue))
            else:
                issues.append(issue)
        return found[:MAX_ITEMS]

    def _policy(
        self, item: _Item, file: FileMarks, layers: list[_Layer]
    ) -> tuple[DeclaredPolicy | DeclaredNamespace | None, list[tuple[YamlPath, Issue]]]:
        """The policy if it is right by itself, else what is wrong, each with its path in the item."""
        value, places, is_whole = self._merged(item, file, layers)
        is_namespace = isinstance(value, dict) and not value.keys().isdisjoint(("tables", "exclude"))
        try:
            declaration = (PolicyEntry if is_namespace else PolicyDeclaration).from_yaml(value)
        except ValidationError as error:
            unrendered, whole = {path[2:] for path in item.problems}, f"policies[{item.path[1]}]"
            faults = list[tuple[YamlPath, Issue]]()
            for path, issue in schema_issues(error, PolicyEntry, places, name=item.name, whole=whole):
                is_missing = issue.code == Code.MISSING_KEY
                is_elsewhere = issue.where is not None and issue.where.path != file.path
                if path not in unrendered and (is_whole if is_missing else not is_elsewhere):
                    faults.append((path, issue))
            return None, faults
        if not is_whole:
            return None, []
        if (learned := declaration.learned_latency) is not None:
            declaration = declaration.model_copy(update={"data_latency_ms": learned.at_most_ms})
            value = {**value, _LATENCY: value[LEARNED]["at_most"]}
        if isinstance(declaration, PolicyEntry):
            return _namespace(declaration, places, value), []
        return DeclaredPolicy(declaration, places, value), []

    def _merged(self, item: _Item, file: FileMarks, layers: list[_Layer]) -> tuple[Any, Places, bool]:
        """What the item and all that is below it come to, its places, and whether no part of it is missing."""
        value, places, is_whole = item.value, Places(file, item.path), not item.problems
        if not isinstance(value, dict):
            return value, places, is_whole
        if LEARNED in value:
            self.issues.append(_not_by_its_name(places, item.name))
            value, is_whole = {key: one for key, one in value.items() if key != LEARNED}, False
        if layers or "extends" in value:
            inherited = (layer.entries["extends"][0] for layer in reversed(layers) if "extends" in layer.entries)
            extends = value["extends"] if "extends" in value else next(inherited, None)
            templates, are_right = self._templates_of(extends, places, item.name)
            is_whole &= are_right
            value, places = merge([*layers, *templates, _Layer.of(value, file, item.path)], file, item.path)
        return *_learning(value, places), is_whole

    def _templates_of(self, name: object, places: Places, policy: str | None) -> tuple[list[_Layer], bool]:
        """The layers of a template and those it extends, outermost first; False where one is missing or broken."""
        layers, seen, are_right = list[_Layer](), list[str](), True
        while isinstance(name, str):
            template, where = self._templates.get(name), places.where(("extends",), policy)
            if template is None:
                known = ", ".join(self._templates)
                others = f"the templates are {known}" if known else "there are none: write `templates/<name>.yml`"
                near = None if is_secret(name) else did_you_mean(name, self._templates)
                hint, message = near or others, f"there is no template `{str(without_secret(name))[:60]}`"
                self.issues.append(Issue(Code.UNKNOWN_TEMPLATE, message, where, hint))
                return layers, False
            if name in seen or len(seen) > _MAX_EXTENDS:
                message = f"templates extend each other in a circle: {' -> '.join([*seen, name])[:200]}"
                self.issues.append(Issue(Code.TEMPLATE_CIRCLE, message, where, "remove `extends` from one of them"))
                return layers, False
            seen.append(name)
            layers.insert(0, template.layer)
            are_right &= not template.broken
            name, places = template.extends, Places(template.layer.file, ("template",))
        return layers, are_right

    def _read_template(self, source: SourceFile) -> _Template:
        file = _load(source, self._scope, _TEMPLATE_HINT)
        shape = file.validate(TemplateFile)
        value = file.value["template"] if shape and file.value else {}
        layer = _Layer.of(value, file.marks, ("template",))
        found = list(_partial_issues(layer, {path[1:] for path in file.problems}))
        self.issues += [*file.issues, *file.problem_issues(), *found]
        extends = value.get("extends")
        entries = {key: entry for key, entry in layer.entries.items() if key in PolicyDeclaration.names_by_key()}
        broken = shape is None or bool(file.problems) or bool(found)
        return _Template(_Layer(layer.file, entries), extends if isinstance(extends, str) else None, broken)

    def default_issues(self) -> Iterator[Issue]:
        """What is wrong with the defaults of folders: keys, folders in which no policy file lies, and values."""
        known = {parts[:length] for parts in self._parts.values() for length in range(len(parts) + 1)}
        yield from self._default_issues
        for parts, layer in self._defaults.items():
            if parts not in known:
                message = f"there is no folder or file `{'/'.join(parts)}` among the policies"
                hint = did_you_mean("/".join(parts), {"/".join(one) for one in known if one})
                where = layer.file.where(("policies", *parts), at_key=True)
                yield Issue(Code.UNUSED_DEFAULTS, message, where, hint, level="warning")
        for layer in self._defaults.values():
            entries = {key: entry for key, entry in layer.entries.items() if key in DEFAULT_KEYS}
            yield from _partial_issues(_Layer(layer.file, entries), ())


def _faults_of_names(policy: DeclaredPolicy | DeclaredNamespace | None) -> Iterator[tuple[YamlPath, Issue]]:
    """What is wrong with the table and the RO table of a policy, whose names may be those of found folders."""
    if isinstance(policy, DeclaredPolicy):
        alone = CheckedProject("", (policy,), (policy,), Target(), None, frozenset())
        yield from ((("table",), issue) for issue in tables_are_locations(alone))
        yield from ((("sync", "ro_table"), issue) for issue in ro_tables_are_catalog_names(alone))


def _folder_defaults(
    values: Mapping[str, Any], file: FileMarks, issues: list[Issue], parts: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], _Layer]]:
    """The defaults of a folder and of those in it, each by the names that lead to it, written as in dbt: `+key: value`.

    What is neither a key of a policy nor a folder goes to `issues`.
    """
    path = ("policies", *parts)
    yield parts, _Layer(file, {key[1:]: (value, (*path, key)) for key, value in values.items() if key.startswith("+")})
    for key, value in values.items():
        where = file.where((*path, key), at_key=True)
        if not key.startswith("+") and isinstance(value, dict):
            yield from _folder_defaults(value, file, issues, (*parts, key))
        elif not key.startswith("+"):
            near = f"write `+{key}`" if key in DEFAULT_KEYS else did_you_mean(key, DEFAULT_KEYS)
            hint = near or "a folder holds a mapping"
            issues.append(Issue(Code.WRONG_TYPE, f"`{key[:60]}` must be a folder's defaults", where, hint))
        elif key in ("+name", "+table"):
            issues.append(Issue(Code.UNKNOWN_KEY, f"`{key}` is different for each policy", where, "remove it"))
        elif key[1:] not in DEFAULT_KEYS:
            near = did_you_mean(key, [f"+{known}" for known in DEFAULT_KEYS])
            hint = near or "the keys are those of a policy, with `+`"
            issues.append(Issue(Code.UNKNOWN_KEY, f"unknown key `{key[:60]}`", where, hint))


def merge(layers: Iterable[_Layer], file: FileMarks, path: YamlPath) -> tuple[dict[str, Any], Places]:
    """The layers laid over each other, the last on top: mappings are merged in depth, all else is replaced.

    With the place of each part; `path` is the policy's own.
    """
    merged: dict[str, Any] = {}
    origins: dict[YamlPath, tuple[FileMarks, YamlPath]] = {}

    def put(into: dict[str, Any], value: Any, at: YamlPath, origin: tuple[FileMarks, YamlPath]) -> None:  # noqa: ANN401
        old, key = into.get(str(at[-1])), str(at[-1])
        if isinstance(old, dict) and isinstance(value, dict):
            if (below := origins.get(at)) is not None:
                for inner in old:
                    origins.setdefault((*at, inner), (below[0], (*below[1], inner)))
            into[key] = old = dict(old)
            for inner, item in value.items():
                put(old, item, (*at, inner), (origin[0], (*origin[1], inner)))
        else:
            for stale in [known for known in origins if known[: len(at)] == at] if isinstance(old, dict | list) else ():
                del origins[stale]
            into[key] = value
        origins[at] = origin

    for layer in layers:
        for key, (value, place) in layer.entries.items():
            if (
                key == _COLUMN
                and isinstance(merged.get(key), str)
                and isinstance(value, dict)
                and "column" not in value
            ):
                # a bare name below a mapping without `column` is the mapping's column
                merged[key], origins[(key, "column")] = {"column": merged[key]}, origins[(key,)]
            put(merged, value, (key,), (layer.file, place))
    return merged, Places(file, path, origins)


def _partial_issues(layer: _Layer, unrendered: Iterable[YamlPath]) -> Iterator[Issue]:
    """What is wrong with some keys of a policy; none of them is required."""
    merged, places = merge([layer], layer.file, ())
    for key in {"name", "table", "tables", "exclude", FOR_EACH} & merged.keys():
        message = f"`{key}` is different for each policy"
        yield Issue(Code.UNKNOWN_KEY, message, places.where((key,), at_key=True), "remove it")
        del merged[key]
    if LEARNED in merged:
        yield _not_by_its_name(places)
        del merged[LEARNED]
    merged, places = _learning(merged, places)
    try:
        PolicyDeclaration.from_yaml({"name": "x", "table": "x", "data_latency": "1m", _COLUMN: "x"} | merged)
    except ValidationError as error:
        skipped = set(unrendered)
        for path, issue in schema_issues(error, PolicyDeclaration, places):
            if path not in skipped and issue.code != Code.MISSING_KEY:
                yield issue


def _not_by_its_name(places: Places, policy: str | None = None) -> Issue:
    """The issue of a file that names what only reading makes of `data_latency`."""
    where = places.where((LEARNED,), policy, at_key=True)
    return Issue(Code.UNKNOWN_KEY, f"unknown key `{LEARNED}`", where, f"write the mapping as `{_LATENCY}`")


def _learning(value: dict[str, Any], places: Places) -> tuple[dict[str, Any], Places]:
    """A `data_latency` that is a mapping as `learned_latency`, in its place; until it is learned it is as long as it may be."""
    if not isinstance(value.get(_LATENCY), dict):
        return value, places
    file, path = places.origin((_LATENCY,))
    origins = {**places.origins, (LEARNED,): (file, path), (_LATENCY,): (file, (*path, "at_most"))}
    inner = {key[1:]: origin for key, origin in places.origins.items() if key[:1] == (_LATENCY,) and len(key) > 1}
    origins |= {(LEARNED, *key): origin for key, origin in inner.items()}
    return {**value, LEARNED: value[_LATENCY], _LATENCY: "1d"}, Places(places.file, places.path, origins)


def _namespace(entry: PolicyEntry, places: Places, merged: dict[str, Any]) -> DeclaredNamespace | None:
    """The namespace; the place of what it finds is that of `tables`."""
    if entry.tables is None:
        return None
    table = {"table": str(entry.tables)}
    values = {key: value for key, value in merged.items() if key not in ("tables", "exclude")} | table
    fields = {name: getattr(entry, name) for name in PolicyDeclaration.model_fields} | table
    origins = {**places.origins, ("table",): (places.file, (*places.path, "tables"))}
    placed = Places(places.file, places.path, origins)
    policy = DeclaredPolicy(PolicyDeclaration.model_construct(**fields), placed, values)
    return DeclaredNamespace(entry.tables, entry.exclude, policy)
