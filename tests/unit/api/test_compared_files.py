"""A proof by rows rests on earlier ones where the files are those that were compared then, and on nothing else."""

import json
import os
import shutil
from dataclasses import replace

import pytest

from etc_policy.api import verifying
from etc_policy.api.project import Project
from etc_policy.errors import EngineError
from etc_policy.errors.codes import Code
from etc_policy.report.report import render_verifications
from etc_policy.storage import local
from etc_policy.table.apply_state import Looked, Unproven
from etc_policy.table.history import PLAN_ID, SEEN_UNTIL, THRESHOLD
from etc_policy.verify.catalog import NO_KEY_TWICE, VIEWS_AGREE
from etc_policy.verify.ports import ExpectationResult
from tests.unit.hudi.table_folder import TableFolder, at, base, log
from tests.unit.plan.plan_cases import epoch_ms

DAY = 86_400_000
NOW = epoch_ms("12:00:00")
PARTITIONS = {"a", "b", "c"}
POLICY = """version: 1
policies:
  - name: orders_ro
    table: lake/orders
    event_time_column: ts
    data_latency: 10m
    verify: {level: data}
"""


class Verifier:
    """Answers each check as it is set to, and keeps what was asked."""

    release, finds = "1.2.0", True

    def __init__(self):
        self.requests, self.wrong = [], {}

    def finds_partitions(self, request, state):
        assert {one.partition for one in state.slices} == request.partitions
        return self.finds

    def check(self, request):
        self.requests.append(request)
        if self.wrong.get("engine"):
            raise EngineError(Code.CANNOT_READ_VIEW, "cannot read the view")
        return 0, tuple(self.result(one) for one in request.suite)

    def result(self, one):
        kwargs, observed = one["kwargs"], {}
        if kwargs.get("latest_ms") is not None:
            observed["none_after_ms"] = kwargs["latest_ms"]
        return ExpectationResult(expectation=one["type"], status=self.wrong.get(one["type"], "pass"), observed=observed)

    @property
    def asked(self):
        """The partitions that the last check read; None where it read all."""
        return self.requests[-1].partitions


@pytest.fixture
def verifier(monkeypatch):
    found = Verifier()
    monkeypatch.setattr("etc_policy.wiring.Environment.data_verifier", lambda _: found)
    monkeypatch.setattr(local, "_AT_REST_NS", 0)
    return found


@pytest.fixture
def clock(monkeypatch):
    """Says what time it is."""
    monkeypatch.setattr(verifying, "clock_ms", lambda: now[0])
    now = [NOW]
    return now


@pytest.fixture
def orders(tmp_path):
    """Three partitions of two file groups each, all of it compacted."""
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "a.yml").write_text(POLICY)
    table = TableFolder(tmp_path / "lake" / "orders")
    groups = (base(f"{name}{number}", partition=name) for name in sorted(PARTITIONS) for number in (1, 2))
    table.commit(at("11:00:00"), at("11:00:05"), *groups)
    compact(table, "a1", at("11:01:00"), at("11:01:05"), "11:00:00")
    return table


def compact(table, group, instant, completed, threshold):
    promise = {THRESHOLD: str(epoch_ms(threshold)), PLAN_ID: "one", SEEN_UNTIL: instant}
    table.compaction(instant, completed, base(group, partition=group[0], merged=1), extra=promise)


@pytest.fixture
def verify(tmp_path, orders, verifier, clock):
    """`etc verify`; the report of the table."""

    def run(**how):
        with Project(tmp_path) as project:
            return project.verify(at=NOW, **how).tables[0].verification

    return run


def kept(tmp_path):
    return json.loads((tmp_path / "lake" / "orders" / ".hoodie" / ".etc" / "memory.json").read_text())


def policy(tmp_path, text, other):
    path = tmp_path / "policies" / "a.yml"
    assert text in path.read_text()
    path.write_text(path.read_text().replace(text, other))


