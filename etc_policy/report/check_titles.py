"""Names of checks, and of what they observed, as people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from etc_policy.verify.ports import ExpectationResult, UncheckedExpectation, Verification

#: Our own whose names end where their argument would follow.
_NAMED = {
    "expect_ro_to_contain_rt_up_to": "RO to contain RT up to T",
    "expect_ro_as_of": "RO as of T, neither more nor less",
    "expect_freshness_within": "freshness within its limits",
    "data_can_be_read": "the rows can be read",
    "table_can_be_read": "the table can be read",
    "completeness_is_known": "how far RO is complete is known",
    "suite_fits_the_table": "the suite fits the table",
    "table_can_be_reached": "the table can be reached",
    "table_unchanged_while_read": "the table unchanged while its rows were read",
    "expect_completeness_up_to": "completeness up to a time",
}

#: Without a bound it is about the rows that have no event time.
_BOUNDS = "expect_event_times_within_bounds"
_NO_TIME = "no row without an event time held back from RO"
#: Moments that say what was asked, not what was found.
BOUNDS_IN_WORDS = {"none_before_ms": "none before", "none_after_ms": "none after"}


def expectation_title(name: str) -> str:
    """`expect_no_key_twice` as `no key twice`, the views in capitals."""
    return _NAMED.get(name) or title_of_key(name.removeprefix("expect_"))


def unchecked_titles(verification: Verification) -> tuple[str, ...]:
    """The names of the checks that were not made, each once; a run file of an older etc has no more than their expectations."""
    found = verification.unchecked
    titles = [_unchecked_title(one) for one in found] or [expectation_title(name) for name in verification.not_checked]
    return tuple(dict.fromkeys(titles))


def _unchecked_title(one: UncheckedExpectation) -> str:
    return _NO_TIME if one.expectation == _BOUNDS and not one.arguments else expectation_title(one.expectation)


def result_title(result: ExpectationResult) -> str:
    """The name of a check, with what it was about: `column values to not be null (status on RO)`."""
    if result.expectation == _BOUNDS and result.observed and not BOUNDS_IN_WORDS.keys() & result.observed.keys():
        return _NO_TIME
    about = subject_of(result)
    return f"{expectation_title(result.expectation)} ({about})" if about else expectation_title(result.expectation)


def subject_of(result: ExpectationResult) -> str:
    """The columns and the view that a check was about, as far as it was about some."""
    columns = ", ".join(result.columns)
    return f"{columns} on {result.on.upper()}".strip() if result.on is not None else columns


def title_of_key(key: str) -> str:
    """`rt_rows` as `RT rows`."""
    return " ".join(word.upper() if word in ("ro", "rt") else word for word in key.split("_"))
