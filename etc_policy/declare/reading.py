"""From a project folder to validated policies; every fault is gathered, none raised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from etc_policy.codes.registry import Code
from etc_policy.declare.findings import schema_issues
from etc_policy.declare.layers import DEFAULT_KEYS, FolderDefaults, Layer, layer_of, merge
from etc_policy.declare.loading import Loaded, load_file, own_variables
from etc_policy.declare.project import DeclaredPolicy, Places, ProjectFiles, value_at
from etc_policy.declare.schema import PolicyDeclaration, PolicyFileShape, TemplateFile
from etc_policy.declare.secrets import EnvText, without_secrets
from etc_policy.declare.settings import Settings, read_settings
from etc_policy.declare.sources import SourceFile, Sources, read_project_file, read_sources
from etc_policy.declare.suggestions import did_you_mean
from etc_policy.declare.variables import require_known
from etc_policy.declare.yaml_marks import NO_VALUE, YamlPath
from etc_policy.errors import Issue, Where

if TYPE_CHECKING:
    from etc_policy.declare.templating.program import MacroSource
    from etc_policy.declare.templating.values import Value

_HINT = "begin with `version: 1` and `policies:`"
_TEMPLATE_HINT = "begin with `version: 1` and `template:`"
_MAX_EXTENDS = 10
#: After so many faults no further policy is looked at.
MAX_ISSUES = 1_000
_COLUMN = "event_time_column"


def read_project(
    project_dir: str,
    environment: Mapping[str, str],
    variables: Mapping[str, Value] | None = None,
    target: str | None = None,
) -> ProjectFiles:
    """The project's policies with their places, and every issue of its files.

    `environment` serves `env_var`; `variables` win over `vars:` in the files; `target` names one of the profile's
    targets, None for its default.

    Raises:
        PolicyError: there is no folder of policies, or nothing in it.
        UsageError: there is no such target, or a variable that no file knows.

    """
    issues: list[Issue] = []
    project_file = read_project_file(project_dir, issues)
    settings = read_settings(project_file, environment, target, variables)
    folders = settings.project.folders
    sources = read_sources(project_dir, folders.policies, folders.templates)
    reader = _ProjectReader(settings, sources, dict(variables or {}))
    policies = tuple(policy for source in sources.policy_files for policy in reader.policies(source))
    issues += [*settings.issues, *sources.issues, *reader.issues, *reader.default_issues()]
    files = (*sources.policy_files, *sources.template_files, *sources.macro_files)
    texts = {file.path: file.text for file in (*files, *([project_file] if project_file else []))}
    first: dict[object, Issue] = {}
    for issue in issues:
        first.setdefault(_once(issue), issue)
    unique = tuple(first.values())
    if not any(issue.level == "error" for issue in unique):
        require_known(variables or {}, settings.context.known_variables, texts.values())
    name, target_now, places = settings.project.name, settings.target, settings.target_places
    return ProjectFiles(
        sources.project_dir, policies, unique, name, target_now, texts, places, variables or {}, folders
    )


def _once(issue: Issue) -> object:
    """What makes two issues the same one: a loop makes a fault again in each round, for another policy."""
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


class _ProjectReader:
    """Reads policy files in the light of the project's settings, macros, templates and defaults."""

    def __init__(self, settings: Settings, sources: Sources, given: Mapping[str, Value]) -> None:
        self.issues: list[Issue] = []
        self._given, self._sources = given, sources
        self._context = replace(settings.context, macros=self._read_macros(sources.macro_files))
        self._defaults = FolderDefaults(settings.defaults, settings.file) if settings.file else None
        self._folder = PurePosixPath(settings.project.folders.policies)
        self._templates = {
            PurePosixPath(file.relative).stem: self._read_template(file) for file in sources.template_files
        }

    def policies(self, source: SourceFile) -> Iterator[DeclaredPolicy]:
        """The file's policies that are right by themselves."""
        loaded = self._load(source, _HINT)
        shape = loaded.validate(PolicyFileShape)
        self.issues += loaded.issues
        found = loaded.value.get("policies") if loaded.value else None
        items = found if isinstance(found, list) else []
        names: dict[YamlPath, str] = {
            ("policies", place): name for place, item in enumerate(items) if (name := _name_of(item))
        }
        self.issues += [issue for path, issue in loaded.template_issues(names) if path[:1] != ("vars",)]
        layers = list(self._defaults.layers(self._parts(source))) if self._defaults else []
        layers = [layer for layer in layers if layer.entries]
        for place, value in enumerate(items):
            if len(self.issues) >= MAX_ISSUES:
                break
            policy = self._policy(value, loaded, ("policies", place), layers)
            if policy is not None and (shape is not None or loaded.value):
                yield policy

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

    def _load(self, source: SourceFile, hint: str) -> Loaded:
        own, issues = own_variables(source, self._context, hint)
        shared = self._context.variables
        loaded = load_file(source, replace(self._context, variables={**shared, **own, **self._given}), hint)
        self.issues += issues
        return loaded

    def _policy(self, value: Any, loaded: Loaded, path: YamlPath, layers: list[Layer]) -> DeclaredPolicy | None:  # noqa: ANN401
        places, merged, name = Places(loaded.file, path), value, _name_of(value)
        problems = {place[2:] for place in loaded.problems if place[:2] == path}
        broken = bool(problems)
        if isinstance(value, dict) and (layers or "extends" in value):
            inherited = (layer.entries["extends"][0] for layer in reversed(layers) if "extends" in layer.entries)
            extends = value["extends"] if "extends" in value else next(inherited, None)
            own = layer_of(value, loaded.file, path)
            templates, known = self._templates_of(extends, Places(loaded.file, path), name)
            broken |= not known
            merged, places = merge([*layers, *templates, own], loaded.file, path)
        try:
            declaration = PolicyDeclaration.model_validate(merged)
        except ValidationError as error:
            whole = f"policies[{path[1]}]"
            found = schema_issues(error, merged, PolicyDeclaration, places, name=name, whole=whole)
            own_path = loaded.file.path
            for place, issue in found:
                missing = issue.code == Code.MISSING_KEY
                elsewhere = issue.where is not None and issue.where.path != own_path and not missing
                lost = place in problems or (missing and broken) or loaded.may_be_lost(merged, place)
                if not lost and not elsewhere:
                    self.issues.append(issue)
            return None
        if broken:
            return None
        return DeclaredPolicy(_guarded(declaration, merged), places, merged)

    def _templates_of(self, name: object, places: Places, policy: str | None) -> tuple[list[Layer], bool]:
        """The layers of a template and those it extends, outermost first; False where one is missing or broken."""
        layers: list[Layer] = []
        seen: list[str] = []
        right = True
        while isinstance(name, str) and not isinstance(name, EnvText):
            template = self._templates.get(name)
            where = places.where(("extends",), policy)
            if template is None:
                others = f"the templates are {', '.join(self._templates) or 'none'}, files `templates/<name>.yml`"
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
        loaded = self._load(source, _TEMPLATE_HINT)
        shape = loaded.validate(TemplateFile)
        self.issues += [*loaded.issues, *(issue for _, issue in loaded.template_issues())]
        value = loaded.value["template"] if shape and loaded.value else {}
        layer = layer_of(value, loaded.file, ("template",))
        found = list(_partial_issues(layer, {path[1:] for path in loaded.problems}))
        self.issues += found
        extends = value.get("extends")
        entries = {key: entry for key, entry in layer.entries.items() if key in PolicyDeclaration.model_fields}
        broken = shape is None or bool(loaded.problems) or bool(found)
        return _Template(Layer(layer.file, entries), extends if isinstance(extends, str) else None, broken)

    def _read_macros(self, files: Iterable[SourceFile]) -> dict[str, MacroSource]:
        macros: dict[str, MacroSource] = {}
        for file in files:
            from etc_policy.declare.templating.program import read_macros

            found, problems = read_macros(file.text)
            self.issues += [problem.issue(file.path) for problem in problems]
            for name, macro in found.items():
                if name in macros:
                    where = Where(file.path, *macro.place)
                    message = f"there are two macros `{name}`"
                    self.issues.append(Issue(Code.DUPLICATE_MACRO, message, where, "rename one of them"))
                macros.setdefault(name, macro)
        return macros