def test_only_partitions_whose_files_have_changed_are_compared(tmp_path, verify, verifier, orders, clock):
    first = verify()
    assert (first.status, first.rests_on, verifier.asked) == ("pass", None, None)
    compact(orders, "b2", at("11:30:00"), at("11:30:05"), "11:29:00")
    clock[0] += 3 * DAY
    found = verify()
    assert (found.status, verifier.asked) == ("pass", {"b"})
    (request,) = verifier.requests[1:]
    assert {name[:2] for name in request.base_files} == {"b1", "b2"}
    assert (request.same_files, request.other_partitions) == (request.base_files, frozenset())
    assert found.rests_on.model_dump() == {
        "file_groups": 6, "file_groups_compared": 2, "oldest_ms": NOW, "oldest_ago_ms": 3 * DAY,
    }  # fmt: skip
    with Project(tmp_path) as project:
        report = project.verify(at=NOW)
        assert verifier.asked == frozenset()
        said = "proved by data: 6 file groups, 0 of them in this run, the oldest 3d ago"
        assert said in render_verifications(report)
        proof = project.freshness(at=NOW).tables[0].proofs or (
            project.freshness(at=NOW).tables[0].complete_until_proof,
        )
    assert proof[-1].rests_on_ms == NOW
    assert str(proof[-1]).endswith(", in part of 2026-01-01 12:00:00 UTC")


def test_partitions_with_log_files_are_compared_each_time(verify, verifier, orders):
    orders.commit(at("11:10:00"), at("11:10:05"), log("c1", partition="c", min_event=epoch_ms("11:09:00")))
    assert [verify().status, verify().status, verifier.asked] == ["pass", "pass", {"c"}]
    compact(orders, "c1", at("11:30:00"), at("11:30:05"), "11:29:00")
    assert [verify().status, verifier.asked, verify().status, verifier.asked] == ["pass", {"c"}, "pass", set()]


def latest(orders, group):
    return max(orders.base.glob(f"{group[0]}/{group}*"), key=lambda path: path.name.split("_")[2])


def in_place(orders):
    path = latest(orders, "b1")
    path.write_bytes(b"y" * path.stat().st_size)


def by_time(orders):
    os.utime(latest(orders, "b1"), (0, 0))


def in_its_place(orders):
    """Another file of the same name, size and time."""
    path = latest(orders, "b1")
    found = path.stat()
    copy = path.with_name("copy")
    shutil.copy(path, copy)
    copy.rename(path)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


def a_new_group(orders):
    orders.commit(at("11:10:00"), at("11:10:05"), base("b3", partition="b"))


def a_log_file(orders):
    orders.commit(at("11:10:00"), at("11:10:05"), log("b1", partition="b", min_event=epoch_ms("11:09:00")))


@pytest.mark.parametrize("change", [in_place, by_time, in_its_place, a_new_group, a_log_file])
def test_a_file_that_is_another_one_is_compared(verify, verifier, orders, change):
    verify()
    change(orders)
    verify()
    assert verifier.asked == {"b"}


def test_a_file_that_was_written_a_moment_ago_is_compared_again(verify, verifier, monkeypatch):
    """Nothing tells it from one that is written over within a tick of the clock."""
    monkeypatch.setattr(local, "_AT_REST_NS", 10**15)
    assert [verify().status, verify().status, verifier.asked] == ["pass", "pass", None]


def test_partitions_that_cannot_be_read_by_themselves_are_compared_with_all_others(verify, verifier, orders):
    verify()
    a_new_group(orders)
    verifier.finds = False
    assert (verify().rests_on, verifier.asked) == (None, None)


@pytest.mark.parametrize(("passed", "asked"), [(7 * DAY - 1, set()), (7 * DAY, None), (-1, None)])
def test_all_rows_are_compared_when_that_is_due_or_the_clock_is_wrong(verify, verifier, clock, passed, asked):
    verify()
    clock[0] += passed
    verify()
    assert verifier.asked == asked


def test_how_often_all_rows_are_compared_is_declared(tmp_path, verify, verifier, clock):
    policy(tmp_path, "level: data", "level: data, full_every: 1d")
    verify()
    for _ in range(3):  # a proof that rests on others is none of all rows
        clock[0] += DAY // 3
        verify()
    assert [one.partitions for one in verifier.requests] == [None, set(), set(), None]


