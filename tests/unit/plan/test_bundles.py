"""Which release of Hudi's bundle may compact a table, by the results that were played."""

import pytest

from etc_policy.plan import bundles
from etc_policy.plan.bundles import best_release, right_releases, why_unfit

PLAYED = {
    "old": {"0.15.0": "right", "1.0.2": "as its own", "1.2.0": "wrong: toast"},
    "table version 6 of Hudi 0.x, old": {"0.15.0": "right", "1.0.2": "right"},
    "new": {"1.1.1": "right", "1.2.0": "right"},
    "of none": {"1.1.1": "fails", "1.2.0": "wrong: toast"},
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


@pytest.mark.parametrize("release", ["0.15.0", "1.0.2"])
def test_a_release_that_is_right_may_compact(release):
    assert why_unfit("old", release) is None


def test_one_that_is_wrong_may_not_whatever_the_user_has_tested():
    reason, hint = why_unfit("old", "1.2.0", ["1.2.0"])
    assert "toast" in reason
    assert "ETC_HUDI_BUNDLE=org.apache.hudi:hudi-spark3.5-bundle_2.12:1.0.2" in hint


@pytest.mark.parametrize(("merging", "release"), [("old", "1.0.0"), ("unheard of", "1.2.0"), ("new", "1.2.0-amzn-1")])
def test_what_nobody_has_played_is_refused_unless_the_user_has_tested_it(merging, release):
    assert why_unfit(merging, release) is not None
    assert why_unfit(merging, release, [release]) is None


def test_where_no_release_is_known_the_user_may_test_one():
    _, hint = why_unfit("unheard of", "1.2.0")
    assert "`writer.merges_tested_with: ['1.2.0']`" in hint


def test_a_bundle_that_does_not_say_its_release_is_refused():
    reason, _ = why_unfit("new", None)
    assert "does not say its release" in reason
