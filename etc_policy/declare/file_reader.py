"""Reads one file: marked, rendered, validated; every fault is gathered, none raised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from etc_policy.declare.codes import Code
from etc_policy.declare.findings import schema_issues
from etc_policy.declare.project import DeclaredPolicy, FileMarks
from etc_policy.declare.schema import PolicyDeclaration, PolicyFile
from etc_policy.declare.sources import SourceFile
from etc_policy.declare.templating import Renderer, Scalar, TemplateProblem
from etc_policy.declare.yaml_marks import YamlPath, load_marked
from etc_policy.errors import Issue, PolicyError

Model = TypeVar("Model", bound=BaseModel)


class FileReader:
    """Reads one file; `issues` fills up on the way."""

    def __init__(self, source: SourceFile, environment: Mapping[str, str]) -> None:
        self.issues: list[Issue] = []
        self._environment = environment
        self.file = FileMarks(source.path, source.relative, {})
        self.unrendered: set[YamlPath] = set()
        self.value: dict[str, Any] | None = None
        try:
            marked = load_marked(source.text, source.path)
        except PolicyError as error:
            self.issues += error.issues
            return
        self.file = FileMarks(source.path, source.relative, marked.marks)
        if isinstance(marked.value, dict):
            self.value = marked.value
        else:
            kind = "empty" if marked.value is None else "no mapping"
            hint = "begin with `version: 1` and `policies:`"
            self.issues.append(Issue(Code.WRONG_TYPE, f"the file is {kind}", self.file.where(()), hint))

    def variables(self) -> dict[str, Scalar]:
        """The file's own `vars:`, rendered with the environment alone."""
        declared = self.value.get("vars") if self.value else None
        if self.value is None or not isinstance(declared, dict):
            return {}
        self.value = {**self.value, "vars": self.render(declared, ("vars",), Renderer({}, self._environment))}
        rendered = self.value["vars"]
        return {name: value for name, value in rendered.items() if isinstance(value, str | int | float)}

    def policies(self, shared: Mapping[str, Scalar], given: Mapping[str, Scalar]) -> Iterator[DeclaredPolicy]:
        """The policies that are right by themselves."""
        renderer = Renderer({**shared, **self.variables(), **given}, self._environment)
        if self.value is not None:
            rest = {key: value for key, value in self.value.items() if key != "vars"}
            self.value |= self.render(rest, (), renderer)
        declared = self.validate(PolicyFile)
        if declared is not None:
            for place, declaration in enumerate(declared.policies):
                yield DeclaredPolicy(declaration, self.file, ("policies", place))
        elif self.value is not None and isinstance(self.value.get("policies"), list):
            yield from self._right_ones(self.value["policies"])

    def validate(self, model: type[Model]) -> Model | None:
        """The file as `model`; None when it has issues, which are then recorded."""
        if self.value is None:
            return None
        try:
            validated = model.model_validate(self.value)
        except ValidationError as error:
            found = schema_issues(error, self.value, model, self.file)
            self.issues += [issue for path, issue in found if path not in self.unrendered]
            return None
        return None if self.unrendered else validated

    def render(self, value: Any, path: YamlPath, renderer: Renderer) -> Any:  # noqa: ANN401 - any YAML value
        """The value at `path` with its texts rendered; one that cannot be is kept, and recorded."""
        if isinstance(value, dict):
            return {key: self.render(item, (*path, key), renderer) for key, item in value.items()}
        if isinstance(value, list):
            return [self.render(item, (*path, place), renderer) for place, item in enumerate(value)]
        if not isinstance(value, str):
            return value
        try:
            return renderer.render(value)
        except TemplateProblem as problem:
            self.unrendered.add(path)
            name = self._policy_name(path)
            self.issues.append(Issue(problem.code, problem.message, self.file.where(path, name), problem.hint))
            return value

    def put(self, path: YamlPath, value: object) -> None:
        """Replace the value at a path of mappings that exists."""
        self.value = _with(self.value, path, value)

    def _right_ones(self, items: list[Any]) -> Iterator[DeclaredPolicy]:
        for place, item in enumerate(items):
            path: YamlPath = ("policies", place)
            if any(unrendered[:2] == path for unrendered in self.unrendered):
                continue
            try:
                declaration = PolicyDeclaration.model_validate(item)
            except ValidationError:
                continue
            yield DeclaredPolicy(declaration, self.file, path)

    def _policy_name(self, path: YamlPath) -> str | None:
        policies = self.value.get("policies") if self.value else None
        if path[:1] != ("policies",) or len(path) < 2 or not isinstance(policies, list):
            return None
        policy = policies[int(path[1])]
        name = policy.get("name") if isinstance(policy, dict) else None
        return name if isinstance(name, str) and len(name) <= 60 else None


def _with(container: Any, path: YamlPath, value: object) -> Any:  # noqa: ANN401 - any YAML value
    return {**container, path[0]: _with(container[path[0]], path[1:], value)} if path else value
