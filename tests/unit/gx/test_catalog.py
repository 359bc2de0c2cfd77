"""The shipped list of expectations against the installed Great Expectations; `python -m dev.expectations_list` rewrites it."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from etc_policy.gx import view_join
from etc_policy.gx.view_join import SAMPLED
from etc_policy.verify import metadata_checks
from etc_policy.verify.catalog import CATALOG_FILE, OWN, argument_faults, name_fault, offered, source_of

REPOSITORY = Path(__file__).parents[3]
EXPECTATIONS = REPOSITORY / "etc_policy" / "gx" / "expectations.py"


@pytest.mark.extended
def test_the_list_is_that_of_the_installed_version(tmp_path):
    """In a process of its own: the import takes seconds and many modules."""
    script = tmp_path / "render.py"
    script.write_text("from dev.expectations_list import render_catalog\nprint('BEGIN' + render_catalog(), end='')\n")
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True, env=environment)
    listed, installed = json.loads(Path(CATALOG_FILE).read_text("utf-8")), json.loads(done.stdout.split("BEGIN", 1)[1])
    assert listed["expectations"] == installed["expectations"], "run `python -m dev.expectations_list`"


def of_source(source):
    return {name for name, offer in OWN.items() if offer.source == source}


def test_each_of_etcs_own_has_its_check():
    """Read, not imported: Great Expectations takes seconds."""
    assert of_source("metadata") == metadata_checks._CHECKS.keys(), "of OWN and of _CHECKS in verify/metadata_checks.py"
    classes = [node.name for node in ast.parse(EXPECTATIONS.read_text("utf-8")).body if isinstance(node, ast.ClassDef)]
    names = {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower() for name in classes if name.startswith("Expect")}
    assert of_source("rows") == names, "of OWN and of the classes in gx/expectations.py"


def test_what_fails_an_expectation_counts_as_a_fault():
    assigned = [node for node in ast.walk(ast.parse(EXPECTATIONS.read_text("utf-8"))) if isinstance(node, ast.Assign)]
    failures = [node.value for node in assigned if ast.unparse(node.targets[0]) == "failures"]
    joined = [names for names in failures if isinstance(names, ast.Tuple)]  # `ro_as_of` counts its own
    counts = {name for names in joined for name in ast.literal_eval(names)}
    assert len(counts) > 5
    assert counts <= set(SAMPLED), "add it to SAMPLED of gx/view_join.py"
    tree = ast.parse(Path(view_join.__file__).read_text("utf-8"))
    (facts,) = (one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef) and one.name == "facts")
    known = {ast.literal_eval(key) for node in ast.walk(facts) if isinstance(node, ast.Dict) for key in node.keys}
    assert counts <= known, "add a condition to facts of gx/view_join.py"


def test_the_page_has_each_of_etcs_own_with_its_arguments():
    text = (REPOSITORY / "docs" / "how-to" / "verify.md").read_text("utf-8")
    rows = re.findall(r"^\| `(expect_\w+)` \| (.*?)\| \w", text, re.MULTILINE)
    assert {name: set(re.findall(r"`(\w+)`", cell)) for name, cell in rows} == {
        name: set(offer.arguments) for name, offer in OWN.items()
    }, "a line for each in the table of docs/how-to/verify.md"


def test_ours_and_theirs_do_not_meet():
    theirs = json.loads(Path(CATALOG_FILE).read_text("utf-8"))["expectations"]
    assert not theirs.keys() & OWN.keys()
    assert len(theirs) > 50
    assert source_of("expect_column_to_exist") == "great_expectations"
    assert (source_of("expect_no_key_twice"), source_of("expect_freshness_within")) == ("rows", "metadata")


def test_names():
    assert name_fault("expect_no_key_twice") is None
    assert name_fault("expect_no_key_twise") == (
        "unknown expectation `expect_no_key_twise`",
        "did you mean `expect_no_key_twice`?",
    )


@pytest.mark.parametrize(
    ("name", "kwargs", "faults"),
    [
        ("expect_column_to_exist", {"column": "v"}, []),
        ("expect_column_to_exist", {"column": True}, ["argument `column` of `expect_column_to_exist` must be text, got `True`"]),
        ("expect_column_values_to_be_in_set", {"column": "v", "value_set": "a"}, [
            "argument `value_set` of `expect_column_values_to_be_in_set` must be a list, got `a`"
        ]),
        ("expect_column_values_to_be_between", {"column": "v", "min_value": 1.5, "max_value": "2024-01-01"}, []),
        ("expect_table_row_count_to_equal", {"value": 1.5}, [
            "argument `value` of `expect_table_row_count_to_equal` must be a whole number, got `1.5`"
        ]),
        ("expect_column_values_to_be_between", {"column": "v", "strict_min": 1}, [
            "argument `strict_min` of `expect_column_values_to_be_between` must be `true` or `false`, got `1`"
        ]),
        (
            "expect_completeness_up_to",
            {"treshold_ms": 1},
            ["expectation `expect_completeness_up_to` has no argument `treshold_ms`"],
        ),
        ("expect_completeness_up_to", {}, ["expectation `expect_completeness_up_to` needs the argument `threshold_ms`"]),
        ("expect_completeness_up_to", {"threshold_ms": None}, [
            "expectation `expect_completeness_up_to` needs a value for its argument `threshold_ms`, got `null`"
        ]),
        ("expect_column_values_to_be_in_set", {"column": None, "value_set": None}, [
            f"expectation `expect_column_values_to_be_in_set` needs a value for its argument `{argument}`, got `null`"
            for argument in ("column", "value_set")
        ]),
        ("expect_column_values_to_be_between", {"column": "v", "min_value": None, "max_value": 1}, []),
        ("expect_no_key_twice", {"x": 1}, ["expectation `expect_no_key_twice` has no argument `x`"]),
    ],
)  # fmt: skip
def test_arguments(name, kwargs, faults):
    assert [message for _, message, _ in argument_faults(name, kwargs, {})] == faults


@pytest.mark.parametrize(("name", "argument"), [(n, a) for n, one in offered().items() for a in sorted(one.required)])
def test_no_expectation_takes_null_for_what_it_needs(name, argument):
    kwargs = {**{key: {"$PARAMETER": "T"} for key in offered()[name].required}, argument: None}
    ((where, message, hint),) = argument_faults(name, kwargs, dict.fromkeys(kwargs, True) | {argument: False})
    assert (where, "got `null`" in message, bool(hint)) == (argument, True, True)


def test_a_parameter_fits_wherever_it_stands():
    assert list(argument_faults("expect_column_to_exist", {"column": {"$PARAMETER": "x"}}, {"column": True})) == []


def test_every_listed_type_is_one_that_values_are_checked_for():
    known = {"string", "integer", "number", "boolean", "array", "object"}
    assert {kind for one in offered().values() for types in one.arguments.values() for kind in types} <= known
