import datetime as dt
from dataclasses import replace

import pytest

from etc_policy.errors import PolicyError
from etc_policy.policy.files import read_suite
from etc_policy.policy.manifest import EventTime, Freshness, Policy
from etc_policy.verify.ports import DataCheck
from etc_policy.verify.suites import (
    PARAMETERS,
    SuiteExpectation,
    bind_suite,
    in_column,
    parse_suite,
    suite_issues,
    suite_parameters,
)

SUITE = """\
name: mine
expectations:
  - type: ExpectColumnValuesToNotBeNull
    kwargs: {column: v, row_condition: {x: [1, {$PARAMETER: threshold_ms}]}}
    on: rt
    severity: warning
  - type: expect_no_key_twice
"""


def data_check(policy, **changes):
    """A check with T = 1 and now = 2."""
    at = "20240101000000000"
    check = DataCheck(policy, "/t", (), 1, 2, None, at, frozenset(), at, frozenset(), event_time_type="long")
    return replace(check, **changes)


def faults(text):
    with pytest.raises(PolicyError) as raised:
        parse_suite(text, "s.yml")
    return [(issue.code, str(issue.where), issue.message, issue.hint) for issue in raised.value.issues]


def test_a_suite_has_defaults_and_class_names_become_registered_names():
    first, second = map(SuiteExpectation.model_validate, parse_suite(SUITE, "s.yml"))
    assert (first.type, first.on, first.severity) == ("expect_column_values_to_not_be_null", "rt", "warning")
    assert (second.type, second.kwargs, second.on, second.severity) == ("expect_no_key_twice", {}, "ro", "critical")


TYPE_HINT = "name the expectation, for example `type: expect_no_key_twice`"


def test_every_fault_is_told_with_its_place():
    found = faults(
        "name: x\nexpectations:\n  - typ: q\n    kwargs: 3\n  - type: a\n    on: rx\n  - on: ro\nowner: me\n"
    )
    assert [(where, message, hint) for _, where, message, hint in found] == [
        ("s.yml:4:13", "`expectations[0].kwargs` must be a mapping, got `3`", None),
        ("s.yml:3:5", "unknown key `typ`", "did you mean `type`?"),
        ("s.yml:6:9", "`expectations[1].on` must be `ro`, `rt` or `both`, got `rx`", None),
        ("s.yml:7:5", "`type` is missing in `expectations[2]`", TYPE_HINT),
        ("s.yml:8:1", "unknown key `owner`", "the keys here are `name`, `description`, `expectations`"),
    ]
    assert {code for code, *_ in found} == {"ETC222"}


def test_a_fault_of_the_form_hides_no_other():
    text = (
        "name: t\nexpectationz: []\nexpectations:\n  - 3\n  - {kwargs: {}}\n"
        "  - {type: expect_foo, on: rx, severity: bad}\n"
        "  - {type: expect_no_key_twice, on: rx, x: y}\n"
        "  - {type: expect_freshness_within, kwargs: {now_ms: {$PARAMETER: nowms}}, severity: no}\n"
        "  - {type: expect_column_to_exist, kwargs: {column: \"{{ var('column') }}\"}}\n"
    )
    found = [(str(issue.code), issue.message) for issue in suite_issues(text, "s.yml")]
    assert ("ETC222", "`expectations[0]` must be a mapping, got `3`") in found
    assert ("ETC222", "`type` is missing in `expectations[1]`") in found
    assert ("ETC222", "`name` is `t`, but policies name a suite by its file: `s`") in found
    assert ("ETC222", "a suite takes no templates, got `{{ var('column') }}`") in found
    assert [code for code, _ in found if code != "ETC222"] == ["ETC225", "ETC226", "ETC223"]
    assert [i.level for i in suite_issues(text, "s.yml") if i.message.startswith("`name` is")] == ["warning"]
    assert not any("valid" in message or "instance" in message for _, message in found)


def test_a_template_in_a_suite_is_never_compared_with_data():
    text = "name: s\nexpectations:\n  - {type: expect_column_to_exist, kwargs: {column: \"{{ var('c') }}\"}}\n"
    assert faults(text) == [
        (
            "ETC222", "s.yml:3:45", "a suite takes no templates, got `{{ var('c') }}`",
            "write the value, or `{$PARAMETER: name}`",
        ),
    ]  # fmt: skip


