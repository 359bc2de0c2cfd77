"""docs/reference/templates.md says what templates can do: its example is read, and what is left out is named there."""

import re
from pathlib import Path

from etc_policy.declare.reading import read_project
from etc_policy.declare.templating import context, filters, parser, sandbox, values

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "templates.md").read_text("utf-8")


def test_the_example_makes_its_policies(tmp_path):
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "a.yml").write_text(re.search(r"```yaml\+jinja\n(.*?)```", PAGE, re.DOTALL)[1])
    files = read_project(str(tmp_path), {})
    assert files.issues == ()
    found = [(policy.declaration.name, policy.declaration.table, policy.declaration.tags) for policy in files.policies]
    assert found == [
        ("orders_ro", "/mnt/lake/orders", ("default", "orders")),
        ("payments_ro", "/mnt/lake/payments", ("default", "payments")),
    ]


def test_all_that_is_left_out_is_named():
    for statement in parser.FORBIDDEN:
        assert f"`{{% {statement} %}}`" in PAGE
    for name in (*filters.LEFT_OUT, *sandbox.FUNCTIONS):
        assert f"`{name}" in PAGE
    for statement in parser.STATEMENTS:
        assert statement in ("elif", "else") or f"`{statement}`" in PAGE


def test_the_bounds_are_those_that_hold():
    numbers = [context.MAX_STEPS, context.MAX_SECONDS, parser.MAX_TOKENS, parser.MAX_NESTING, values.MAX_CHARACTERS]
    numbers += [values.MAX_TEXT, values.MAX_ITEMS, values.MAX_DEPTH, values.MAX_NODES]
    for number in numbers:
        assert f"{number:,g}" in PAGE or f"{int(number):,}" in PAGE, number
