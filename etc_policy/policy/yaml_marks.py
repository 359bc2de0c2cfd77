"""Safe YAML that keeps line and column beside the values, in a table keyed by path.

PyYAML composes the nodes, and values are built from them here: scalars follow YAML 1.2 (`on`, `yes`, `1:30` and dates stay text),
and depth and number of values are bounded with aliases expanded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from etc_policy.errors import Issue, PolicyError, Where
from etc_policy.errors.codes import Code

MAX_DEPTH = 32
MAX_VALUES = 200_000
#: Deeper texts are not read to their end: PyYAML before 6.0.4 overflows the stack of C in them.
_DEEPEST = 500

_TAGS = {
    ScalarNode: "tag:yaml.org,2002:str",
    SequenceNode: "tag:yaml.org,2002:seq",
    MappingNode: "tag:yaml.org,2002:map",
}
_UNPRINTABLE = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NO_TAGS = "policies are plain mappings, lists, texts and numbers; remove the tag"
_TOO_BIG = (
    f"the file has more than {MAX_VALUES} values, or more than {MAX_DEPTH} levels (aliases and `for_each` expanded)"
)
#: What of Jinja's begins a value without quotes.
_UNQUOTED = re.compile(r"(?:^|[:-]\s|[\[,])\s*(?P<begin>\{[{%])")
_QUOTE_HINT = 'put quotes round a value that begins with `{{`: "{{ ... }}"'
_STRUCTURE_HINT = (
    "Jinja works inside of values alone: write `for_each:` in a policy to make one for each item of a list"
)

_WORDS = {"": None, "~": None, "null": None, "Null": None, "NULL": None}
_WORDS |= {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}  # type: ignore[dict-item]
_INTEGER = re.compile(r"[-+]?[0-9]{1,30}")
_FLOAT = re.compile(r"[-+]?(?:[0-9]{1,30}\.[0-9]{0,30}|\.[0-9]{1,30}|[0-9]{1,30}(?=[eE]))(?:[eE][-+]?[0-9]{1,3})?")
_NUMBER_BEGINS = frozenset("+-.0123456789")


class _Loader(getattr(yaml, "CBaseLoader", yaml.BaseLoader)):  # type: ignore[misc]
    """Resolves nothing: scalars are texts, and a tag that is not the kind's own stands in the file."""

    _depth = 0

    def resolve(self, kind: type[Node], _value: object, _implicit: object) -> str:
        """The tag of a node that has none."""
        return _TAGS[kind]

    def descend_resolver(self, *_path: object) -> None:
        """There are no resolvers by path; each node calls this before those in it.

        Raises:
            RecursionError: the text is too deep.

        """
        self._depth += 1
        if self._depth > _DEEPEST:
            raise RecursionError

    def ascend_resolver(self) -> None:
        """Each node calls this after those in it."""
        self._depth -= 1


YamlPath: TypeAlias = tuple[str | int, ...]
#: What becomes of the text of a scalar at a path.
Worker: TypeAlias = Callable[[ScalarNode, YamlPath], Any]


class Mark(NamedTuple):
    """Where a value is, and for a mapping's entry its key; all count from 1."""

    line: int
    column: int
    key_line: int
    key_column: int


@dataclass(frozen=True, slots=True)
class FileMarks:
    """The places of one file's values; `path` as errors name it, `relative` to the project."""

    path: str
    relative: str
    marks: dict[YamlPath, Mark] = field(default_factory=dict, repr=False)

    def where(self, path: YamlPath, object_name: str | None = None, *, at_key: bool = False) -> Where:
        """The place of the value at `path` (of its key with `at_key`), or of the nearest value round it."""
        for length in range(len(path), -1, -1):
            mark = self.marks.get(path[:length])
            if mark is not None:
                if at_key and length == len(path):
                    return Where(self.path, mark.key_line, mark.key_column, object_name)
                return Where(self.path, mark.line, mark.column, object_name)
        return Where(self.path, object_name=object_name)


@dataclass(frozen=True, slots=True)
class Places:
    """The places of a value at `path` of a file; parts of it may come `from` elsewhere (templates, defaults)."""

    file: FileMarks
    path: YamlPath = ()
    origins: Mapping[YamlPath, tuple[FileMarks, YamlPath]] = field(default_factory=dict)

    def where(self, path: YamlPath, object_name: str | None = None, *, at_key: bool = False) -> Where:
        """The place of the value at `path` below, or of the nearest value round it."""
        file, whole = self.origin(path)
        return file.where(whole, object_name, at_key=at_key)

    def source(self, path: YamlPath) -> str:
        """`file:line:column` of the value at `path`, the file relative to the project."""
        file, whole = self.origin(path)
        where = file.where(whole)
        return f"{file.relative}:{where.line}:{where.column}"

    def origin(self, path: YamlPath) -> tuple[FileMarks, YamlPath]:
        """The file that the value at `path` comes from, and its path there."""
        for length in range(len(path), 0, -1) if self.origins else ():
            origin = self.origins.get(path[:length])
            if origin is not None:
                return origin[0], (*origin[1], *path[length:])
        return self.file, (*self.path, *path)