def test_a_suite_that_replaces_a_shipped_one_is_a_warning():
    text = "name: ro_complete\nexpectations:\n  - {type: expect_no_key_twice}\n"
    (found,) = suite_issues(text, "suites/ro_complete.yaml", ("ro_complete", "ro_fresh"))
    assert (found.code, found.level, str(found.where)) == ("ETC220", "warning", "suites/ro_complete.yaml")
    assert (
        found.message
        == "this replaces the suite `ro_complete` that etc ships, wherever a policy names it or names none"
    )
    assert suite_issues(text.replace("ro_complete", "mine"), "suites/mine.yml", ("ro_complete",)) == ()


@pytest.mark.parametrize("text", ["[]", "", "name: x\nexpectations: []", "name: x", "expectations: [{type: a}]"])
def test_what_is_no_suite_is_refused(text):
    assert {code for code, *_ in faults(text)} == {"ETC222"}


def test_broken_yaml_is_refused_with_its_line():
    ((_, where, message, _),) = faults("name: [x\nb: {")
    assert where.startswith("s.yml:")
    assert "not valid YAML" in message


def test_parameters_are_filled_in_at_any_depth():
    bound = bind_suite(parse_suite(SUITE, "s.yml"), {"threshold_ms": 7})
    assert bound[0].kwargs == {"column": "v", "row_condition": {"x": [1, 7]}}


def test_unknown_parameters_are_all_told():
    items = ({"type": "a", "kwargs": {"x": {"$PARAMETER": "treshold_ms"}, "y": [{"$PARAMETER": "zzz"}]}},)
    with pytest.raises(PolicyError) as raised:
        bind_suite(items, {"threshold_ms": 1})
    assert [(issue.code, issue.hint) for issue in raised.value.issues] == [
        ("ETC223", "did you mean `threshold_ms`?"), ("ETC223", "known parameters: threshold_ms"),
    ]  # fmt: skip


def test_the_parameters_of_a_check():
    policy = Policy(
        name="orders",
        table="/t",
        event_time=EventTime(column="ts"),
        data_latency_ms=5,
        freshness=Freshness(target_ms=9),
    )
    check = data_check(policy)
    assert suite_parameters(check) == {
        "T": 1, "now": 2, "watermark": None, "complete_until": None,
        "threshold_ms": 1, "now_ms": 2, "watermark_ms": None, "complete_until_ms": None, "last_commit_ms": None,
        "freshness_target_ms": 9,
        "freshness_warn_after_ms": None, "freshness_error_after_ms": None, "log_file_max_bytes": None,
        "event_time_column": "ts", "policy": "orders",
    }  # fmt: skip
    assert set(suite_parameters(check)) == set(PARAMETERS)


def test_moments_are_given_in_the_form_of_the_column(monkeypatch):
    moment = 1_700_000_000_123
    assert in_column(moment, "long", EventTime(column="ts")) == moment
    assert in_column(moment, "int", EventTime(column="ts", unit="s")) == 1_700_000_000
    assert in_column(moment, "long", EventTime(column="ts", unit="us")) == moment * 1000
    assert in_column(moment, "date", EventTime(column="ts")) == dt.date(2023, 11, 14)
    wall_clock = dt.datetime.fromisoformat("2023-11-14T22:13:20.123")
    assert in_column(moment, "local-timestamp-micros", EventTime(column="ts")) == wall_clock
    local = in_column(moment, "timestamp-micros", EventTime(column="ts"))
    assert (local.tzinfo, local.timestamp()) == (None, 1_700_000_000.123)
    assert in_column(moment, "string", EventTime(column="ts")) is None
    assert in_column(None, "long", EventTime(column="ts")) is None


