"""Moments on the command line that could mean two times."""

import pytest


@pytest.mark.parametrize(
    ("given", "first", "second"),
    [
        ("20260101", "1970-01-01T05:37:40.101Z", "2026-01-01T00:00:00Z as a date"),
        ("2026", "1970-01-01T00:00:02.026Z", "2026-01-01T00:00:00Z as a date"),
        ("202601", "1970-01-01T00:03:22.601Z", "2026-01-01T00:00:00Z as a date"),
        ("2026010112", "1970-01-24T10:46:50.112Z", "2026-01-01T12:00:00Z as a date"),
        ("202601011230", "1976-06-02T22:03:31.230Z", "2026-01-01T12:30:00Z as a date"),
        ("20130101123000", "2607-11-25T06:45:23.000Z", "2013-01-01T12:30:00Z as a date"),
        ("1767225600", "1970-01-21T10:53:45.600Z", "2026-01-01T00:00:00.000Z in epoch seconds"),
    ],
)
def test_a_number_with_two_meanings_is_refused_with_both(etc, project, given, first, second):
    code, _, err = etc("freshness", "--at", given)
    assert code == 64
    assert f"`{given}` is ambiguous: {first} in epoch milliseconds, or {second}" in " ".join(err.split())


@pytest.mark.parametrize("given", ["0", "-1", "1767225600000", "20261301", "123456789", "2026-01-01", "30000101"])
def test_one_meaning_is_taken(etc, project, given):
    _, _, err = etc("freshness", "--at", given)
    assert "ambiguous" not in err
    assert "ETC201" in err  # the tables are missing, so the command line was understood