def test_all_rows_are_compared_on_request(verify, verifier):
    verify()
    assert (verify(full=True).rests_on, verifier.asked) == (None, None)


SUITE = """name: own
expectations:
  - type: expect_ro_to_contain_rt_up_to
    kwargs: {threshold_ms: {$PARAMETER: threshold_ms}}
  - type: expect_no_key_twice
"""


@pytest.mark.parametrize(
    ("more", "asked"),
    [
        ("", set()),
        ("  - type: expect_event_times_within_bounds\n    kwargs: {latest_ms: {$PARAMETER: last_commit_ms}}\n", set()),
        ("  - type: expect_event_times_within_bounds\n    kwargs: {earliest_ms: 5}\n", None),
        ("  - type: expect_table_row_count_to_be_between\n    kwargs: {min_value: 5}\n", None),
    ],
)
def test_what_a_suite_asks_of_a_whole_view_is_asked_of_the_whole(tmp_path, verify, verifier, more, asked):
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "own.yml").write_text(SUITE + more)
    policy(tmp_path, "level: data", "level: data, suite: own")
    assert [verify().status, verify().status, verifier.asked] == ["pass", "pass", asked]


def test_a_bound_that_is_earlier_than_what_was_compared_is_looked_at_anew(tmp_path, verify, verifier):
    (tmp_path / "suites").mkdir()
    bound = "  - type: expect_event_times_within_bounds\n    kwargs: {latest_ms: {$PARAMETER: complete_until_ms}}\n"
    (tmp_path / "suites" / "own.yml").write_text(SUITE + bound)
    policy(tmp_path, "level: data", "level: data, suite: own")
    verify()
    policy(tmp_path, "data_latency: 10m", "data_latency: 20m")
    verify()
    assert verifier.asked is None


def alter(tmp_path, orders):
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": one, "type": "long"} for one in ("id", "p", "ts", "x")],
    }
    orders.commit(at("11:20:00"), at("11:20:05"), extra={"schema": json.dumps(schema)})


def edit_properties(tmp_path, orders):
    path = orders.meta / "hoodie.properties"
    path.write_text(path.read_text() + "hoodie.table.precombine.field=ts\n")


def edit_column(tmp_path, orders):
    policy(tmp_path, "event_time_column: ts", "event_time_column: {column: ts, unit: s}")


def edit_suite(tmp_path, orders):
    policy(tmp_path, "level: data", "level: data, suite: ro_as_of")


def say_index(tmp_path, orders):
    policy(tmp_path, "    verify", "    writer: {index: simple}\n    verify")


def restore(tmp_path, orders):
    from tests.unit.hudi.table_folder import ROLLBACK_SCHEMA

    orders.complete(at("11:20:00"), at("11:20:05"), "restore", ROLLBACK_SCHEMA, {"successDeleteFiles": {}})


def put_back(tmp_path, orders):
    """A write that it saw is gone, though no file of these partitions is another one."""
    for path in orders.timeline.glob(f"{at('11:02:00')}*"):
        path.unlink()
    orders.commit(at("11:03:00"), at("11:03:05"))


@pytest.mark.parametrize(
    "change",
    [alter, edit_properties, edit_column, edit_suite, say_index, restore, put_back],
    ids=lambda one: one.__name__,
)
def test_what_a_comparison_went_by_is_the_same(tmp_path, verify, verifier, orders, change):
    orders.commit(at("11:02:00"), at("11:02:05"))
    verify()
    orders.commit(at("11:02:10"), at("11:02:15")) if change is not put_back else None
    assert [verify().status, verifier.asked] == ["pass", set()]
    change(tmp_path, orders)
    verify()
    assert verifier.asked is None


def test_another_release_compares_all_anew(verify, verifier):
    verify()
    verifier.release = "1.1.1"
    verify()
    assert verifier.asked is None


@pytest.mark.parametrize(("index", "asked"), [("bloom", set()), ("global_bloom", None)])
def test_keys_that_may_move_to_another_partition_are_looked_for_in_all(tmp_path, verify, verifier, index, asked):
    policy(tmp_path, "    verify", f"    writer: {{index: {index}}}\n    verify")
    assert [verify().status, verify().status, verifier.asked] == ["pass", "pass", asked]


