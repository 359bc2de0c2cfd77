from etc_policy.report.check_titles import result_title, subject_of, unchecked_titles
from etc_policy.verify.ports import ExpectationResult, Verification


def said(name, **fields):
    return result_title(ExpectationResult(expectation=name, status="pass", **fields))


def test_checks_in_words():
    assert said("expect_no_key_twice") == "no key twice"
    assert said("expect_ro_to_contain_rt_up_to") == "RO to contain RT up to T"
    assert said("expect_column_values_to_be_in_set", on="rt", columns=("status",)) == (
        "column values to be in set (status on RT)"
    )
    assert said("expect_table_row_count_to_be_between", on="ro") == "table row count to be between (on RO)"
    assert said("data_can_be_read") == "the rows can be read"
    assert subject_of(ExpectationResult(expectation="x", status="pass", columns=("a", "b"))) == "a, b"


def test_the_two_checks_of_event_times_have_names_of_their_own():
    name = "expect_event_times_within_bounds"
    assert said(name, observed={"rt_rows": 9}) == "no row without an event time held back from RO"
    for bound in ("none_before_ms", "none_after_ms"):
        assert said(name, observed={"rt_rows": 9, bound: 1}) == "event times within bounds"
    assert said(name) == "event times within bounds"  # what could not be checked has observed nothing


def test_what_an_earlier_etc_kept_of_checks_that_were_not_made():
    names = ("expect_no_key_twice", "expect_event_times_within_bounds", "expect_event_times_within_bounds")
    kept = Verification(level="metadata", status="pass", threshold_ms=1, not_checked=names)
    assert unchecked_titles(kept) == ("no key twice", "event times within bounds")
