"""Loads one file: YAML with its places, then the expressions of its values; every fault is gathered, none raised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any, TypeVar

from pydantic import ValidationError
from yaml.nodes import MappingNode, Node, ScalarNode

from etc_policy.errors import Issue, PolicyError, Where
from etc_policy.errors.codes import Code
from etc_policy.policy.files import MayLook, SourceFile, find_tables
from etc_policy.policy.findings import schema_issues
from etc_policy.policy.project import FileMarks, Places, value_at
from etc_policy.policy.schema_values import Declared
from etc_policy.policy.scope import Scope, Value, has_template, without_blank
from etc_policy.policy.secrets import canonical_references
from etc_policy.policy.yaml_marks import YamlDocument, YamlPath, plain_value

#: The key of a policy that makes many.
FOR_EACH = "for_each"
MAX_ITEMS = 10_000
_FORMS = "write a list, a mapping, an expression that gives one, or a glob over the folders of tables such as `lake/*`"


Model = TypeVar("Model", bound=Declared)

#: Stands where an expression gave no value: a text that fits most keys, so that only the expression is complained of.
NO_VALUE = "?"


@dataclass(slots=True)
class Loaded:
    """A file as read; `value` is None where it is not a mapping, `problems` say for each path why there is no value.

    `scope` is what its expressions reach: the file's own variables too.
    """

    file: FileMarks
    scope: Scope
    value: dict[str, Any] | None = None
    problems: dict[YamlPath, list[Issue]] = field(default_factory=dict)
    issues: list[Issue] = field(default_factory=list)
    document: YamlDocument | None = None

    def build(self, node: Node, path: YamlPath, scope: Scope | None = None, key: Node | None = None) -> Any:  # noqa: ANN401
        """The value of a node, with its expressions worked out; what is wrong goes to `problems` and `issues`.

        Where it is too much the file has no value any more.
        """
        document, reach = self.document, scope or self.scope
        if document is None:
            return None
        try:
            return document.build(node, path, lambda scalar, at: self._worked_out(scalar, at, reach, document), key)
        except PolicyError as error:
            self.issues += error.issues
            self.value = self.document = None
            return None
        finally:
            self.problems |= {broken: [] for broken in document.broken if broken not in self.problems}

    def validate(self, model: type[Model]) -> Model | None:
        """The file as `model`; None when it has issues, which are then recorded."""
        if self.value is None:
            return None
        try:
            return model.from_yaml(self.value)
        except ValidationError as error:
            found = schema_issues(error, model, Places(self.file))
            self.issues += [issue for path, issue in found if path not in self.problems]
            return None

    def problem_issues(self, *paths: YamlPath) -> list[Issue]:
        """What is wrong with the expressions below some paths; without one, all of it."""
        found = self.problems.items()
        return [issue for at, issues in found if not paths or any(at[: len(p)] == p for p in paths) for issue in issues]

    def _worked_out(self, node: ScalarNode, path: YamlPath, scope: Scope, document: YamlDocument) -> Value:
        text: str = node.value
        if not has_template(text):
            return plain_value(node)
        is_option = is_engine_option(path)
        if is_option and not has_template((references := canonical_references(text))[1]):
            return references[0]
        from etc_policy.policy.render import render

        value, problems = render(text, scope, is_option=is_option)
        if not problems:
            return value
        self.problems[path] = [
            Issue(problem.code, problem.message, document.place_in(node, problem.offset), problem.hint)
            for problem in problems
            if not problem.is_quiet
        ]
        return NO_VALUE


def is_engine_option(path: YamlPath) -> bool:
    """Whether a value is an option of Hudi, of a lock or of Spark, which is passed on as it is when the engine starts."""
    keys = [str(key).lstrip("+") for key in path]
    if keys[0] == "profiles":
        return keys[4:5] == ["lock"] or keys[4:6] == ["spark", "confs"]
    return keys[0] != "vars" and ("hudi_options" in keys or ("writer", "lock") in pairwise(keys))


def load_file(source: SourceFile, scope: Scope, hint: str, late: str | None = None) -> Loaded:
    """The file, whose `vars:` are worked out first and reach the rest; the key `late` is left to the caller.

    `hint` says how such a file begins.
    """
    loaded = Loaded(FileMarks(source.path, source.relative, {}), scope)
    try:
        document = YamlDocument.read(source.text, source.path)
    except PolicyError as error:
        loaded.issues += error.issues
        return loaded
    loaded.document, loaded.file = document, FileMarks(source.path, source.relative, document.marks)
    root, document.issues = document.root, loaded.issues
    if not isinstance(root, MappingNode):
        if root is not None:
            document.mark(root, ())
        is_empty = root is None or (isinstance(root, ScalarNode) and plain_value(root) is None)
        kind = "empty" if is_empty else "not a mapping"
        loaded.issues.append(Issue(Code.WRONG_TYPE, f"the file is {kind}", loaded.file.where(()), hint))
        return loaded
    entries = document.entries(root)
    document.mark(root, ())
    loaded.value = {}
    for name in sorted(entries, key=lambda name: name != "vars"):
        key, node = entries[name]
        if name != late and loaded.value is not None:
            built = loaded.build(node, (name,), key=key)
            if loaded.value is not None:  # else it was too much
                loaded.value[name] = built
            if name == "vars":
                _reach_variables(loaded)
    return loaded


def _reach_variables(loaded: Loaded) -> None:
    declared = value_at(loaded.value, ("vars",))
    if not isinstance(declared, dict):
        return
    loaded.scope.known_variables.update(declared)
    loaded.issues += _variables_without_blank(declared, loaded.file)
    lost = {path[1] for path in loaded.problems if path[:1] == ("vars",) and len(path) > 1}
    worked_out = {name: value for name, value in declared.items() if name not in lost}
    loaded.scope = loaded.scope.with_variables(worked_out)


def _variables_without_blank(declared: Mapping[str, Value], file: FileMarks) -> Iterator[Issue]:
    """Keys such as `lake:/prod` under `vars:`; elsewhere keys are known, or need a value."""
    for name, value in declared.items():
        hint = without_blank(name)
        if value is None and hint is not None:
            where = file.where(("vars", name), at_key=True)
            yield Issue(Code.WRONG_TYPE, f"the variable `{name[:60]}` has no value", where, hint)


def items_of(value: Value, folder: str, where: Where, issues: list[Issue], may_look: MayLook) -> Iterator[Value]:
    """What `each` is in turn. `folder` is where relative paths of tables start; what is wrong goes to `issues`."""
    if isinstance(value, dict):
        found: list[Value] = [{"key": key, "value": item} for key, item in value.items()]
    elif isinstance(value, list):
        found = value
    elif isinstance(value, str) and value:
        paths = find_tables(value, folder, where, issues, may_look)
        found = [{"path": path, "name": PurePosixPath(path).name} for path in paths]
    else:
        issues.append(
            Issue(Code.BAD_FOR_EACH, "`for_each` goes through a list, a mapping or the tables of a glob", where, _FORMS)
        )
        return
    if len(found) > MAX_ITEMS:
        issues.append(Issue(Code.TOO_BIG, f"`for_each` has more than {MAX_ITEMS:,} items", where, "split the list"))
    yield from found[:MAX_ITEMS]
