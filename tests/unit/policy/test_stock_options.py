"""What each strategy of Hudi's own becomes, as text: type, keys, and the options that Hudi's planner is given."""

import re
import time
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etc_policy.policy import schema_values
from etc_policy.policy.hudi_options import STOCK, stock_options
from etc_policy.policy.manifest import EventTime, Policy, changed_values, policy_values
from etc_policy.policy.schema import Strategy
from etc_policy.policy.schema_values import is_found, require_plain

PACKAGE = "org.apache.hudi.table.action.compact.strategy"
CASES = [
    ({}, {}),
    ({"type": "unbounded"}, {"strategy": f"{PACKAGE}.UnBoundedCompactionStrategy"}),
    (
        {"type": "bounded_io", "target_io": "50 GiB"},
        {"strategy": f"{PACKAGE}.BoundedIOCompactionStrategy", "target.io": "51200"},
    ),
    (
        {"type": "bounded_io", "target_io": "50 GB"},
        {"strategy": f"{PACKAGE}.BoundedIOCompactionStrategy", "target.io": "47683"},
    ),
    (
        {"type": "log_file_size", "min_log_size": "256 MiB"},
        {
            "strategy": f"{PACKAGE}.LogFileSizeBasedCompactionStrategy",
            "target.io": "512000",
            "logfile.size.threshold": "268435456",
        },
    ),
    (
        {"type": "log_file_num", "min_log_files": 5},
        {
            "strategy": f"{PACKAGE}.LogFileNumBasedCompactionStrategy",
            "target.io": "512000",
            "logfile.num.threshold": "5",
        },
    ),
    (
        {"type": "day_based"},
        {
            "strategy": f"{PACKAGE}.DayBasedCompactionStrategy",
            "target.io": "512000",
            "daybased.target.partitions": "10",
        },
    ),
    (
        {"type": "partition_regex", "regex": "^eu"},
        {"strategy": f"{PACKAGE}.PartitionRegexBasedCompactionStrategy", "partition.path.regex": "^eu"},
    ),
]


@pytest.mark.parametrize(("declared", "options"), CASES)
def test_the_options_of_each_type(declared, options):
    whole_table = {"hoodie.table.services.incremental.enabled": "false"} if options else {}
    expected = {f"hoodie.compaction.{key}": value for key, value in options.items()} | whole_table
    assert stock_options(Strategy.from_yaml(declared)) == expected


def test_every_type_has_a_case():
    assert {declared.get("type", "event_time") for declared, _ in CASES} == {"event_time", *STOCK}


def test_a_changed_option_is_a_changed_policy():
    few, many = (
        Policy(
            name="t",
            table="/t",
            event_time=EventTime(column="ts"),
            data_latency_ms=1,
            strategy=Strategy(type="log_file_num", min_log_files=count),
        )
        for count in (3, 5)
    )
    assert few.fingerprint != many.fingerprint
    (change,) = changed_values(policy_values(few), policy_values(many))
    assert change == "strategy.min_log_files: 3 -> 5"


@pytest.mark.parametrize(
    "text", ["^2026/0[1-6]/", "a|b", "(eu|us)/.*", "dt=2026-0[12]", r"\d{4}/", "[^/]+/x$", "[a-z_]+"]
)
def test_an_expression_that_java_and_python_read_alike(text):
    assert require_plain(text) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "(a+)+", "(?=x)", r"(a)\1", "[a&&b]", "[[a]]", r"\p{L}", "a{,3}", "x{2,1}", "a++", "(?i)a", "[z-a]", "é"),
        *(r"\Z", "(?P<n>a)", "(?(1)a)", "(", "a" * 501, "(" * 400),
    ],
)
def test_an_expression_that_they_may_not_read_alike(text):
    with pytest.raises(ValueError, match=re.escape("Java and Python")):
        require_plain(text)


def test_an_expression_is_looked_for_anywhere():
    assert is_found("eu", "region=eu/2026")
    assert not is_found("^eu", "region=eu/2026")
    assert not is_found(r"\d", "\u0661")  # Java's digits are those of ASCII


@pytest.mark.parametrize(
    "text",
    [
        ".*" * 12 + "x",
        "a?" * 60 + "a" * 60 + "b",
        "(a|a)" * 60 + "b",
        "a{0,999}" * 40 + "b",
        "(.*|(.*|.*)|.*.*)" * 9 + "x",
    ],
)
def test_no_expression_is_looked_for_without_end(text):
    began = time.process_time()
    assert not is_found(require_plain(text), "a" * 250)
    assert is_found(text, "a" * 250 + "bx")
    assert time.process_time() - began < 5


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_all_ways_at_once_find_what_one_after_the_other_does(data):
    one = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", r"\.", "/"])
    times = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,}", "{0,3}"])
    atoms = st.builds(str.__add__, one, times) | st.sampled_from(["^", "$"])
    groups = st.recursive(
        atoms,
        lambda inner: (
            st.builds(lambda parts: f"({'|'.join(parts)})", st.lists(inner, min_size=1, max_size=3))
            | st.builds("".join, st.lists(inner, max_size=4))
        ),
        max_leaves=12,
    )
    text = data.draw(groups.filter(bool))
    searched = data.draw(st.text("ab./1\n", max_size=12))
    with patch.object(schema_values, "_MOST_WAYS", 0):
        assert is_found(require_plain(text), searched) == bool(re.search(text, searched, re.ASCII))
