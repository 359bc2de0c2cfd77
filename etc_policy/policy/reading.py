"""From a project folder to validated policies; every fault is gathered, none raised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import ValidationError
from yaml.nodes import MappingNode, Node, SequenceNode

from etc_policy.errors import Issue
from etc_policy.errors.codes import Code
from etc_policy.policy.files import MayLook, SourceFile, Sources, open_questions, read_project_file, read_sources
from etc_policy.policy.findings import schema_issues
from etc_policy.policy.layers import DEFAULT_KEYS, FolderDefaults, Layer, layer_of, merge
from etc_policy.policy.loading import FOR_EACH, NO_VALUE, Loaded, items_of, load_file
from etc_policy.policy.project import DeclaredNamespace, DeclaredPolicy, FileMarks, Places, ProjectFiles
from etc_policy.policy.schema import PolicyDeclaration, PolicyEntry, PolicyFileShape, TemplateFile
from etc_policy.policy.schema_values import LEARNED
from etc_policy.policy.scope import Scope, Value, require_known
from etc_policy.policy.secrets import is_secret
from etc_policy.policy.settings import Settings, read_settings
from etc_policy.policy.suggestions import did_you_mean
from etc_policy.policy.yaml_marks import YamlPath

_HINT = "begin with `version: 1` and `policies:`"
_TEMPLATE_HINT = "begin with `version: 1` and `template:`"
_MAX_EXTENDS = 10
#: After so many faults no further policy is looked at.
MAX_ISSUES = 1_000
_COLUMN, _LATENCY = "event_time_column", "data_latency"


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
    read = [one for source in sources.policy_files for one in reader.policies(source)]
    policies = tuple(one for one in read if isinstance(one, DeclaredPolicy))
    issues += [*settings.issues, *sources.issues, *reader.issues, *reader.default_issues()]
    files = (*sources.policy_files, *sources.template_files)
    texts = {file.path: file.text for file in (*files, *([project_file] if project_file else []))}
    unique = _each_once(issues)
    if not any(issue.level == "error" for issue in unique):
        require_known(variables or {}, settings.scope.known_variables, texts.values())
    name, target_now, places = settings.project.name, settings.target, settings.target_places
    return ProjectFiles(
        sources.project_dir,
        policies,
        unique,
        name,
        target_now,
        texts,
        places,
        variables or {},
        folders,
        settings.project.notify,
        tuple(one for one in read if isinstance(one, DeclaredNamespace)),
    )


def _each_once(issues: Iterable[Issue]) -> tuple[Issue, ...]:
    """The issues, each at its first place."""
    first: dict[object, Issue] = {}
    for issue in issues:
        first.setdefault(_once(issue), issue)
    return tuple(first.values())


def _once(issue: Issue) -> object:
    """What makes two issues the same one: `for_each` makes a fault again for each of its policies."""
    where = issue.where
    if where is None or where.line is None:
        return issue
    return issue.code, issue.message, where.path, where.line, where.column


@dataclass(slots=True)
class _Template:
    """A file that policies extend."""

    layer: Layer
    extends: str | None = None
    broken: bool = False


@dataclass(frozen=True, slots=True)
class _Item:
    """A policy as a file says it, `path` in the file; `problems` say for each path why there is no value."""

    value: Any
    path: YamlPath
    problems: Mapping[YamlPath, list[Issue]] = field(default_factory=dict)

    @property
    def name(self) -> str | None:
        """Its name, as far as it can be shown."""
        name = self.value.get("name") if isinstance(self.value, dict) else None
        return name if isinstance(name, str) and len(name) <= 60 and name != NO_VALUE and not is_secret(name) else None

    def problem_issues(self) -> Iterator[Issue]:
        """What is wrong with its expressions."""
        for issue in (issue for issues in self.problems.values() for issue in issues):
            yield replace(issue, where=replace(issue.where, object_name=self.name) if issue.where else None)


class _ProjectReader:
    """Reads policy files in the light of the project's settings, templates and defaults."""

    def __init__(self, settings: Settings, sources: Sources, project_dir: str, may_look: MayLook) -> None:
        self.issues: list[Issue] = []
        self._scope, self._sources, self._may_look = settings.scope, sources, may_look
        root = settings.target.table_root or "."
        self._table_root = root if ":/" in root else str(Path(project_dir) / root)
        self._defaults = FolderDefaults(settings.defaults, settings.file) if settings.file else None
        self._folder = PurePosixPath(settings.project.folders.policies)
        self._templates = {
            PurePosixPath(file.relative).stem: self._read_template(file) for file in sources.template_files
        }

    def policies(self, source: SourceFile) -> Iterator[DeclaredPolicy | DeclaredNamespace]:
        """The file's policies and namespaces that are right by themselves; none of a file with open questions."""
        questions = list(open_questions(source))
        if questions:
            self.issues += questions
            return
        loaded = load_file(source, self._scope, _HINT, late="policies")
        items = list(self._items(loaded))
        items = items if loaded.value is not None else []
        loaded.validate(PolicyFileShape)
        self.issues += [*loaded.issues, *loaded.problem_issues()]
        layers = list(self._defaults.layers(self._parts(source))) if self._defaults else []
        layers = [layer for layer in layers if layer.entries]
        for item in items:
            if len(self.issues) >= MAX_ISSUES:
                break
            self.issues += item.problem_issues()
            if (policy := self._policy(item, loaded.file, layers)) is not None:
                yield policy

    def _items(self, loaded: Loaded) -> Iterator[_Item]:
        """The policies that the file says, one for each item of a `for_each`."""
        document, value = loaded.document, loaded.value
        if document is None or value is None or (entry := document.entry("policies")) is None:
            return
        key, node = entry
        if not isinstance(node, SequenceNode):
            value["policies"] = loaded.build(node, ("policies",), key=key)
            found = value["policies"] if isinstance(value["policies"], list) else []
            yield from (_Item(item, ("policies", place)) for place, item in enumerate(found))
            return
        document.mark(node, ("policies",), key)
        value["policies"] = [None] * len(node.value)  # they are looked at one by one
        for place, item in enumerate(node.value):
            path: YamlPath = ("policies", place)
            if isinstance(item, MappingNode) and (each := document.entries(item).get(FOR_EACH)) is not None:
                yield from self._expanded(loaded, item, each, path)
            else:
                yield _built(loaded, item, path, loaded.scope)

    def _expanded(self, loaded: Loaded, node: MappingNode, each: tuple[Node, Node], path: YamlPath) -> Iterator[_Item]:
        """A policy for each item of its `for_each`."""
        listed = _built(loaded, each[1], (*path, FOR_EACH), loaded.scope)
        loaded.issues += listed.problem_issues()
        if listed.problems or loaded.document is None:
            return
        rest = MappingNode(
            node.tag, [pair for pair in node.value if pair[0].value != FOR_EACH], node.start_mark, node.end_mark
        )
        where = loaded.file.where((*path, FOR_EACH))
        for item in items_of(listed.value, self._table_root, where, loaded.issues, self._may_look):
            if loaded.document is not None:  # it was not too much yet
                yield _built(loaded, rest, path, loaded.scope.with_each(item))

    def default_issues(self) -> Iterator[Issue]:
        """What is wrong with the defaults of folders."""
        if self._defaults is None:
            return
        yield from self._defaults.issues(self._parts(source) for source in self._sources.policy_files)
        for layer in self._defaults.all_layers():
            known = {key: entry for key, entry in layer.entries.items() if key in DEFAULT_KEYS}
            yield from _partial_issues(replace(layer, entries=known), ())

    def _parts(self, source: SourceFile) -> tuple[str, ...]:
        path = PurePosixPath(source.relative).relative_to(self._folder)
        return (*path.parent.parts, path.stem)

    def _policy(self, item: _Item, file: FileMarks, layers: list[Layer]) -> DeclaredPolicy | DeclaredNamespace | None:
        value, path, name = item.value, item.path, item.name
        places, merged = Places(file, path), value
        problems = {place[2:] for place in item.problems}
        broken = bool(problems)
        if isinstance(value, dict) and LEARNED in value:
            self.issues.append(_not_by_its_name(places, name))
            merged = value = {key: one for key, one in value.items() if key != LEARNED}
            broken = True
        if isinstance(value, dict) and (layers or "extends" in value):
            inherited = (layer.entries["extends"][0] for layer in reversed(layers) if "extends" in layer.entries)
            extends = value["extends"] if "extends" in value else next(inherited, None)
            own = layer_of(value, file, path)
            templates, known = self._templates_of(extends, Places(file, path), name)
            broken |= not known
            merged, places = merge([*layers, *templates, own], file, path)
        if isinstance(merged, dict) and isinstance(merged.get(_LATENCY), dict):
            merged, places = _learning(merged, places)
        finds = isinstance(merged, dict) and not merged.keys().isdisjoint(("tables", "exclude"))
        try:
            declaration = (PolicyEntry if finds else PolicyDeclaration).from_yaml(merged)
        except ValidationError as error:
            whole = f"policies[{path[1]}]"
            for place, issue in schema_issues(error, PolicyEntry, places, name=name, whole=whole):
                missing = issue.code == Code.MISSING_KEY
                elsewhere = issue.where is not None and issue.where.path != file.path and not missing
                if place not in problems and not (missing and broken) and not elsewhere:
                    self.issues.append(issue)
            return None
        if broken:
            return None
        if (learned := declaration.learned_latency) is not None:
            declaration = declaration.model_copy(update={"data_latency_ms": learned.at_most_ms})
            merged = {**merged, _LATENCY: merged[LEARNED]["at_most"]}
        return (
            _namespace(declaration, places, merged)
            if isinstance(declaration, PolicyEntry)
            else DeclaredPolicy(declaration, places, merged)
        )

    def _templates_of(self, name: object, places: Places, policy: str | None) -> tuple[list[Layer], bool]:
        """The layers of a template and those it extends, outermost first; False where one is missing or broken."""
        layers: list[Layer] = []
        seen: list[str] = []
        right = True
        while isinstance(name, str) and not is_secret(name):
            template = self._templates.get(name)
            where = places.where(("extends",), policy)
            if template is None:
                known = ", ".join(self._templates)
                others = f"the templates are {known}" if known else "there are none: write `templates/<name>.yml`"
                hint, message = did_you_mean(name, self._templates) or others, f"there is no template `{name[:60]}`"
                self.issues.append(Issue(Code.UNKNOWN_TEMPLATE, message, where, hint))
                return layers, False
            if name in seen or len(seen) > _MAX_EXTENDS:
                message = f"templates extend each other in a circle: {' -> '.join([*seen, name])[:200]}"
                self.issues.append(Issue(Code.TEMPLATE_CIRCLE, message, where, "remove `extends` from one of them"))
                return layers, False
            seen.append(name)
            layers.insert(0, template.layer)
            right &= not template.broken
            name, places = template.extends, Places(template.layer.file, ("template",))
        return layers, right

    def _read_template(self, source: SourceFile) -> _Template:
        loaded = load_file(source, self._scope, _TEMPLATE_HINT)
        shape = loaded.validate(TemplateFile)
        self.issues += [*loaded.issues, *loaded.problem_issues()]
        value = loaded.value["template"] if shape and loaded.value else {}
        layer = layer_of(value, loaded.file, ("template",))
        found = list(_partial_issues(layer, {path[1:] for path in loaded.problems}))
        self.issues += found
        extends = value.get("extends")
        entries = {key: entry for key, entry in layer.entries.items() if key in PolicyDeclaration.names_by_key()}
        broken = shape is None or bool(loaded.problems) or bool(found)
        return _Template(Layer(layer.file, entries), extends if isinstance(extends, str) else None, broken)