@pytest.mark.parametrize("narrower", ["window: 1h", "where: p = 'a'"])
def test_of_a_part_of_the_rows_nothing_is_kept_and_nothing_believed(tmp_path, verify, verifier, narrower):
    policy(tmp_path, "level: data", f"level: data, {narrower}")
    verify()
    policy(tmp_path, f"level: data, {narrower}", "level: data")
    assert [verify().status, verifier.asked] == ["pass", None]
    policy(tmp_path, "level: data", f"level: data, {narrower}")
    assert [verify().status, verifier.asked] == ["pass", None]


@pytest.mark.parametrize("status", ["fail", "warn"])
def test_what_was_found_at_fault_takes_all_away(verify, verifier, orders, status):
    verify()
    a_new_group(orders)
    verifier.wrong[NO_KEY_TWICE] = status
    assert [verify().status, verifier.asked] == [status, {"b"}]
    assert [verify().status, verifier.asked] == [status, None]
    verifier.wrong.clear()
    assert [verify().status, verifier.asked] == ["pass", None]
    assert [verify().status, verifier.asked] == ["pass", set()]


def test_a_failure_of_metadata_takes_all_away(verify, verifier, orders):
    verify()
    lost = latest(orders, "c2")
    content = lost.read_bytes()
    lost.write_bytes(content + b"z")
    assert verify(level="metadata").status == "fail"
    lost.write_bytes(content)
    assert [verify().status, verifier.asked] == ["pass", None]


def test_rows_are_not_believed_that_were_right_in_a_proof_that_failed(verify, verifier, orders):
    lost = latest(orders, "c2")
    content = lost.read_bytes()
    lost.write_bytes(content + b"z")
    assert verify().status == "fail"
    lost.write_bytes(content)
    assert [verify().status, verifier.asked] == ["pass", None]


def test_an_engine_that_failed_takes_nothing_away(verify, verifier, orders):
    verify()
    a_new_group(orders)
    verifier.wrong["engine"] = True
    assert verify().status == "error"
    verifier.wrong.clear()
    assert [verify().status, verifier.asked] == ["pass", {"b"}]


def test_rows_in_doubt_are_looked_at_again(tmp_path, verify, verifier, orders):
    """Whatever took the doubt down, what is believed was not looked at by the one that would take it back."""
    verify()
    store = verifying_store(tmp_path)
    doubt = Unproven("", "its verification failed (x)", "fail", Looked(level="data", until_ms=1, checks=(VIEWS_AGREE,)))
    store.update(str(orders.base), lambda kept: replace(kept, unproven=(doubt,)))
    assert [verify().status, verifier.asked, verify().status, verifier.asked] == ["pass", None, "pass", set()]


def verifying_store(tmp_path):
    from etc_policy.hudi.apply_state import FileApplyStateStore

    return FileApplyStateStore()


def test_one_that_rests_on_what_was_taken_away_meanwhile_proves_nothing(
    tmp_path, verify, verifier, orders, monkeypatch
):
    verify()
    compact(orders, "b2", at("11:30:00"), at("11:30:05"), "11:29:00")
    check, store = verifier.check, verifying_store(tmp_path)

    def checked(request):
        store.update(str(orders.base), lambda kept: replace(kept, compared_files=None))
        return check(request)

    monkeypatch.setattr(verifier, "check", checked)
    before = kept(tmp_path)["proofs"]
    assert verify().rests_on is not None
    assert (kept(tmp_path)["proofs"], kept(tmp_path)["compared_files"]) == (before, None)


@pytest.mark.parametrize(
    "other", [5, [], {"subject": 1}, {"subject": "", "full_ms": "x", "last_write": "", "partitions": 3}]
)
def test_what_means_nothing_is_nothing(tmp_path, verify, verifier, orders, other):
    verify()
    path = orders.meta / ".etc" / "memory.json"
    path.write_text(json.dumps({**kept(tmp_path), "compared_files": other}))
    assert [verify().status, verifier.asked] == ["pass", None]
