"""Each rule of expressions is noticed by a case where it is broken."""

import pytest

from tests.property.mutate import OF_EXPRESSIONS, wrong_outcome


@pytest.mark.extended
@pytest.mark.parametrize("rule", OF_EXPRESSIONS)
def test_a_broken_rule_is_noticed(rule: str) -> None:
    assert wrong_outcome(rule) is not None
