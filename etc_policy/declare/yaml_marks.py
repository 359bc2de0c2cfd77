"""Safe YAML that keeps line and column beside the values, in a table keyed by path.

Scalars follow YAML 1.2: `on`, `yes`, `1:30` and dates stay text. Built on PyYAML's events and not its
composer, so that depth, size and alias expansion are bounded before anything is built.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from etc_policy.codes.registry import Code
from etc_policy.declare.secrets import EnvText
from etc_policy.declare.templating.problems import TemplateProblem
from etc_policy.declare.yaml_scalars import scalar
from etc_policy.errors import Issue, PolicyError, Where

if TYPE_CHECKING:
    from etc_policy.declare.templating.expansion import Expansion

MAX_DEPTH = 32
MAX_VALUES = 200_000

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNPRINTABLE = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_BEGINS = (ScalarEvent, AliasEvent, SequenceStartEvent, MappingStartEvent)
_NO_TAGS = "policies are plain mappings, lists, texts and numbers; remove the tag"
_TOO_BIG = f"the file has more than {MAX_VALUES} values, or more than {MAX_DEPTH} levels (aliases expanded)"
_TEMPLATE_HINT = 'put quotes round a value that begins with `{{`: "{{ ... }}"'

#: Stands where a template gave no value: a text that fits most keys, so that only the template is complained of.
NO_VALUE = "?"

YamlPath: TypeAlias = tuple[str | int, ...]
#: The stubs of PyYAML know neither tags nor anchors of events, nor that parsed ones always have marks.
Event: TypeAlias = Any


class Mark(NamedTuple):
    """Where a value is, and for a mapping's entry its key; all count from 1."""

    line: int
    column: int
    key_line: int
    key_column: int


@dataclass(frozen=True, slots=True)
class MarkedYaml:
    """A document's value and the place of every value in it; `problems` are those of templates whose value is missing."""

    value: Any
    marks: dict[YamlPath, Mark]
    problems: dict[YamlPath, TemplateProblem] = field(default_factory=dict)


@dataclass(slots=True)
class _Node:
    line: int
    column: int
    scalar: Any = None
    items: list[_Node] | None = None
    entries: dict[str, tuple[_Node, _Node]] | None = None
    problem: TemplateProblem | None = None


def load_marked(text: str, path: str, expansion: Expansion | None = None) -> MarkedYaml:
    """The one document in `text` with its marks; an empty text is None.

    With `expansion` the document is the expansion's text, and places are those in its source.

    Raises:
        PolicyError: bad syntax, a duplicate key, a tag, a second document, too deep or too large once aliases are
            expanded; `path` is named in the place.

    """
    where = _Places(path, expansion)
    reader = _Reader(where, _events(text if expansion is None else expansion.text, where), expansion)
    root = reader.document()
    if reader.issues:
        raise PolicyError(reader.issues)
    marked = MarkedYaml(None, {})
    return replace(marked, value=_build(root, (), root, marked, path)) if root else marked


def require_printable(text: str, path: str) -> None:
    """Return if YAML allows every character of a file.

    Raises:
        PolicyError: it does not.

    """
    bad = _UNPRINTABLE.search(text)
    if bad is not None:
        line = text.count("\n", 0, bad.start()) + 1
        where = Where(path, line, bad.start() - text.rfind("\n", 0, bad.start()))
        raise PolicyError([Issue(Code.SYNTAX, f"the character U+{ord(bad[0]):04X} is not allowed in YAML", where)])


@dataclass(frozen=True, slots=True)
class _Places:
    """Turns the parser's marks into places of the file."""

    path: str
    expansion: Expansion | None

    def line_and_column(self, mark: Any) -> tuple[int, int]:  # noqa: ANN401 - a mark of PyYAML
        if self.expansion is None:
            return mark.line + 1, mark.column + 1
        return self.expansion.located(mark.index)

    def where(self, mark: Any) -> Where:  # noqa: ANN401 - a mark of PyYAML
        return Where(self.path, *self.line_and_column(mark))


