"""`etc freshness PATH` and `etc simulate PATH`: first figures without any project."""

import shutil

import pytest

from tests.unit.hudi.table_folder import TableFolder, at, base, log
from tests.unit.plan.plan_cases import epoch_ms


@pytest.fixture
def orders(tmp_path, monkeypatch):
    """A table with a log file whose first event is of ten past nine; it is noon, and the current folder is empty."""
    monkeypatch.setattr("etc_policy.wiring.time.time_ns", lambda: epoch_ms("12:00:00") * 1_000_000)
    table = TableFolder(tmp_path / "lake" / "orders")
    table.commit(at("08:00:00"), at("08:00:05"), base("f8"))
    table.commit(at("09:20:00"), at("09:20:05"), log("f8", min_event=epoch_ms("09:10:00")))
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    return table


def test_a_path_needs_no_project_and_leaves_nothing(etc, orders, tmp_path):
    code, out, err = etc("freshness", str(orders.base))
    assert (code, "09:09:59.999" in out) == (0, True), (out, err)
    assert "guessed that `ts` is the event time, and that events are at most 1h late" in err
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_path_that_is_no_table_is_one_clear_error(etc, orders, tmp_path):
    code, _, err = etc("freshness", str(tmp_path / "empty"))
    assert (code, "ETC202" in err) == (1, True), err


def test_a_path_that_is_no_table_keeps_no_other_back(etc, orders, tmp_path):
    code, out, err = etc("freshness", str(orders.base), str(tmp_path / "empty"))
    assert (code, "09:09:59.999" in out, "ETC202" in err) == (1, True, True), (out, err)


def test_the_past_of_a_path_is_replayed_without_a_project(etc, orders, tmp_path):
    code, out, err = etc("simulate", str(orders.base))
    assert (code, "stock, every 5 commits" in out) == (0, True), (out, err)
    assert list((tmp_path / "empty").iterdir()) == []
    assert etc("simulate", str(orders.base), "orders_ro")[0] == 64


def test_a_path_and_a_selection_do_not_go_together(etc, orders):
    assert etc("freshness", str(orders.base), "--select", "orders")[0] == 64


def test_what_is_guessed_of_several_tables_is_said_once(etc, orders, tmp_path):
    names = ["orders"]
    for number in range(6):
        names.append(f"more{number}")
        shutil.copytree(orders.base, tmp_path / "lake" / names[-1])
    code, out, err = etc("freshness", *(str(tmp_path / "lake" / name) for name in names))
    assert (code, out.count("no target ")) == (0, len(names)), out
    assert err.count("guessed that") == err.count("`etc import` writes the policies") == 1
    assert "more0, more1, more2, more3, more4 and 2 more: guessed that `ts` is the event time" in err
