"""What a selection means where nothing is in it."""

import pytest

from etc_policy.api.arguments import selected_terms
from etc_policy.errors import UsageError


def test_what_is_not_given_is_every_policy():
    assert selected_terms(()) == ()


@pytest.mark.parametrize("empty", ["", " , ", [], [""], ("",), set()])
def test_what_is_given_and_empty_is_not(empty):
    """A list of the tables that are due may be empty: all of them would be compacted."""
    with pytest.raises(UsageError) as error:
        selected_terms(empty)
    assert error.value.code == "ETC006"
