"""From a text to Jinja's nodes: Jinja's own lexer and parser, which here go on after a fault and refuse what policies do not use.

The tags alone are what is parsed, so that files of one shape are compiled once. A tag that cannot be cut is a token of kind
`problem`, and the rest of the file goes on after it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import zip_longest
from typing import Any, TypeAlias

from jinja2 import TemplateSyntaxError, nodes
from jinja2.lexer import Lexer, Token
from jinja2.parser import Parser

from etc_policy.declare.suggestions import did_you_mean
from etc_policy.declare.templating.problems import TemplateProblem, forbidden, too_big, wrong
from etc_policy.declare.templating.values import Piece

MAX_TOKENS = 200_000
MAX_NESTING = 16
#: So many tags that cannot be cut are reported; each costs another look at the rest of the file.
_MAX_PROBLEMS = 20
_MAX_DIGITS = 100

#: Stands for a brace in a line that is a comment of YAML; YAML allows it in no file.
_BRACE = "\x01"
_NEWLINE = re.compile(r"\r\n|\r")
_COMMENT = re.compile(r"(?m)^[ \t]*#(?!\})[^\n]*\{[{%#][^\n]*$")
#: An expression that is the same wherever it is found.
_EXPRESSION = re.compile(
    r"(\{\{(?:[^-+{}'\"][^{}'\"]*)?(?:'[^'\\{}]*'[^{}'\"]*|\"[^\"\\{}]*\"[^{}'\"]*){0,20}(?<![-+])\}\})"
)
_BEGINS = {"variable_begin": "}}", "block_begin": "%}", "raw_begin": "", "raw_end": "", "comment_begin": ""}

STATEMENTS = ("for", "if", "elif", "else", "set", "macro", "call", "with", "raw")
_HINT = "a template may use `for`, `if`, `set`, `macro`, `call`, `with` and `raw`"
_READ_HINT = "write one expression between `{{` and `}}`, for example \"{{ var('name') }}\""
_MACROS = "macros of `templates/*.jinja` are known by name in every file"
#: What Jinja has and policies do not, with what to do instead.
FORBIDDEN = {
    "include": f"write a macro; {_MACROS}",
    "import": _MACROS,
    "from": _MACROS,
    "extends": "let the policy extend a template: `extends: name`",
    "block": "let the policy extend a template: `extends: name`",
    "filter": "apply the filter to a value: {{ value | filter }}",
    "autoescape": "nothing is escaped, because no value becomes YAML of its own",
}
_PAIRED = ("for", "if", "macro", "call", "with", "set", "block", "filter", "autoescape")

#: Number of the tag, kind and value, as `Lexer.wrap` takes it; the value of data is the number of its text.
RawToken: TypeAlias = tuple[int, str, str]
Problem: TypeAlias = tuple[int, TemplateProblem]


def unified(source: str) -> str:
    """The text with newlines as Jinja sees them."""
    return _NEWLINE.sub("\n", source) if "\r" in source else source


@lru_cache(maxsize=4096)
def _expression(tag: str, lexer: Lexer) -> tuple[tuple[str, str], ...] | None:
    """Kind and value of each token of `{{ ... }}`, None where it cannot be cut; most files repeat a few of them."""
    try:
        found = tuple((kind, value) for _, kind, value in lexer.tokeniter(tag, None))
        for kind, value in found:
            _require_readable(kind, value, lexer)
    except TemplateSyntaxError:
        return None
    return found


def _require_readable(kind: str, value: str, lexer: Lexer) -> None:
    """Jinja reads numbers, names and texts one by one later; what it then refuses is found here."""
    if kind in ("integer", "float") and len(value) > _MAX_DIGITS:
        raise TemplateSyntaxError(f"a number has more than {_MAX_DIGITS} digits", 1)
    if (kind == "string" and "\\" in value) or (kind == "name" and not value.isascii()):
        list(lexer.wrap([(1, kind, value)]))


class Shape:
    """A text's tokens, the offset of each tag by its number, and its data by their number.

    `problems` are why nothing of it can be carried out, at an offset. Lines that are comments of YAML are plain data.
    """

    def __init__(self, source: str, lexer: Lexer) -> None:
        """Cut a source with unified newlines."""
        self.tokens: list[RawToken] = []
        self.offsets: list[int] = []
        self.texts: list[Piece] = []
        self.problems: list[Problem] = []
        self._text, self._lexer = _COMMENT.sub(lambda found: found[0].replace("{", _BRACE), source), lexer
        self._offset, self._end, self._begin = 0, "", 0
        for _ in range(_MAX_PROBLEMS):
            try:
                for kind, value in self._cut(self._text[self._offset :]):
                    self._add(kind, value)
                return
            except TemplateSyntaxError as error:
                if not self._recover(str(error.message)):
                    return
            except TemplateProblem as problem:
                self.tokens, self.problems = [], [(self._offset, problem)]
                return

    def _cut(self, text: str) -> Iterator[tuple[str, str]]:
        parts = _EXPRESSION.split(text)
        is_plain = "{%" not in text and "{#" not in text and not any("{{" in data for data in parts[::2])
        tags = [_expression(tag, self._lexer) for tag in parts[1::2]] if is_plain else [None]
        if None in tags:
            yield from ((kind, value) for _, kind, value in self._lexer.tokeniter(text, None))
            return
        for data, tag in zip_longest(parts[::2], tags):
            yield from [("data", data)] if data else []
            yield from tag or ()

    def _add(self, kind: str, value: str) -> None:
        if kind == "data":
            self.texts.append(Piece(value.replace(_BRACE, "{"), self._offset, literal=True))
            self.tokens.append((len(self.offsets), kind, str(len(self.texts) - 1)))
        elif kind in _BEGINS:
            self._offset = self._text.index(value, self._offset)
            self._begin, self._end = len(self.tokens), _BEGINS[kind]
            self.offsets.append(self._offset)
            self.tokens.append((len(self.offsets) - 1, kind, value[:2]))
        elif kind not in ("whitespace", "comment", "comment_end"):
            _require_readable(kind, value, self._lexer)
            ends = kind in ("variable_end", "block_end")
            self.tokens.append((len(self.offsets) - 1, kind, "" if ends else value))
        self._offset += len(value)
        if len(self.tokens) > MAX_TOKENS:
            raise too_big(f"the file's templates have more than {MAX_TOKENS:,} words and signs", "split the file")

    def _recover(self, message: str) -> bool:
        """Put a problem in place of the tag that cannot be cut; whether the text goes on after it."""
        number, kind, _ = self.tokens[self._begin]
        is_block = kind == "block_begin" and len(self.tokens) > self._begin + 1
        word = self.tokens[self._begin + 1][2] if is_block else ""
        close = self._text.find(self._end, self.offsets[-1] + 2) if self._end else -1
        message = re.sub(r" at [0-9]+$", "", message)
        if close < 0:
            message = f"the tag is not closed, {message}"
        kind = "variable" if kind == "variable_begin" and close >= 0 else "block"
        tokens = [(f"{kind}_begin", ""), ("problem", f"{word}:{message}"), (f"{kind}_end", "")]
        self.tokens[self._begin :] = [(number, *token) for token in tokens]
        self._offset = close + 2
        return close >= 0


class TolerantParser(Parser):
    """Jinja's parser; a tag that it refuses is recorded, and the rest of the file is parsed."""

    def __init__(self, environment: Any, source: Any) -> None:  # noqa: ANN401 - tokens in place of a text
        self.problems: list[Problem] = []
        self._open: list[Token] = []
        self._broken: Counter[str] = Counter()
        self._stopped = False
        super().__init__(environment, source)

    def subparse(self, end_tokens: tuple[str, ...] | None = None) -> list[nodes.Node]:
        """The nodes up to one of the end tokens."""
        body: list[nodes.Node] = []
        while self.stream:
            token = next(self.stream)
            if token.type == "data":
                body.append(nodes.Output([nodes.TemplateData(token.value, lineno=token.lineno)], lineno=token.lineno))
            elif token.type == "variable_begin":
                body += self._tag("variable", token.lineno)
            elif end_tokens is not None and self.stream.current.test_any(*end_tokens):
                return body
            else:
                body += self._tag("block", token.lineno)
        return body

    def _tag(self, kind: str, tag: int) -> list[nodes.Node]:
        """What a tag comes to; one that cannot be read is recorded, an expression in its place, and the rest goes on."""
        word, is_value = str(self.stream.current.value), kind == "variable"
        try:
            if self.stream.current.type == "problem":
                raise TemplateSyntaxError(word.partition(":")[2], 0)
            found: Any = self.parse_tuple(with_condexpr=True) if is_value else self.parse_statement()
            self.stream.expect(f"{kind}_end")
        except _Reported:
            self._skip_to("block_end")
            return []
        except (TemplateSyntaxError, TemplateProblem, RecursionError) as error:
            word = "" if is_value else word.partition(":")[0]
            problem = unreadable(error, _HINT if word else _READ_HINT)
            found = nodes.Const(problem)
            if not self._skip_to(f"{kind}_end") or not is_value:
                self._broken[word] += word in _PAIRED
                self.problems.append((tag, problem))
                return []
        if is_value:
            found.lineno = tag
            found = nodes.Output([found], lineno=tag)
        return found if isinstance(found, list) else [found]

    def _skip_to(self, kind: str) -> bool:
        while self.stream and self.stream.current.type != kind:
            next(self.stream)
        return bool(next(self.stream).type == kind)

    def parse_statement(self) -> Any:  # noqa: ANN401 - as in Jinja
        """One statement, if policies may use it."""
        token = self.stream.current
        if token.value in FORBIDDEN:
            raise forbidden(f"`{{% {token.value} %}}` is not allowed here", FORBIDDEN[token.value])
        if len(self._open) >= MAX_NESTING:
            self.problems.append((token.lineno, too_big("blocks are nested too deeply")))
            self._stopped = True
            self.stream.close()
            raise _Reported
        self._open.append(token)
        try:
            node = super().parse_statement()
        finally:
            self._open.pop()
        if isinstance(node, nodes.For) and (node.recursive or not _plain_target(node.target)):
            raise forbidden("`for` takes names and is not recursive", "write {% for name in list %}")
        if isinstance(node, nodes.Assign | nodes.AssignBlock) and not _plain_target(node.target):
            raise forbidden("`set` takes names", "write {% set name = value %}")
        return node

    def fail_eof(self, end_tokens: Any = None, lineno: Any = None) -> Any:  # noqa: ANN401 - as in Jinja
        """A block does not end."""
        token = self._open[-1]
        if not self._stopped:
            message = f"`{{% {token.value} %}}` has no `{{% end{token.value} %}}`"
            self.problems.append((token.lineno, wrong(message)))
        raise _Reported

    def fail_unknown_tag(self, name: str, lineno: Any = None) -> Any:  # noqa: ANN401 - as in Jinja
        """A tag that is none, or an end without a beginning."""
        ends = name.removeprefix("end") if name.startswith("end") else ""
        if self._broken[ends] or (name in ("else", "elif") and (self._broken["if"] or self._broken["for"])):
            self._broken[ends] -= bool(ends)
            raise _Reported
        if ends in _PAIRED:
            around = self._open[-2].value if len(self._open) > 1 else None
            expected = f"`{{% end{around} %}}` is expected" if around else "nothing is open"
            raise wrong(f"`{{% {name} %}}` is found where {expected}")
        if name in ("else", "elif"):
            raise wrong(f"`{{% {name} %}}` has no `{{% if %}}` before it")
        raise forbidden(f"`{{% {name[:40]} %}}` is not allowed here", did_you_mean(name, STATEMENTS) or _HINT)


class _Reported(Exception):  # noqa: N818 - no error: it is on the list already
    """The tag is given up; what is wrong with it is recorded."""


def _plain_target(target: nodes.Node) -> bool:
    names = target.items if isinstance(target, nodes.Tuple) else [target]
    return all(isinstance(name, nodes.Name | nodes.NSRef) for name in names)


def unreadable(error: Exception, hint: str = _READ_HINT) -> TemplateProblem:
    """The problem of a tag that cannot be read."""
    if isinstance(error, TemplateProblem):
        return error.with_traceback(None)
    if isinstance(error, RecursionError):
        return too_big("the template is nested too deeply")
    message = f"the template cannot be read: {getattr(error, 'message', None) or error}"
    return wrong(message[:200], hint)
