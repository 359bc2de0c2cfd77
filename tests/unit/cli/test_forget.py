"""`etc forget`: what etc keeps in a table is shown, and removed when no run is at work."""

import json

import pytest

from etc_policy.hudi.layout import ETC_FOLDER, METADATA_NOTE
from etc_policy.run import file_lease
from etc_policy.run.file_lease import FileLease
from tests.unit.hudi.reading import OURS
from tests.unit.hudi.table_folder import TableFolder, at, base


@pytest.fixture
def table(project):
    """A table in which runs of etc have left a lease and a record."""
    found = TableFolder(project / "lake" / "orders")
    found.commit(at("08:00:00"), at("08:00:05"), base("f1"))
    with FileLease(str(found.base)):
        pass
    (found.base / ETC_FOLDER / "memory.json").write_text("{}")
    return found


def test_they_are_shown_and_stay_where_nobody_can_be_asked(etc, table):
    code, out, err = etc("forget", "orders_ro")
    assert (code, out) == (2, "")
    assert [f".hoodie/.etc/{name}" in err for name in ("apply.lease", "java.lease", "memory.json")] == [True] * 3
    code, out, _ = etc("forget", "orders_ro", "--output", "json")
    assert (code, json.loads(out)["done"], len(json.loads(out)["files"])) == (2, False, 3)
    assert len(list((table.base / ETC_FOLDER).iterdir())) == 3


def test_they_are_removed_and_nothing_else(etc, table):
    before = {path for path in table.base.rglob("*") if ETC_FOLDER not in str(path)}
    code, out, _ = etc("forget", "orders_ro", "--yes")
    assert (code, out) == (0, "orders_ro: 3 files removed.\n")
    assert set(table.base.rglob("*")) == before
    assert etc("forget", "orders_ro")[:2] == (0, "orders_ro: etc keeps nothing in its table.\n")


def test_not_while_a_run_is_at_work(etc, table):
    with FileLease(str(table.base)):
        code, _, err = etc("forget", "orders_ro", "--yes")
    assert (code, "another `etc apply` is working on" in err) == (4, True)
    assert (table.base / ETC_FOLDER / "memory.json").exists()


def die(table, left):
    """What a run leaves that is killed."""
    if left == "plan":
        table.plan(at("10:00:02"), OURS)
    else:
        (table.base / METADATA_NOTE).write_text("files")


@pytest.mark.parametrize("left", ["plan", "note"])
def test_not_while_a_run_that_died_needs_them(etc, table, left):
    die(table, left)
    code, _, err = etc("forget", "orders_ro", "--yes")
    assert (code, "error[ETC219]" in err) == (3, True)
    assert (table.base / ETC_FOLDER / "memory.json").exists()


@pytest.mark.parametrize("left", ["plan", "note"])
def test_nor_where_one_dies_while_the_question_is_answered(etc, table, left, monkeypatch):
    lease_of = file_lease.lease_of

    def after_a_run(*arguments, **keywords):
        die(table, left)
        return lease_of(*arguments, **keywords)

    monkeypatch.setattr(file_lease, "lease_of", after_a_run)
    code, _, err = etc("forget", "orders_ro", "--yes")
    assert (code, "error[ETC219]" in err) == (3, True)
    assert (table.base / ETC_FOLDER / "memory.json").exists()
