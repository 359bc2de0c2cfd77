"""What `etc apply` keeps beside a table is read once with it, and once more right before it is changed."""

from datetime import timedelta

import pytest

from etc_policy import Project
from etc_policy.errors import SeveralErrors
from etc_policy.hudi.apply_state import FileApplyStateStore
from etc_policy.table.history import THRESHOLD
from tests.unit.api.test_one_reading import POLICY
from tests.unit.api.test_one_reading import listings as listings
from tests.unit.hudi.table_folder import TableFolder, at, base, log

KEPT = ".hoodie/.etc/memory.json"


@pytest.fixture
def table(tmp_path):
    """It was compacted by etc, and is refused now: a clustering is pending."""
    table = TableFolder(tmp_path / "lake" / "orders")
    table.commit(at("00:01:00"), at("00:01:01"), log("f", 5))
    table.compaction(at("00:03:00"), at("00:03:01"), base("f"), extra={THRESHOLD: "5"})
    table.commit(at("00:04:00"), at("00:04:01"), log("f", 9))
    table.file(at("00:05:00"), ".clustering.requested")
    return table


@pytest.fixture
def project(tmp_path, table):
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "a.yml").write_text(POLICY.replace("1h", "1h, verify: {level: metadata}"))
    with Project(tmp_path) as project:
        yield project


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        ("plan", {}),
        ("plan", {"every": timedelta(minutes=5)}),
        ("freshness", {}),
        ("wait", {"until": 0, "timeout": timedelta(0)}),
        ("site", {}),
        ("debug", {}),
        ("metrics", {}),
    ],
)
def test_it_is_read_once(project, listings, verb, options):
    found = getattr(project, verb)(**options)
    if verb == "metrics":
        found()
    assert listings[KEPT] == 1


def test_a_verification_reads_it_again_right_before_it_changes_it(project, listings):
    project.verify(at=3_600_000, level="logs")
    assert listings[KEPT] == 2


@pytest.mark.parametrize(
    ("status", "table_readings", "changes"),
    [
        # read for the file groups that were busy, the plan and the verification; row of refusals, begin, verdict, count of runs
        ("nothing_due", 3, 4),
        ("refused", 2, 2),  # one refusal more, one run more
    ],
)
def test_apply_reads_it_with_the_table_and_before_each_change(
    project, table, listings, monkeypatch, status, table_readings, changes
):
    seen = []
    update = FileApplyStateStore.update
    monkeypatch.setattr(FileApplyStateStore, "update", lambda *given: seen.append(given) or update(*given))
    if status == "nothing_due":
        next(table.timeline.glob("*.clustering.requested")).unlink()
    try:
        results = project.apply(at=3_600_006)
    except SeveralErrors as error:
        results = error.report
    assert [one.status for one in results.tables] == [status]
    assert (len(seen), listings[KEPT]) == (changes, table_readings + changes)