def value_at(value: Any, path: YamlPath) -> Any:  # noqa: ANN401 - any YAML value
    """The part of a value that keys and numbers lead to; None where it is missing."""
    for part in path:
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            return None
    return value


class MarkedYaml(NamedTuple):
    """A document's value and the place of every value in it."""

    value: Any
    file: FileMarks


def load_marked(text: str, path: str) -> MarkedYaml:
    """The one document in `text` with its places; an empty text is None.

    Raises:
        PolicyError: bad syntax, a duplicate key, a tag, a second document, too deep or too large once aliases are
            expanded; `path` is named in the place.

    """
    document = YamlDocument(text, FileMarks(path, path), compose(text, path))
    value = document.build(document.root, ())
    if document.issues:
        raise PolicyError(document.issues)
    return MarkedYaml(value, document.marks)


def compose(text: str, path: str) -> Node | None:
    """The node of the one document in a text; None of an empty one.

    Raises:
        PolicyError: the text is no YAML, or has two documents.

    """
    _require_printable(text, path)
    loader = _Loader(text)
    try:
        root: Node | None = loader.get_single_node()
    except yaml.YAMLError as error:
        raise PolicyError([_syntax_issue(error, text, path)]) from error
    except RecursionError as error:
        raise PolicyError([Issue(Code.TOO_BIG, _TOO_BIG, Where(path))]) from error
    finally:
        loader.dispose()
    return root


@dataclass(slots=True)
class YamlDocument:
    """A document of YAML as nodes, of which values are built; its issues and marks are those of what was looked at so far.

    `problems` say for each path why there is no value: nothing of mappings whose keys are wrong, as that is said of the keys.
    """

    text: str
    marks: FileMarks
    root: Node | None = None
    issues: list[Issue] = field(default_factory=list)
    problems: dict[YamlPath, list[Issue]] = field(default_factory=dict)
    _entries: dict[int, tuple[Node, dict[str, tuple[Node, Node]]]] = field(default_factory=dict)
    count: int = 0

    def where(self, node: Node) -> Where:
        """The place of a node."""
        return Where(self.marks.path, node.start_mark.line + 1, node.start_mark.column + 1)

    def place_in(self, node: ScalarNode, offset: int) -> Where:
        """The place of a part of a scalar's text; that of the scalar where it is not in the file as it is."""
        where, begin = self.where(node), node.start_mark.index + (node.style in ("'", '"'))
        if offset and not self.text.startswith(node.value[: offset + 1], begin):
            return where
        is_one_line = "\n" not in node.value[:offset] and node.style not in ("|", ">")
        column = (where.column or 0) + begin - node.start_mark.index + offset
        return Where(self.marks.path, where.line, column) if is_one_line else where

    def entries(self, node: Node) -> dict[str, tuple[Node, Node]]:
        """Key and value by the key's text; each fault of a key is an issue once."""
        if id(node) not in self._entries:
            found: dict[str, tuple[Node, Node]] = {}
            for key, value in node.value:
                if (issue := self._key_issue(key, found)) is not None:
                    self.issues.append(issue)
                else:
                    found[key.value] = (key, value)
            self._entries[id(node)] = (node, found)  # while a node is there, no other one has its id
        return self._entries[id(node)][1]

    def entry(self, name: str) -> tuple[Node, Node] | None:
        """Key and value of an entry of the whole document."""
        return self.entries(self.root).get(name) if isinstance(self.root, MappingNode) else None

    def build(self, node: Node | None, path: YamlPath, work: Worker | None = None, key: Node | None = None) -> Any:  # noqa: ANN401
        """The value of a node, which is recorded to be at `path`; `work` makes those of scalars with Jinja's signs.

        Raises:
            PolicyError: it is too deep, or too much.

        """
        if node is None:
            return None
        self.count += 1
        if len(path) > MAX_DEPTH or self.count > MAX_VALUES:
            raise PolicyError([Issue(Code.TOO_BIG, _TOO_BIG, self.where(node))])
        self.mark(node, path, key)
        if node.tag != _TAGS[type(node)]:
            self.issues.append(
                Issue(Code.FORBIDDEN_YAML, f"the tag `{str(node.tag)[:60]}` is not allowed", self.where(node), _NO_TAGS)
            )
        if isinstance(node, ScalarNode):
            return work(node, path) if work is not None and has_template(node.value) else plain_value(node)
        if isinstance(node, SequenceNode):
            return [self.build(item, (*path, place), work) for place, item in enumerate(node.value)]
        found = self.entries(node).items()
        if len(found) < len(node.value):
            self.problems.setdefault(path, [])
        return {name: self.build(value, (*path, name), work, at_key) for name, (at_key, value) in found}

    def mark(self, node: Node, path: YamlPath, key: Node | None = None) -> None:
        """Record that a node is at a path."""
        mark, at = node.start_mark, (key or node).start_mark
        self.marks.marks[path] = Mark(mark.line + 1, mark.column + 1, at.line + 1, at.column + 1)

    def _key_issue(self, key: Node, known: Mapping[str, tuple[Node, Node]]) -> Issue | None:
        if isinstance(key, ScalarNode) and key.value not in known and "{{" not in key.value and "{%" not in key.value:
            return None
        where = self.where(key)
        if isinstance(key, MappingNode) and key.flow_style:
            return Issue(Code.TEMPLATE_SYNTAX, "an expression needs quotes round it", where, _QUOTE_HINT)
        if not isinstance(key, ScalarNode):
            return Issue(Code.FORBIDDEN_YAML, "a key must be plain text", where)
        if key.value in known:
            first = known[key.value][0].start_mark.line + 1
            message = f"the key `{key.value[:60]}` appears twice in one mapping, first in line {first}"
            return Issue(Code.DUPLICATE_KEY, message, where, "remove one of the two")
        message = "a key cannot be worked out: Jinja works inside of values alone"
        return Issue(Code.TEMPLATE_FORBIDDEN, message, where, "write the key itself")


