"""What looks at all of a table reads it once."""

from collections import Counter

import pytest

from etc_policy import Project
from etc_policy.errors import SeveralErrors
from etc_policy.hudi.table import FileTableReader
from etc_policy.policy.manifest import EventTime
from etc_policy.storage.local import LocalStorage
from tests.unit.hudi.reading import OURS
from tests.unit.hudi.table_folder import TableFolder, archived, at, base, log
from tests.unit.plan.plan_cases import epoch_ms

POLICY = """version: 1
policies:
  - {name: orders_ro, table: lake/orders, event_time_column: {column: ts, unit: ms}, data_latency: 1h}
"""
TS = EventTime(column="ts", unit="ms")


@pytest.fixture
def orders(tmp_path):
    table = TableFolder(tmp_path / "lake" / "orders")
    table.archive(
        archived(at("00:00:00"), at("00:00:01"), base("f")), archived(at("00:01:00"), at("00:01:01"), log("f", 5))
    )
    table.commit(at("00:01:00"), at("00:01:01"), log("f", 5))
    table.commit(at("00:02:00"), at("00:02:01"), log("f", 7))
    return table


@pytest.fixture
def folder(tmp_path, orders):
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "a.yml").write_text(POLICY)
    return tmp_path


@pytest.fixture
def listings(monkeypatch):
    """How often each folder of names was listed, and each file read, by the path below the table."""
    seen = Counter()
    for name in ("names", "read"):
        found = getattr(LocalStorage, name)

        def count(storage, path, *more, found=found):
            seen[path] += 1
            return found(storage, path, *more)

        monkeypatch.setattr(LocalStorage, name, count)
    return seen


def test_freshness_with_messages(folder, listings):
    """The problems to send are found in what the report is made from."""
    policy = folder / "policies" / "a.yml"
    policy.write_text(POLICY.replace("latency: 1h", "latency: 1h, freshness: {target: 2h}"))
    (folder / "etc_project.yml").write_text("name: shop\nnotify: {http: {url: 'http://127.0.0.1:1/'}}\n")
    with Project(folder) as project, pytest.raises(SeveralErrors, match="were not sent"):
        project.freshness(notify=True)
    assert {listings[".hoodie/hoodie.properties"], listings[".hoodie/timeline"]} == {1}


METADATA = ".hoodie/metadata/.hoodie"


@pytest.mark.parametrize("verb", ["plan", "freshness", "site", "debug"])
def test_the_metadata_table(folder, listings, verb):
    TableFolder(folder / "lake" / "orders" / ".hoodie" / "metadata").commit(at("00:01:00"), at("00:01:01"), log("f", 5))
    with Project(folder) as project:
        getattr(project, verb)("orders_ro")
    assert {path: listings[f"{METADATA}/{path}"] for path in ("timeline", "hoodie.properties")} == {
        "timeline": 1,
        "hoodie.properties": 1,
    }


@pytest.mark.parametrize("verb", ["plan", "freshness", "site", "debug"])
def test_the_plan_of_each_compaction(folder, orders, listings, verb):
    """One of a large table takes long to decode."""
    for minute in (3, 4):
        orders.compaction(at(f"00:0{minute}:00"), at(f"00:0{minute}:01"), base("f"), extra=OURS, plan_extra=OURS)
    with Project(folder) as project:
        getattr(project, verb)("orders_ro")
    plans = {path: times for path, times in listings.items() if path.endswith(".compaction.requested")}
    assert list(plans.values()) == [1, 1]


@pytest.mark.parametrize("verb", ["site", "debug"])
def test_site_and_debug(folder, listings, verb):
    with Project(folder) as project:
        getattr(project, verb)("orders_ro")
    assert {path: listings[path] for path in (".hoodie/timeline", ".hoodie/hoodie.properties")} == {
        ".hoodie/timeline": 1,
        ".hoodie/hoodie.properties": 1,
    }
    commits = {path: times for path, times in listings.items() if path.endswith(".deltacommit")}
    assert commits
    assert set(commits.values()) == {1}


def test_what_is_archived_is_read_on(folder, orders, listings):
    """Where `data_latency` cannot be judged by what is active alone."""
    for second in range(10, 50):
        orders.commit(at(f"00:03:{second}"), at(f"00:03:{second}.500"), log("f", epoch_ms(f"00:03:{second}")))
    orders.archive_first(30)
    listings.clear()
    with Project(folder) as project:
        (table,) = project.freshness("orders_ro", at=epoch_ms("01:00:00")).tables
    assert table.data_latency.observed.writes > 30
    assert {listings[path] for path in (".hoodie/timeline", ".hoodie/hoodie.properties", "p")} == {1}


def test_it_is_what_separate_readings_give(folder):
    place = str(folder / "lake" / "orders"), TS
    whole = FileTableReader().read_with_history(*place, archived=None)
    assert whole.state == FileTableReader().read(*place)
    assert whole.history == whole.further() == FileTableReader().read_with_history(*place).further()
    assert [commit.archived for commit in whole.history.commits] == [True, False, False]
    assert whole.properties["hoodie.table.type"] == "MERGE_ON_READ"