def _events(text: str, places: _Places) -> Iterator[Event]:
    if places.expansion is None:
        require_printable(text, places.path)
    try:
        yield from yaml.parse(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = places.where(mark) if mark else Where(places.path)
        problem = getattr(error, "problem", None) or str(error)
        hint = _syntax_hint(problem, "".join(text.split("\n")[mark.line : mark.line + 1]) if mark else "")
        raise PolicyError([Issue(Code.SYNTAX, f"not valid YAML: {problem}", where, hint)]) from error


def _syntax_hint(problem: str, line: str) -> str | None:
    if "{{" in line:
        return _TEMPLATE_HINT
    if "tab" in problem:
        return "indent with spaces"
    if "mapping values are not allowed" in problem or "expected" in problem:
        return "look at the indent, and quote text that holds `: `, `{` or `#`"
    return "quote text that begins with a special character" if "token" in problem else None


@dataclass(slots=True)
class _Reader:
    """Turns events into nodes; an alias is the same node again, so expansion costs nothing here."""

    places: _Places
    events: Iterator[Event]
    expansion: Expansion | None = None
    issues: list[Issue] = field(default_factory=list)
    _anchors: dict[str, _Node] = field(default_factory=dict)
    _count: int = 0

    def document(self) -> _Node | None:
        """The first document's root; every further document is an issue."""
        root = None
        for number, start in enumerate(e for e in self.events if isinstance(e, DocumentStartEvent)):
            node = self._node(next(self.events), 0)
            if number:
                self._report(Code.FORBIDDEN_YAML, "a file holds one YAML document", start, "remove the `---`")
                return root
            root = node
        return root

    def _node(self, event: Event, depth: int) -> _Node:
        self._count += 1
        if depth > MAX_DEPTH or self._count > MAX_VALUES:
            raise PolicyError([Issue(Code.TOO_BIG, _TOO_BIG, self._where(event))])
        if isinstance(event, AliasEvent):
            return self._alias(event)
        if event.tag is not None:
            self._report(Code.FORBIDDEN_YAML, f"the tag `{event.tag[:60]}` is not allowed", event, _NO_TAGS)
        node = _Node(*self.places.line_and_column(event.start_mark))
        if isinstance(event, ScalarEvent):
            self._fill(node, event, depth)
        elif isinstance(event, SequenceStartEvent):
            node.items = [self._node(item, depth + 1) for item in self._until_end()]
        else:
            node.entries = self._entries(depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _entries(self, depth: int) -> dict[str, tuple[_Node, _Node]]:
        entries: dict[str, tuple[_Node, _Node]] = {}
        for event in self._until_end():
            key = self._node(event, depth + 1)
            value = self._node(next(self.events), depth + 1)
            name = self._key(key, event)
            if key.problem is not None:
                found = (key.problem, *key.problem.beside)
                self.issues += [problem.issue(self._where(event)) for problem in found]
            elif isinstance(name, EnvText):
                self._report(Code.TEMPLATE_FORBIDDEN, "a key cannot come from the environment", event)
            elif name is None:
                self._report(Code.FORBIDDEN_YAML, "a key must be plain text", event, _TEMPLATE_HINT)
            elif name in entries:
                first = entries[name][0].line
                message = f"the key `{name[:60]}` appears twice in one mapping, first in line {first}"
                self._report(Code.DUPLICATE_KEY, message, event, "remove one of the two")
            else:
                entries[name] = (key, value)
        return entries

    def _until_end(self) -> Iterator[Event]:
        """Each event that begins an item, up to the end of the collection (items are read by the caller)."""
        for event in self.events:
            if not isinstance(event, _BEGINS):
                return
            yield event

    def _alias(self, event: Event) -> _Node:
        node = self._anchors.get(event.anchor)
        if node is None:
            self._report(Code.SYNTAX, f"the alias `*{event.anchor[:60]}` has no complete anchor before it", event)
            return _Node(*self.places.line_and_column(event.start_mark))
        return node

    def _report(self, code: Code, message: str, event: Event, hint: str | None = None) -> None:
        self.issues.append(Issue(code, message, self._where(event), hint))

    def _where(self, event: Event) -> Where:
        return self.places.where(event.start_mark)

    def _fill(self, node: _Node, event: Event, depth: int) -> None:
        """Give a scalar its value; one that is a template alone has the value's own type."""
        text = event.value
        pieces = None if self.expansion is None or text.isascii() else self.expansion.pieces(text)
        if pieces is None:
            node.scalar = scalar(event.value) if not event.style else event.value
            return
        try:
            problems = tuple(piece for piece in pieces if isinstance(piece, TemplateProblem))
            if problems:
                problems[0].beside = problems[1:]
                raise problems[0]
            if len(pieces) == 1 and not event.style:
                self._fill_value(node, pieces[0], depth)
            else:
                from etc_policy.declare.templating.values import join_texts

                text = join_texts(pieces)
                node.scalar = text if event.style or isinstance(text, EnvText) else scalar(text)
        except TemplateProblem as problem:
            node.problem = problem

    def _fill_value(self, node: _Node, value: Any, depth: int) -> None:  # noqa: ANN401 - any YAML value
        self._count += 1
        if depth > MAX_DEPTH or self._count > MAX_VALUES:
            where = Where(self.places.path, node.line, node.column)
            raise PolicyError([Issue(Code.TOO_BIG, _TOO_BIG, where)])
        if isinstance(value, list | tuple):
            node.items = [self._value_node(node, item, depth) for item in value]
        elif isinstance(value, Mapping):
            node.entries = {key: (node, self._value_node(node, item, depth)) for key, item in value.items()}
        else:
            node.scalar = value

    def _value_node(self, place: _Node, value: Any, depth: int) -> _Node:  # noqa: ANN401 - any YAML value
        node = _Node(place.line, place.column)
        self._fill_value(node, value, depth + 1)
        return node

    def _key(self, node: _Node, event: Event) -> str | None:
        """A key's text; numbers and words stay as they are written."""
        if not isinstance(event, ScalarEvent) or node.problem is not None:
            return None
        text = event.value
        if self.expansion is None or text.isascii() or self.expansion.pieces(text) is None:
            return str(text)
        return node.scalar if isinstance(node.scalar, str) else None


def _build(node: _Node, path: YamlPath, key: _Node, marked: MarkedYaml, file: str) -> Any:  # noqa: ANN401 - YAML
    if len(marked.marks) >= MAX_VALUES or len(path) > MAX_DEPTH:
        raise PolicyError([Issue(Code.TOO_BIG, _TOO_BIG, Where(file, node.line, node.column))])
    marked.marks[path] = Mark(node.line, node.column, key.line, key.column)
    if node.problem is not None:
        marked.problems[path] = node.problem
        return NO_VALUE
    if node.items is not None:
        return [_build(item, (*path, place), item, marked, file) for place, item in enumerate(node.items)]
    if node.entries is not None:
        return {name: _build(value, (*path, name), key, marked, file) for name, (key, value) in node.entries.items()}
    return node.scalar