def has_template(text: str) -> bool:
    """Whether anything in the text is Jinja's."""
    return "{{" in text or "{%" in text or ("{#" in text and "#}" in text)


def plain_value(node: ScalarNode) -> str | int | float | bool | None:
    """The value of a scalar by YAML 1.2; what is in quotes or a block is text."""
    text: str = node.value
    if node.style:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_BEGINS:
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _require_printable(text: str, path: str) -> None:
    """Return if YAML allows every character of a file."""
    bad = _UNPRINTABLE.search(text)
    if bad is not None:
        line = text.count("\n", 0, bad.start()) + 1
        where = Where(path, line, bad.start() - text.rfind("\n", 0, bad.start()))
        raise PolicyError([Issue(Code.SYNTAX, f"the character U+{ord(bad[0]):04X} is not allowed in YAML", where)])


_TAB_HINT = "the line is indented with a tab: YAML takes spaces alone"
#: What YAML was reading when it failed lines later, and what to do where that begins.
_BEGUN = {
    "while scanning a simple key": "write `: ` between key and value",
    "while scanning a quoted scalar": "close the quote",
    "while parsing a flow sequence": "close the `[`",
    "while parsing a flow mapping": "close the `{`",
}


def _syntax_issue(error: yaml.YAMLError, text: str, path: str) -> Issue:
    mark, begin = getattr(error, "problem_mark", None), getattr(error, "context_mark", None)
    begun = _BEGUN.get(getattr(error, "context", None) or "") if mark and begin and begin.line < mark.line else None
    mark = begin if begun else mark
    where = Where(path, mark.line + 1, mark.column + 1) if mark else Where(path)
    problem = getattr(error, "problem", None) or str(error)
    if "another document" in problem:
        return Issue(Code.FORBIDDEN_YAML, "a file holds one YAML document", where, "remove the `---`")
    if "maximum nesting" in problem:
        return Issue(Code.TOO_BIG, _TOO_BIG, where)
    line = "".join(text.split("\n")[mark.line : mark.line + 1]) if mark else ""
    if (jinja := _UNQUOTED.search(line)) is not None:
        where = Where(path, where.line, jinja.start("begin") + 1)
        if jinja["begin"] == "{%":
            message = "a statement of Jinja cannot stand round YAML"
            return Issue(Code.TEMPLATE_FORBIDDEN, message, where, _STRUCTURE_HINT)
        return Issue(Code.TEMPLATE_SYNTAX, "an expression needs quotes round it", where, _QUOTE_HINT)
    is_tab = mark is not None and line[mark.column : mark.column + 1] == "\t"
    return Issue(
        Code.SYNTAX, f"not valid YAML: {problem}", where, _TAB_HINT if is_tab else begun or _syntax_hint(problem)
    )


def _syntax_hint(problem: str) -> str | None:
    if "tab" in problem:
        return _TAB_HINT
    if "mapping values are not allowed" in problem or "expected" in problem:
        return "look at the indent, and quote text that holds `: `, `{` or `#`"
    return "quote text that begins with a special character" if "token" in problem else None
