"""Loads one file: templates carried out, YAML read with its places; every fault is gathered, none raised."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from etc_policy.codes.registry import Code
from etc_policy.declare.findings import schema_issues
from etc_policy.declare.project import FileMarks, Places, value_at
from etc_policy.declare.sources import SourceFile
from etc_policy.declare.templating.context import Context, has_template
from etc_policy.declare.templating.problems import TemplateProblem
from etc_policy.declare.variables import without_blank
from etc_policy.declare.yaml_marks import YamlPath, load_marked, require_printable
from etc_policy.errors import Issue, PolicyError, Where

if TYPE_CHECKING:
    from etc_policy.declare.templating.expansion import Expansion
    from etc_policy.declare.templating.values import Value

Model = TypeVar("Model", bound=BaseModel)

_VARS = re.compile(r"(?m)^vars[ \t]*:.*(?:\n(?:[ \t#-].*|[ \t]*$))*")


@dataclass(slots=True)
class Loaded:
    """A file as read; `value` is None where it is not a mapping, `problems` are templates that gave no value.

    `partial` says that a loop or condition failed, so that parts of the file are not there; `asks_target` that a template
    names the target.
    """

    file: FileMarks
    value: dict[str, Any] | None = None
    problems: Mapping[YamlPath, TemplateProblem] = field(default_factory=dict)
    issues: list[Issue] = field(default_factory=list)
    partial: bool = False
    asks_target: bool = False

    def template_issues(self, name_of: Mapping[YamlPath, str] | None = None) -> Iterator[tuple[YamlPath, Issue]]:
        """A path and issue for each template that gave no value."""
        for path, first in self.problems.items():
            name = (name_of or {}).get(path[:2])
            for problem in (first, *first.beside):
                where = self.file.where(path, name)
                if problem.place is not None:
                    where = Where(where.path, *problem.place, name)
                if not problem.reported:
                    yield path, problem.issue(where)

    def validate(self, model: type[Model]) -> Model | None:
        """The file as `model`; None when it has issues, which are then recorded."""
        if self.value is None:
            return None
        try:
            return model.model_validate(self.value)
        except ValidationError as error:
            found = schema_issues(error, self.value, model, Places(self.file))
            lost = {("policies",), ("template",)} if self.partial else set()
            self.issues += [
                issue
                for path, issue in found
                if path not in self.problems and path not in lost and not self.may_be_lost(self.value, path)
            ]
            return None

    def may_be_lost(self, value: object, path: YamlPath) -> bool:
        """Whether nothing is at `path` of a value because a template failed that would have made it."""
        return self.partial and value_at(value, path) is None


def load_file(source: SourceFile, context: Context, hint: str) -> Loaded:
    """The file with its templates carried out; `hint` says how such a file begins."""
    loaded = Loaded(FileMarks(source.path, source.relative, {}))
    expansion: Expansion | None = None
    try:
        expansion = _expand(source, context)
        if expansion is not None:
            loaded.asks_target = expansion.asks_target
            loaded.issues += [problem.issue(source.path) for problem in expansion.problems]
            loaded.partial = bool(expansion.problems)
        marked = load_marked(source.text, source.path, expansion)
    except PolicyError as error:
        if not loaded.issues:  # what is left of a file without its faulty loops need not be YAML
            loaded.issues += _lost_lines(error, expansion, source) or error.issues
        return loaded
    loaded.file = FileMarks(source.path, source.relative, marked.marks)
    loaded.problems = marked.problems
    if isinstance(marked.value, dict):
        loaded.value = marked.value
        context.known_variables.update(plain_variables(loaded))
        loaded.issues += _variables_without_blank(loaded)
    else:
        kind = "empty" if marked.value is None else "not a mapping"
        loaded.issues.append(Issue(Code.WRONG_TYPE, f"the file is {kind}", loaded.file.where(()), hint))
    return loaded


def own_variables(source: SourceFile, context: Context, hint: str) -> tuple[dict[str, Value], list[Issue]]:
    """The `vars:` of a file, worked out before the rest of it, and what is wrong with their templates."""
    match = _VARS.search(source.text) if has_template(source.text) else None
    if match is None:
        return {}, []
    before = re.sub(r"[^\n]", "", source.text[: match.start()])
    loaded = load_file(replace(source, text=before + match[0]), context, hint)
    issues = [issue for _, issue in loaded.template_issues()]
    declared = plain_variables(loaded).items()
    return {name: value for name, value in declared if ("vars", name) not in loaded.problems}, issues


def plain_variables(loaded: Loaded) -> dict[str, Value]:
    """The `vars:` of a file that is loaded."""
    declared = value_at(loaded.value, ("vars",))
    return dict(declared) if isinstance(declared, dict) else {}


def _variables_without_blank(loaded: Loaded) -> Iterator[Issue]:
    """Keys such as `lake:/prod` under `vars:`; elsewhere keys are known, or need a value."""
    for name, value in plain_variables(loaded).items():
        hint = without_blank(name)
        if value is None and hint is not None:
            where = loaded.file.where(("vars", name), at_key=True)
            yield Issue(Code.WRONG_TYPE, f"the variable `{name[:60]}` has no value", where, hint)


def _expand(source: SourceFile, context: Context) -> Expansion | None:
    if not has_template(source.text):
        return None
    from etc_policy.declare.templating.rendering import expand

    require_printable(source.text, source.path)
    return expand(source.text, context)


def _lost_lines(error: PolicyError, expansion: Expansion | None, source: SourceFile) -> list[Issue]:
    """The values that failed just before YAML went wrong and are a line each, which is no YAML without its value."""
    where = error.issues[0].where
    last = where.line if where is not None and where.line is not None else 0
    lines = source.text.split("\n", last)[:last]
    issues = []
    for problem in expansion.failures() if expansion is not None else ():
        line = problem.place[0] if problem.place else 0
        in_reach = last - 2 <= line <= min(last, len(lines))  # YAML ends lines by `\r` too
        if in_reach and lines[line - 1].lstrip().startswith("{{"):
            issues.append(problem.issue(source.path))
    return issues