def test_a_moment_that_no_text_column_can_have_is_refused_at_its_place():
    kwargs = "{column: ts, max_value: {$PARAMETER: T}}"
    suite = f"name: x\nexpectations:\n  - type: expect_column_max_to_be_between\n    kwargs: {kwargs}\n"
    policy = Policy(name="orders", table="/t", event_time=EventTime(column="ts"), data_latency_ms=5)
    check = data_check(policy, event_time_type="string")
    with pytest.raises(PolicyError) as raised:
        bind_suite(parse_suite(suite, "s.yml"), suite_parameters(check))
    (issue,) = raised.value.issues
    assert (issue.code, str(issue.where), issue.hint) == (
        "ETC224", "s.yml:3:5", "use `threshold_ms`, in epoch milliseconds",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "kwargs", "wanted"),
    [
        (
            "expect_event_times_tracked",
            "least_share: 80",
            "`least_share` of `{}` must be a number from 0 to 1, got `80`",
        ),
        ("expect_event_times_tracked", "least_share: -0.1", "must be a number from 0 to 1, got `-0.1`"),
        ("expect_log_files_no_larger_than", "max_bytes: 0", "`max_bytes` of `{}` must be 1 or more, got `0`"),
        ("expect_log_files_no_larger_than", "tolerance: -1", "`tolerance` of `{}` must be 0 or more, got `-1`"),
        ("expect_event_times_tracked", "least_share: 1", None),
        ("expect_event_times_tracked", "least_share: null", None),
        ("expect_log_files_no_larger_than", "max_bytes: 1, tolerance: 0", None),
        ("expect_log_files_no_larger_than", "max_bytes: {$PARAMETER: log_file_max_bytes}", None),
    ],
)
def test_a_limit_that_no_table_can_keep_is_refused(name, kwargs, wanted):
    issues = suite_issues(f"name: s\nexpectations:\n  - {{type: {name}, kwargs: {{{kwargs}}}}}\n", "s.yml")
    assert [(issue.code, wanted.format(name) in issue.message) for issue in issues] == [("ETC226", True)] * bool(wanted)


def test_on_both_is_one_expectation_for_each_view():
    text = "name: x\nexpectations:\n  - {type: expect_column_to_exist, kwargs: {column: v}, on: both}\n"
    assert [item["on"] for item in parse_suite(text, "s.yml")] == ["ro", "rt"]


WRONG = """\
name: s
expectations:
  - type: expect_column_valuse_to_not_be_null
    kwargs: {column: v}
  - type: expect_column_values_to_not_be_null
    kwargs:
      colum: v
  - type: expect_column_values_to_not_be_null
    kwargs:
      column: 3
      mostly: {$PARAMETER: treshold}
  - type: expect_no_key_twice
    on: rt
"""


def test_what_is_wrong_is_known_without_great_expectations_and_with_its_place():
    found = [(i.code, str(i.where), i.message, i.hint) for i in suite_issues(WRONG, "s.yml")]
    assert found[0] == (
        "ETC225", "s.yml:3:5", "unknown expectation `expect_column_valuse_to_not_be_null`",
        "did you mean `expect_column_values_to_not_be_null`?",
    )  # fmt: skip
    assert found[1] == (
        "ETC226", "s.yml:7:7", "expectation `expect_column_values_to_not_be_null` has no argument `colum`",
        "did you mean `column`?",
    )  # fmt: skip
    name = "expect_column_values_to_not_be_null"
    assert found[2][:3] == ("ETC226", "s.yml:10:7", f"argument `column` of `{name}` must be text, got `3`")
    assert found[3][:3] == ("ETC223", "s.yml:11:7", f"unknown parameter `treshold` in expectation `{name}`")
    assert found[4][:3] == ("ETC226", "s.yml:13:5", "`expect_no_key_twice` takes no `on`")
    assert len(found) == 5


@pytest.mark.parametrize("null", ["null", "~", ""])
def test_a_needed_argument_without_a_value(null):
    text = f"name: s\nexpectations:\n  - type: expect_completeness_up_to\n    kwargs:\n      threshold_ms: {null}\n"
    (found,) = suite_issues(text, "s.yml")
    assert (found.code, str(found.where)) == ("ETC226", "s.yml:5:7")
    assert (
        found.message
        == "expectation `expect_completeness_up_to` needs a value for its argument `threshold_ms`, got `null`"
    )
    assert found.hint == "write a value, or `{$PARAMETER: NAME}` for one that etc knows"


@pytest.mark.parametrize("name", ["ro_complete", "ro_as_of", "ro_fresh", "writer_conformance"])
def test_the_shipped_suites_are_right(name, tmp_path):
    path, text = read_suite(name, tmp_path)
    assert suite_issues(text, path) == ()
    assert parse_suite(text, path)
