"""What an index's definition becomes as SQL: writers of the table choose its columns, its function and its format."""

import re

import pytest

from etc_policy.gx.index_probes import _expression
from etc_policy.hudi.writer_options import IndexDefinition

CALL = "java_method(concat('java', char(46), 'lang', char(46), 'System'), 'setProperty', 'etc', 'ran')"
#: A name in backticks, or a text.
_NAME, _TEXT = r"`(?:[^`]|``)*`", r"'(?:[^'\\]|\\.)*'"


@pytest.mark.parametrize("column", [f"ts`, {CALL}, `ts", f"a.b`), {CALL}, (`", "`", "``", "a``b", f"\n`, {CALL}, `"])
@pytest.mark.parametrize("form", [None, "yyyy-MM-dd'T'HH", "','"])
def test_a_definition_is_one_call_of_one_column(column, form):
    options = {"expr": "concat", **({} if form is None else {"format": form})}
    written = _expression(IndexDefinition((column,), options))
    given = "" if form is None else f", {_TEXT}"
    assert re.fullmatch(rf"concat\({_NAME}(?:\.{_NAME})*{given}\)", written)


@pytest.mark.parametrize("options", [{"expr": CALL}, {"expr": "date_format", "format": "\\"}, {"expr": "Σ"}])
def test_no_other_function_or_format_is_asked_for(options):
    assert _expression(IndexDefinition(("ts",), options)) is None
