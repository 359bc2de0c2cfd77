"""Names of checks, and of what they observed, as people read them."""

from __future__ import annotations

#: Our own whose names end where their argument would follow.
_NAMED = {
    "expect_ro_to_contain_rt_up_to": "RO to contain RT up to T",
    "expect_freshness_within": "freshness within its limits",
    "expect_completeness_up_to": "completeness up to a time",
}


def expectation_words(name: str) -> str:
    """`expect_no_key_twice` as `no key twice`, the views in capitals."""
    return _NAMED.get(name) or key_words(name.removeprefix("expect_"))


def key_words(key: str) -> str:
    """`rt_rows` as `RT rows`."""
    return " ".join(word.upper() if word in ("ro", "rt") else word for word in key.split("_"))
