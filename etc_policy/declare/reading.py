"""From a project folder to validated policies: read, mark, render, validate; every fault is gathered, none raised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from etc_policy.declare.codes import Code
from etc_policy.declare.findings import schema_issues
from etc_policy.declare.project import DeclaredPolicy, FileMarks, ProjectFiles
from etc_policy.declare.schema import PolicyDeclaration, PolicyFile, ProjectFile
from etc_policy.declare.sources import SourceFile, read_sources
from etc_policy.declare.templating import Renderer, Scalar, TemplateProblem
from etc_policy.declare.yaml_marks import YamlPath, load_marked
from etc_policy.errors import Issue, PolicyError

Model = TypeVar("Model", bound=BaseModel)


def read_project(
    project_dir: str, environment: Mapping[str, str], variables: Mapping[str, Scalar] | None = None
) -> ProjectFiles:
    """The project's policies with their places, and every issue of its files.

    `environment` serves `env_var`; `variables` win over `vars:` in the files.

    Raises:
        PolicyError: there is no `policies` folder, or nothing in it.

    """
    sources = read_sources(project_dir)
    issues = list(sources.issues)
    shared = _project_variables(sources.project_file, environment, issues) if sources.project_file else {}
    policies: list[DeclaredPolicy] = []
    for source in sources.policy_files:
        reader = _FileReader(source, environment)
        policies += reader.policies(shared, variables or {})
        issues += reader.issues
    return ProjectFiles(sources.project_dir, tuple(policies), tuple(issues))


def _project_variables(source: SourceFile, environment: Mapping[str, str], issues: list[Issue]) -> dict[str, Scalar]:
    reader = _FileReader(source, environment)
    variables = reader.variables()
    reader.validate(ProjectFile)
    issues += reader.issues
    return variables


class _FileReader:
    """Reads one file; `issues` fills up on the way."""

    def __init__(self, source: SourceFile, environment: Mapping[str, str]) -> None:
        self.issues: list[Issue] = []
        self._environment = environment
        self._file = FileMarks(source.path, source.relative, {})
        self._unrendered: set[YamlPath] = set()
        self._value: dict[str, Any] | None = None
        try:
            marked = load_marked(source.text, source.path)
        except PolicyError as error:
            self.issues += error.issues
            return
        self._file = FileMarks(source.path, source.relative, marked.marks)
        if isinstance(marked.value, dict):
            self._value = marked.value
        else:
            kind = "empty" if marked.value is None else "no mapping"
            hint = "begin with `version: 1` and `policies:`"
            self.issues.append(Issue(Code.WRONG_TYPE, f"the file is {kind}", self._file.where(()), hint))

    def variables(self) -> dict[str, Scalar]:
        """The file's own `vars:`, rendered with the environment alone."""
        declared = self._value.get("vars") if self._value else None
        if self._value is None or not isinstance(declared, dict):
            return {}
        self._value = {**self._value, "vars": self._render(declared, ("vars",), Renderer({}, self._environment))}
        rendered = self._value["vars"]
        return {name: value for name, value in rendered.items() if isinstance(value, str | int | float)}

    def policies(self, shared: Mapping[str, Scalar], given: Mapping[str, Scalar]) -> Iterator[DeclaredPolicy]:
        """The policies that are right by themselves."""
        renderer = Renderer({**shared, **self.variables(), **given}, self._environment)
        if self._value is not None:
            rest = {key: value for key, value in self._value.items() if key != "vars"}
            self._value |= self._render(rest, (), renderer)
        declared = self.validate(PolicyFile)
        if declared is not None:
            for place, declaration in enumerate(declared.policies):
                yield DeclaredPolicy(declaration, self._file, ("policies", place))
        elif self._value is not None and isinstance(self._value.get("policies"), list):
            yield from self._right_ones(self._value["policies"])

    def validate(self, model: type[Model]) -> Model | None:
        """The file as `model`; None when it has issues, which are then recorded."""
        if self._value is None:
            return None
        try:
            validated = model.model_validate(self._value)
        except ValidationError as error:
            found = schema_issues(error, self._value, model, self._file)
            self.issues += [issue for path, issue in found if path not in self._unrendered]
            return None
        return None if self._unrendered else validated

    def _right_ones(self, items: list[Any]) -> Iterator[DeclaredPolicy]:
        for place, item in enumerate(items):
            path: YamlPath = ("policies", place)
            if any(unrendered[:2] == path for unrendered in self._unrendered):
                continue
            try:
                declaration = PolicyDeclaration.model_validate(item)
            except ValidationError:
                continue
            yield DeclaredPolicy(declaration, self._file, path)

    def _render(self, value: Any, path: YamlPath, renderer: Renderer) -> Any:  # noqa: ANN401 - any YAML value
        if isinstance(value, dict):
            return {key: self._render(item, (*path, key), renderer) for key, item in value.items()}
        if isinstance(value, list):
            return [self._render(item, (*path, place), renderer) for place, item in enumerate(value)]
        if not isinstance(value, str):
            return value
        try:
            return renderer.render(value)
        except TemplateProblem as problem:
            self._unrendered.add(path)
            name = self._policy_name(path)
            self.issues.append(Issue(problem.code, problem.message, self._file.where(path, name), problem.hint))
            return value

    def _policy_name(self, path: YamlPath) -> str | None:
        policies = self._value.get("policies") if self._value else None
        if path[:1] != ("policies",) or len(path) < 2 or not isinstance(policies, list):
            return None
        policy = policies[int(path[1])]
        name = policy.get("name") if isinstance(policy, dict) else None
        return name if isinstance(name, str) and len(name) <= 60 else None
