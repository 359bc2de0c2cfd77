"""`python -m dev.house` follows commands as they are now."""

from dev import house


def test_the_walks_reach_what_they_are_about():
    plan, apply = house.plan(), house.apply()
    names = {name for _, name in plan.functions}
    assert {"Project.plan", "build_table_plan"} <= names
    assert {"Project.apply", "Runner.apply"} <= {name for _, name in apply.functions}
    assert 0 < apply.figures()["frames to the compactor's port"] < apply.depth
    assert plan.changes_of_file >= len({file for file, _ in plan.functions})