def _partial_issues(layer: Layer, unrendered: Iterable[YamlPath]) -> Iterator[Issue]:
    """What is wrong with some keys of a policy; none of them is required."""
    merged, places = merge([layer], layer.file, ())
    for key in ("name", "table", "tables", "exclude", FOR_EACH):
        if key in merged:
            message = f"`{key}` is different for each policy"
            yield Issue(Code.UNKNOWN_KEY, message, places.where((key,), at_key=True), "remove it")
            del merged[key]
    if LEARNED in merged:
        yield _not_by_its_name(places)
        del merged[LEARNED]
    if isinstance(merged.get(_LATENCY), dict):
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


def _learning(merged: dict[str, Any], places: Places) -> tuple[dict[str, Any], Places]:
    """A `data_latency` that is a mapping as `learned_latency`, in its place; until it is learned it is as long as it may be."""
    file, path = places.origin((_LATENCY,))
    origins = {**places.origins, (LEARNED,): (file, path), (_LATENCY,): (file, (*path, "at_most"))}
    inner = {key[1:]: origin for key, origin in places.origins.items() if key[:1] == (_LATENCY,) and len(key) > 1}
    origins |= {(LEARNED, *key): origin for key, origin in inner.items()}
    return {**merged, LEARNED: merged[_LATENCY], _LATENCY: "1d"}, Places(places.file, places.path, origins)


def _namespace(entry: PolicyEntry, places: Places, merged: dict[str, Any]) -> DeclaredNamespace | None:
    """The namespace; the place of what it finds is that of `tables`."""
    if entry.tables is None:
        return None
    kept = {name: getattr(entry, name) for name in PolicyDeclaration.model_fields} | {"table": str(entry.tables)}
    values = {key: value for key, value in merged.items() if key not in ("tables", "exclude")}
    origins = {**places.origins, ("table",): (places.file, (*places.path, "tables"))}
    placed = Places(places.file, places.path, origins)
    policy = DeclaredPolicy(PolicyDeclaration.model_construct(**kept), placed, {**values, "table": str(entry.tables)})
    return DeclaredNamespace(entry.tables, entry.exclude, policy)


def _built(loaded: Loaded, node: Node, path: YamlPath, scope: Scope) -> _Item:
    """A part of a file, with the problems of its own expressions."""
    kept, loaded.problems = loaded.problems, {}
    value = loaded.build(node, path, scope)
    problems, loaded.problems = loaded.problems, kept
    return _Item(value, path, problems)
