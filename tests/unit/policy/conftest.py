"""Each test has its own words that may be looked for: those that a project before it has left are no concern of it."""

import pytest

from etc_policy.policy import suggestions


@pytest.fixture(autouse=True)
def _words_of_no_project():
    suggestions._LEFT.set(None)
