"""Safe YAML that keeps line and column beside the values, in a table keyed by path.

Scalars follow YAML 1.2: `on`, `yes`, `1:30` and dates stay text. Built on PyYAML's events and not its
composer, so that depth, size and alias expansion are bounded before anything is built.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from etc_policy.declare.codes import Code
from etc_policy.errors import Issue, PolicyError, Where

MAX_DEPTH = 32
MAX_VALUES = 200_000

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNPRINTABLE = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_WORDS = {"": None, "~": None, "null": None, "Null": None, "NULL": None}
_WORDS |= {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}  # type: ignore[dict-item]
_INTEGER = re.compile(r"[-+]?[0-9]{1,30}")
_FLOAT = re.compile(r"[-+]?(?:[0-9]{1,30}\.[0-9]{0,30}|\.[0-9]{1,30}|[0-9]{1,30}(?=[eE]))(?:[eE][-+]?[0-9]{1,3})?")
_NO_TAGS = "policies are plain mappings, lists, texts and numbers; remove the tag"
_TOO_BIG = f"the file has more than {MAX_VALUES} values, or more than {MAX_DEPTH} levels (aliases expanded)"
_TEMPLATE_HINT = 'put quotes round a value that begins with `{{`: "{{ ... }}"'

YamlPath: TypeAlias = tuple[str | int, ...]
#: The stubs of PyYAML know neither tags nor anchors of events, nor that parsed ones always have marks.
Event: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a value stands, and for a mapping's entry its key; all count from 1."""

    line: int
    column: int
    key_line: int
    key_column: int


@dataclass(frozen=True, slots=True)
class MarkedYaml:
    """A document's value and the place of every value in it."""

    value: Any
    marks: dict[YamlPath, Mark]


@dataclass(slots=True)
class _Node:
    line: int
    column: int
    scalar: Any = None
    items: list[_Node] | None = None
    entries: dict[str, tuple[_Node, _Node]] | None = None


def load_marked(text: str, path: str) -> MarkedYaml:
    """The one document in `text` with its marks; an empty text is None.

    Raises:
        PolicyError: bad syntax, a duplicate key, a tag, a second document, too deep or too large once aliases are
            expanded; `path` is named in the place.

    """
    reader = _Reader(path, _events(text, path))
    root = reader.document()
    if reader.issues:
        raise PolicyError(reader.issues)
    marks: dict[YamlPath, Mark] = {}
    return MarkedYaml(_build(root, (), root, marks, path) if root else None, marks)


def _events(text: str, path: str) -> Iterator[Event]:
    bad = _UNPRINTABLE.search(text)
    if bad is not None:
        line = text.count("\n", 0, bad.start()) + 1
        where = Where(path, line, bad.start() - text.rfind("\n", 0, bad.start()))
        raise PolicyError([Issue(Code.SYNTAX, f"the character U+{ord(bad[0]):04X} is not allowed in YAML", where)])
    try:
        yield from yaml.parse(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = Where(path, mark.line + 1, mark.column + 1) if mark else Where(path)
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

    path: str
    events: Iterator[Event]
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
        node = _Node(event.start_mark.line + 1, event.start_mark.column + 1)
        if isinstance(event, ScalarEvent):
            node.scalar = _scalar(event.value) if not event.style else event.value
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
            name = event.value if isinstance(event, ScalarEvent) else None
            if name is None:
                self._report(Code.FORBIDDEN_YAML, "a key must be plain text", event, _TEMPLATE_HINT)
            elif name in entries:
                first = entries[name][0].line
                message = f"the key `{name[:60]}` stands twice in one mapping, first in line {first}"
                self._report(Code.DUPLICATE_KEY, message, event, "remove one of the two")
            else:
                entries[name] = (key, value)
        return entries

    def _until_end(self) -> Iterator[Event]:
        """Each event that begins an item, up to the end of the collection (items are read by the caller)."""
        for event in self.events:
            if not isinstance(event, ScalarEvent | AliasEvent | SequenceStartEvent | MappingStartEvent):
                return
            yield event

    def _alias(self, event: Event) -> _Node:
        node = self._anchors.get(event.anchor)
        if node is None:
            self._report(Code.SYNTAX, f"the alias `*{event.anchor[:60]}` has no complete anchor before it", event)
            return _Node(event.start_mark.line + 1, event.start_mark.column + 1)
        return node

    def _report(self, code: Code, message: str, event: Event, hint: str | None = None) -> None:
        self.issues.append(Issue(code, message, self._where(event), hint))

    def _where(self, event: Event) -> Where:
        return Where(self.path, event.start_mark.line + 1, event.start_mark.column + 1)


def _build(node: _Node, path: YamlPath, key: _Node, marks: dict[YamlPath, Mark], file: str) -> Any:  # noqa: ANN401 - YAML
    if len(marks) >= MAX_VALUES or len(path) > MAX_DEPTH:
        raise PolicyError([Issue(Code.TOO_BIG, _TOO_BIG, Where(file, node.line, node.column))])
    marks[path] = Mark(node.line, node.column, key.line, key.column)
    if node.items is not None:
        return [_build(item, (*path, place), item, marks, file) for place, item in enumerate(node.items)]
    if node.entries is not None:
        return {name: _build(value, (*path, name), key, marks, file) for name, (key, value) in node.entries.items()}
    return node.scalar


def _scalar(text: str) -> str | int | float | bool | None:
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text
