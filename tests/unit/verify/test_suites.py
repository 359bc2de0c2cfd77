import pytest

from etc_policy.compile.manifest import EventTime, Freshness, Policy
from etc_policy.errors import PolicyError
from etc_policy.verify.ports import DataCheck
from etc_policy.verify.suites import bind_suite, parse_suite, suite_parameters

SUITE = """\
name: mine
expectations:
  - type: ExpectColumnValuesToNotBeNull
    kwargs: {column: v, row_condition: {x: [1, {$PARAMETER: threshold_ms}]}}
    on: rt
    severity: warning
  - type: expect_no_key_twice
"""


def faults(text):
    with pytest.raises(PolicyError) as raised:
        parse_suite(text, "s.yml")
    return [(issue.code, str(issue.where), issue.message, issue.hint) for issue in raised.value.issues]


def test_a_suite_has_defaults_and_class_names_become_registered_names():
    first, second = parse_suite(SUITE, "s.yml").expectations
    assert (first.type, first.on, first.severity) == ("expect_column_values_to_not_be_null", "rt", "warning")
    assert (second.type, second.kwargs, second.on, second.severity) == ("expect_no_key_twice", {}, "ro", "critical")


def test_every_fault_is_told_with_its_place():
    found = faults("name: x\nexpectations:\n  - typ: q\n    kwargs: 3\n  - type: a\n    on: rx\nowner: me\n")
    assert [(code, where) for code, where, _, _ in found] == [
        ("ETC222", "s.yml:3:5"), ("ETC222", "s.yml:4:5"), ("ETC222", "s.yml:3:5"),
        ("ETC222", "s.yml:6:5"), ("ETC222", "s.yml:7:1"),
    ]  # fmt: skip
    assert found[2][2:] == ("unknown key `expectations.0.typ`", "did you mean `type`?")
    assert found[4][2:] == ("unknown key `owner`", "known keys: name, description, expectations")


@pytest.mark.parametrize("text", ["[]", "", "name: x\nexpectations: []", "name: x", "expectations: [{type: a}]"])
def test_what_is_no_suite_is_refused(text):
    assert {code for code, *_ in faults(text)} == {"ETC222"}


def test_broken_yaml_is_refused_with_its_line():
    ((_, where, message, _),) = faults("name: [x\nb: {")
    assert where.startswith("s.yml:")
    assert "not valid YAML" in message


def test_parameters_are_filled_in_at_any_depth():
    bound = bind_suite(parse_suite(SUITE, "s.yml").items, {"threshold_ms": 7})
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
    check = DataCheck(policy, "/t", (), 1, 2, None, "20240101000000000", frozenset(), "20240101000000000", frozenset())
    assert suite_parameters(check) == {
        "threshold_ms": 1, "now_ms": 2, "complete_until_ms": None, "freshness_target_ms": 9,
        "freshness_warn_after_ms": None, "freshness_error_after_ms": None, "event_time_column": "ts", "policy": "orders",
    }  # fmt: skip