def _partial_issues(layer: Layer, unrendered: Iterable[YamlPath]) -> Iterator[Issue]:
    """What is wrong with some keys of a policy; none of them is required."""
    merged, places = merge([layer], layer.file, ())
    for key in ("name", "table"):
        if key in merged:
            message = f"`{key}` is different for each policy"
            yield Issue(Code.UNKNOWN_KEY, message, places.where((key,), at_key=True), "remove it")
            del merged[key]
    try:
        PolicyDeclaration.model_validate({"name": "x", "table": "x", "data_latency": "1m", _COLUMN: "x"} | merged)
    except ValidationError as error:
        skipped = set(unrendered)
        for path, issue in schema_issues(error, merged, PolicyDeclaration, places):
            if path not in skipped and issue.code != Code.MISSING_KEY:
                yield issue


def _guarded(declaration: PolicyDeclaration, merged: Mapping[str, Any]) -> PolicyDeclaration:
    """The policy with references in place of what its options took from the environment."""
    options, lock = merged.get("hudi_options"), value_at(merged, ("writer", "lock"))
    changes: dict[str, Any] = {}
    if isinstance(options, dict) and without_secrets(options) != options:
        changes["hudi_options"] = without_secrets(options)
    if isinstance(lock, dict) and without_secrets(lock) != lock:
        changes["writer"] = declaration.writer.model_copy(update={"lock": without_secrets(lock)})
    return declaration.model_copy(update=changes) if changes else declaration


def _name_of(value: object) -> str | None:
    name = value.get("name") if isinstance(value, dict) else None
    return name if isinstance(name, str) and len(name) <= 60 and name != NO_VALUE else None
