"""Jinja's parser, which here goes on after a fault, and refuses what policies do not use."""

from __future__ import annotations

from collections import Counter
from typing import Any

from jinja2 import TemplateSyntaxError, nodes
from jinja2.lexer import Token
from jinja2.parser import Parser

from etc_policy.codes.registry import Code
from etc_policy.declare.suggestions import did_you_mean
from etc_policy.declare.templating.problems import TemplateProblem, forbidden, too_big

MAX_NESTING = 16

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

Problem = tuple[int, TemplateProblem]


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
            found: Any
            if token.type == "data":
                found = nodes.Output([nodes.TemplateData(token.value, lineno=token.lineno)], lineno=token.lineno)
            elif token.type == "variable_begin":
                found = self._expression(token.lineno)
            elif end_tokens is not None and self.stream.current.test_any(*end_tokens):
                return body
            else:
                found = self._statement(token.lineno)
            body += found if isinstance(found, list) else [found]
        return body

    def _expression(self, tag: int) -> nodes.Node | list[nodes.Node]:
        inner: nodes.Expr
        try:
            self._require_readable()
            inner = self.parse_tuple(with_condexpr=True)
            self.stream.expect("variable_end")
        except (TemplateSyntaxError, TemplateProblem, RecursionError) as error:
            problem = unreadable(error)
            if not self._skip_to("variable_end"):
                self.problems.append((tag, problem))
                return []
            inner = nodes.Const(problem, lineno=tag)
        inner.lineno = tag
        return nodes.Output([inner], lineno=tag)

    def _statement(self, tag: int) -> nodes.Node | list[nodes.Node]:
        word = str(self.stream.current.value)
        try:
            self._require_readable()
            found: nodes.Node | list[nodes.Node] = self.parse_statement()
            self.stream.expect("block_end")
            return found
        except _Reported:
            pass
        except (TemplateSyntaxError, TemplateProblem, RecursionError) as error:
            word = word.partition(":")[0]
            self._broken[word] += word in _PAIRED
            self.problems.append((tag, unreadable(error, _HINT if word else _READ_HINT)))
        self._skip_to("block_end")
        return []

    def _require_readable(self) -> None:
        if self.stream.current.type == "problem":
            raise TemplateSyntaxError(self.stream.current.value.partition(":")[2], 0)

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
            self.problems.append((token.lineno, TemplateProblem(Code.TEMPLATE_SYNTAX, message)))
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
            raise TemplateProblem(Code.TEMPLATE_SYNTAX, f"`{{% {name} %}}` is found where {expected}")
        if name in ("else", "elif"):
            raise TemplateProblem(Code.TEMPLATE_SYNTAX, f"`{{% {name} %}}` has no `{{% if %}}` before it")
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
    return TemplateProblem(Code.TEMPLATE_SYNTAX, message[:200], hint)
