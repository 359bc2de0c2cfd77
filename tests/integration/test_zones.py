"""What is written to a table is in its zone, whatever the zone of the machine, of Java and of Spark's session."""

import pytest

from tests.integration.zones import Case, run_cases, write_tables

pytestmark = [pytest.mark.spark, pytest.mark.extended]

#: etc, Spark's session, the table's timeline, its writers, table version.
CASES = [
    Case("America/Los_Angeles", "Asia/Tokyo", "UTC", "Asia/Kolkata", 9),
    Case("America/Los_Angeles", "Asia/Tokyo", "LOCAL", "Asia/Tokyo", 6),
    Case("Asia/Tokyo", "Europe/Paris", "LOCAL", "America/Los_Angeles", 8),
    Case("America/Los_Angeles", "Asia/Tokyo", "LOCAL", "America/Los_Angeles", 8),
    Case("Asia/Tokyo", "Europe/Paris", "UTC", "America/Los_Angeles", 6),
    Case("Asia/Tokyo", "Europe/Paris", "LOCAL", "Asia/Tokyo", 9),
]


@pytest.fixture(scope="module")
def found(request, spark, tmp_path_factory):
    """What was found of every case that is to be looked at."""
    folder, items = tmp_path_factory.mktemp("zones"), request.session.items
    cases = [item.callspec.params["case"] for item in items if item.path == request.path]
    write_tables(spark, folder / "written", cases)
    return dict(run_cases(spark, folder / "written", folder / "runs", cases))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_right_or_refused(found, case):
    assert found[case] == []
