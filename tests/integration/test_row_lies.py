"""A few lies about the rows of a real table: `python -m tests.lies.rows --count 100` tells more."""

import pytest

from tests.lies.about_rows import LIES
from tests.lies.real_table import RealTables
from tests.lies.rows import alarm, tell
from tests.lies.telling import MISSED, NO_CHECK

pytestmark = [pytest.mark.spark, pytest.mark.extended]

#: What each is caught by; the command tries the others.
CAUGHT = {
    "a base file with the rows of its predecessor": "data",
    "a row twice": "data",
    "a threshold that commits, plan and cache agree on": "data",
    "another value in a row": NO_CHECK,
}


@pytest.fixture(scope="module")
def tables(spark, written_table, tmp_path_factory):
    return RealTables(spark, tmp_path_factory.mktemp("lies"), written_table)


@pytest.mark.parametrize("rests", [False, True])
def test_each_lie_is_caught_or_stands_in_the_list(tables, rests):
    """Also where the proof rests on a comparison of all rows from before the table was changed."""
    told = [lie for lie in LIES if lie.name in CAUGHT]
    found = {lie.name: tell(tables, number, lie, rests=rests) for number, lie in enumerate(told)}
    assert MISSED not in {one.outcome for one in found.values()}
    assert {name: one.outcome for name, one in found.items()} == CAUGHT
    assert alarm(tables, 0) is None
