"""docs/reference/templates.md says what expressions can do: its example is read, and what is left out is named there."""

import re
from pathlib import Path

from etc_policy.policy import reading, render, scope, yaml_marks
from etc_policy.policy.reading import read_project

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
    assert {policy.declaration.description for policy in files.policies} == {"Best effort"}


def test_all_that_is_left_out_is_named():
    for name in (*render.LEFT_OUT_FILTERS, *render.LEFT_OUT_METHODS):
        assert f"`{name}`" in PAGE


def test_the_bounds_are_those_that_hold():
    numbers = [scope.MAX_STEPS, render.MAX_TEXT, render.MAX_ITEMS, reading.MAX_ITEMS]
    for number in (*numbers, yaml_marks.MAX_VALUES, yaml_marks.MAX_DEPTH):
        assert f"{int(number):,}" in PAGE, number
