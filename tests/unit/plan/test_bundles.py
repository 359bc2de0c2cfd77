"""Which release of Hudi's bundle may compact a table, by the results that were played."""

from dataclasses import replace

import pytest

from etc_policy.plan import bundles
from etc_policy.plan.bundles import best_release, release_for, right_releases, why_unfit
from etc_policy.plan.refusals import Facts
from etc_policy.plan.rules import column_of_no_type
from etc_policy.policy.schema import Strategy
from tests.unit.plan.states import POLICY, STATE, slice_of, with_slice

PLAYED = {
    "old": {"0.15.0": "right", "1.0.2": "right", "1.2.0": "wrong: toast"},
    "table version 6 of Hudi 0.x, old": {"0.15.0": "right", "1.0.2": "right"},
    "new": {"1.1.1": "right", "1.2.0": "right"},
    "of none": {"1.0.2": "right but for readers of 1.0.1, wrong: late", "1.1.1": "fails", "1.2.0": "wrong: toast"},
}


@pytest.fixture(autouse=True)
def _played(monkeypatch):
    monkeypatch.setattr(bundles, "results", lambda: PLAYED)


def test_the_default_comes_first_then_the_newest():
    assert right_releases("new") == ("1.2.0", "1.1.1")
    assert right_releases("old") == ("1.0.2", "0.15.0")
    assert right_releases("table version 6 of Hudi 0.x, old") == ("0.15.0", "1.0.2")
    assert right_releases("of none") == right_releases("unheard of") == ()


@pytest.mark.parametrize(
    ("mergings", "release"),
    [
        ((), "1.2.0"),
        (("new",), "1.2.0"),
        (("old",), "1.0.2"),
        (("of none", "unheard of"), "1.2.0"),
        (("old", "old", "new"), "1.0.2"),
        (("old", "new"), "1.2.0"),
    ],
)
def test_where_nobody_names_a_bundle_the_tables_choose_it(mergings, release):
    assert best_release(mergings) == release


def having_tested(*releases):
    return POLICY.model_copy(update={"writer": POLICY.writer.model_copy(update={"merges_tested_with": releases})})


@pytest.mark.parametrize(
    ("merging", "releases", "taken_by"),
    [
        ("new", (), "1.2.0"),
        ("old", (), "1.0.2"),
        ("table version 6 of Hudi 0.x, old", (), "0.15.0"),
        ("new", ("1.1.1",), "1.2.0"),
        ("of none", (), "1.2.0"),
        ("of none", ("1.2.0",), "1.2.0"),  # known to be wrong, and refused
        ("of none", ("1.0.2", "1.1.1"), "1.1.1"),
        ("unheard of", ("1.0.2", "1.2.0"), "1.2.0"),
        ("unheard of", ("0.15.0", "1.0.2-amzn-1"), "0.15.0"),  # the other one cannot be fetched
    ],
)
def test_which_release_takes_a_table(merging, releases, taken_by):
    assert release_for(having_tested(*releases), replace(STATE, merging=merging)) == taken_by


class TestMetadataOfHudi1:
    """A metadata table of Hudi 1.0 alone is left to 1.0, where that is as right."""

    LEFT = replace(STATE, merging="table version 8 of Hudi 1.0", metadata_of_1_0=True)

    @pytest.fixture(autouse=True)
    def _both_are_right(self, monkeypatch):
        monkeypatch.setattr(bundles, "results", lambda: {self.LEFT.merging: {"1.0.2": "right", "1.2.0": "right"}})

    def test_it_is_taken_by_1_0(self):
        assert release_for(POLICY, self.LEFT) == "1.0.2"

    def test_one_that_later_releases_have_written_to_is_not(self):
        assert release_for(POLICY, replace(self.LEFT, metadata_of_1_0=False)) == "1.2.0"

    def test_nor_is_one_whose_rows_1_0_merges_otherwise(self, monkeypatch):
        played = {self.LEFT.merging: {"1.0.2": "right but for readers of 1.0.1", "1.2.0": "right"}}
        monkeypatch.setattr(bundles, "results", lambda: played)
        assert release_for(POLICY, self.LEFT) == "1.2.0"

    def test_nor_one_with_deletes_over_which_1_0_may_fail(self):
        deleting = tuple(one._replace(has_deletes=True) for one in slice_of(self.LEFT, "f1").log_files)
        assert release_for(POLICY, with_slice(self.LEFT, "f1", log_files=deleting)) == "1.2.0"

    def test_nor_where_log_files_are_to_be_split(self):
        exact = POLICY.model_copy(update={"strategy": Strategy(granularity="record")})
        assert release_for(exact, self.LEFT) == "1.2.0"


@pytest.mark.parametrize("release", ["0.15.0", "1.0.2"])
def test_a_release_that_is_right_may_compact(release):
    assert why_unfit("old", release) is None


def test_one_that_is_wrong_may_not_whatever_the_user_has_tested():
    reason, hint = why_unfit("old", "1.2.0", ["1.2.0"])
    assert reason == "Hudi 1.2.0 merges rows otherwise than the readers of such a table (old)"
    assert "let the table's own writers compact it" in why_unfit("of none", "1.2.0")[1]
    assert "ETC_HUDI_BUNDLE=org.apache.hudi:hudi-spark3.5-bundle_2.12:1.0.2" in hint


@pytest.mark.parametrize(
    ("merging", "release"),
    [("old", "1.0.0"), ("unheard of", "1.2.0"), ("new", "1.2.0-amzn-1"), ("of none", "1.0.2"), ("of none", "1.1.1")],
)
def test_what_nobody_can_tell_is_refused_unless_the_user_has_tested_it(merging, release):
    assert why_unfit(merging, release) is not None
    assert why_unfit(merging, release, [release]) is None


def test_where_no_release_is_known_the_user_may_test_one():
    _, hint = why_unfit("unheard of", "1.2.0")
    assert "`writer.merges_tested_with: ['1.2.0']`" in hint


def test_a_bundle_that_does_not_say_its_release_is_refused():
    reason, _ = why_unfit("new", None)
    assert "does not say its release" in reason


class TestKept:
    """The results that are kept."""

    @pytest.fixture(autouse=True)
    def _kept(self, monkeypatch):
        monkeypatch.undo()

    def test_the_default_is_right_for_what_it_writes_by_default(self):
        for merging in ("EVENT_TIME_ORDERING, one ordering field", "COMMIT_TIME_ORDERING, no ordering field"):
            for version in (8, 9):
                assert why_unfit(f"table version {version}, {merging}", bundles.DEFAULT_RELEASE) is None

    def test_values_of_postgres_that_did_not_change_are_kept_by_the_bundle_of_their_writer(self):
        assert right_releases("table version 6 of Hudi 0.x, PostgresDebeziumAvroPayload, one ordering field") == (
            "0.15.0",
        )


@pytest.mark.parametrize(
    ("release", "unworkable", "is_refused"),
    [
        ("1.2.0", ("c", "time-millis"), True),
        ("0.15.0", ("c", "time-millis"), False),
        ("0.15.0", ("c", "a union of int and long"), True),
        (None, ("c", "a decimal of 40 digits"), False),
        ("1.2.0", None, False),
    ],
)
def test_columns_that_a_release_cannot_compact(release, unworkable, is_refused):
    """See facts: types-not-compacted; of a bundle that does not say its release nobody knows."""
    found = column_of_no_type(Facts(POLICY, replace(STATE, release=release, unworkable=unworkable), None))
    assert (found is not None) is is_refused
