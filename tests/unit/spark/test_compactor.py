"""Taking a plan back, as far as it needs no Spark: what was written for it is removed file by file, and it completes empty."""

import os
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from etc_policy.errors import EngineError, EtcError, OvertakenError, RetryableError, StalePlanError
from etc_policy.hudi.table import FileTableReader
from etc_policy.plan.commit_metadata import withdrawn_metadata
from etc_policy.policy.manifest import EventTime, Policy
from etc_policy.run.file_lease import FileLease
from etc_policy.run.ports import Job
from etc_policy.run.runner import Runner
from etc_policy.run.table_files import HudiFiles
from etc_policy.spark import compactor as hudi_compactor
from etc_policy.spark import empty_commit, plan_files
from etc_policy.spark.compactor import HudiCompactor
from tests.unit.hudi.reading import OURS, read
from tests.unit.hudi.table_folder import COMMIT_SCHEMA, TableFolder, at, avro, base, commit_metadata, log, operation

C = at("10:00:06")


@pytest.fixture
def compactor(monkeypatch):
    """One whose Hudi commits nothing by writing the timeline's files itself; that it really does so is played with Spark."""
    found = HudiCompactor(SimpleNamespace(_jvm=None))
    monkeypatch.setattr(hudi_compactor, "require_bundle", lambda *_: None)
    for name in ("_client", "_lock"):
        monkeypatch.setattr(found, name, lambda *_: nullcontext(lambda: None))
    monkeypatch.setattr(hudi_compactor, "compaction_instant", lambda *_: None)
    monkeypatch.setattr(hudi_compactor, "hudi_table", lambda *_: None)
    monkeypatch.setattr(hudi_compactor, "commit_nothing", lambda _spark, _client, job, _: end_empty(job))
    return found


def end_empty(job):
    """The commit that ends a plan which is withdrawn."""
    folder = Path(job.base_path) / ".hoodie" / "timeline"
    (folder / f"{job.instant}.compaction.inflight").touch()
    content = avro(COMMIT_SCHEMA, commit_metadata(job.instant, (), withdrawn_metadata(), "COMPACT"))
    (folder / f"{job.instant}_{at('10:00:59')}.commit").write_bytes(content)


ENDED = {f".hoodie/timeline/{C}.compaction.{state}" for state in ("requested", "inflight")} | {
    f".hoodie/timeline/{C}_{at('10:00:59')}.commit"
}


class Gate:
    """A commit gate that lets everything pass, and notes when it is asked."""

    def __init__(self, calls):
        self._calls = calls

    def before_lock(self):
        self._calls.append("before the lock")

    def under_lock(self):
        self._calls.append("under the lock")


def job_of(table, version=9):
    policy = Policy(name="orders_ro", table=str(table.base), event_time=EventTime(column="ts"), data_latency_ms=1)
    return Job(policy, str(table.base), version, (), C, ())


def files(table):
    return {str(path.relative_to(table.base)) for path in table.base.rglob("*") if path.is_file()}


def test_a_plan_that_nobody_has_begun_stays_on_the_timeline_and_promises_nothing(table, compactor):
    """Who has listed it may open it yet."""
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"), log("f1", 5))
    before, slices = files(table), read(table).slices
    table.plan(C, OURS)
    table.data(C, base("f1"))
    compactor.withdraw(job_of(table))
    assert files(table) == before | ENDED
    state = read(table)
    assert (state.own_pending, state.last_compaction, state.slices) == (None, None, slices)
    assert HudiFiles().completed_commit(str(table.base), C).plan_id == ""


def test_what_was_written_into_a_partition_that_begins_with_a_dot_goes_too(table, compactor):
    """A base file that outlives its plan would hide later log files."""
    table.commit(at("10:00:00"), at("10:00:01"), base("f1", partition=".net"), log("f1", 5, partition=".net"))
    before = files(table)
    table.plan(C, OURS)
    table.data(C, base("f1", partition=".net"))
    compactor.withdraw(job_of(table))
    assert files(table) == before | ENDED


def failed(said):
    """An exception of Java that says so."""
    from py4j.protocol import Py4JJavaError

    class Failed(Py4JJavaError):
        java_exception = SimpleNamespace(toString=lambda: said, getCause=lambda: None)

        def __init__(self):
            pass

        def __str__(self):
            return said

    return Failed()


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("java.lang.UnsupportedOperationException: no such type", "ETC326"),
        ("java.io.IOException: No space left on device", None),
        ("Commit being rolled back 1 is earlier than the latest compaction 2", None),
    ],
)
def test_what_hudi_says_of_the_data_is_told_from_what_may_pass(table, compactor, monkeypatch, said, code):
    """The first ends its heartbeat, so that the plan can be withdrawn; the others stay what they are."""
    from py4j.protocol import Py4JJavaError

    stopped = []
    monkeypatch.setattr(hudi_compactor, "heartbeats", lambda _: SimpleNamespace(stop=stopped.append))
    with pytest.raises(EngineError if code else Py4JJavaError) as error, compactor._workable(job_of(table), None):
        raise failed(said)
    assert getattr(error.value, "code", None) == code
    assert stopped == ([C] if code else [])


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("HoodieMetadataException: Failed to get expression index updates for partition expr_index_u", "DROP INDEX"),
        ("java.io.IOException: No space left on device", None),
    ],
)
def test_where_an_expression_index_forbids_the_empty_commit_what_helps_is_said(table, monkeypatch, said, hint):
    from py4j.protocol import Py4JJavaError

    def commit(*_):
        raise failed(said)

    stopped = []
    monkeypatch.setattr(
        empty_commit, "heartbeats", lambda _: SimpleNamespace(start=lambda _: None, stop=stopped.append)
    )
    monkeypatch.setattr(empty_commit, "hudi_table", MagicMock())
    monkeypatch.setattr(empty_commit, "_commit", commit)
    with pytest.raises(EngineError if hint else Py4JJavaError) as error:
        empty_commit.commit_nothing(None, None, job_of(table), None)
    assert hint is None or hint in error.value.hint
    assert stopped == [C]


def test_one_that_archiving_has_passed_is_removed(table, compactor):
    """It would be the first commit of the timeline, and those that were archived after it would count as never completed."""
    table.commit(at("10:00:07"), at("10:00:08"), base("f1"), log("f1", 5))
    before = files(table)
    table.plan(C, OURS)
    compactor.withdraw(job_of(table))
    assert files(table) == before


def test_one_that_a_stock_writer_begins_while_its_files_are_looked_for_is_left_to_it(table, compactor, monkeypatch):
    """Listing a large table takes long, and its base files would go under a writer who then commits them."""

    def begun_meanwhile(job):
        yield from real(job)
        table.file(C, ".compaction.inflight")
        table.data(C, base("f2"))

    real = plan_files._files_of
    monkeypatch.setattr(plan_files, "_files_of", begun_meanwhile)
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"), log("f1", 5))
    table.plan(C, OURS)
    table.data(C, base("f1"))
    with pytest.raises(RetryableError, match=f"has begun the compaction at {C}") as error:
        compactor.withdraw(job_of(table))
    assert error.value.exit_code == 4
    assert read(table).own_pending == C
    assert (table.base / "p" / base("f2").name(C)).exists()


ROLLBACK_PLAN = {
    "type": "record",
    "name": "HoodieRollbackPlan",
    "fields": [
        {
            "name": "instantToRollback",
            "type": {
                "type": "record",
                "name": "HoodieInstantInfo",
                "fields": [{"name": "commitTime", "type": "string"}, {"name": "action", "type": "string"}],
            },
        }
    ],
}


@pytest.mark.parametrize("version", [9, 6])
def test_a_rollback_of_it_that_was_begun_and_did_not_end_goes_too(tmp_path, compactor, version):
    """A run that was killed while it rolled back leaves one; the next makes another, and this would pend for ever."""
    table = TableFolder(tmp_path / "t", version=version)
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    for instant, of in ((at("10:00:07"), at("10:00:03")), (at("10:00:08"), C)):
        if instant == at("10:00:08"):
            before = files(table)
        target = {"instantToRollback": {"commitTime": of, "action": "compaction"}}
        table.file(instant, ".rollback.requested", avro(ROLLBACK_PLAN, target))
        table.file(instant, ".rollback.inflight")
    table.plan(C, OURS)
    compactor.withdraw(job_of(table, version))
    assert files(table) == (before if version == 6 else before | ENDED)


@pytest.mark.parametrize("version", [9, 6])
@pytest.mark.parametrize("method", ["withdraw", "_remove_plan"])
def test_one_that_has_completed_is_not_taken_back(tmp_path, compactor, version, method):
    """A stock compaction may have carried it out meanwhile: its base files are the table's now."""
    table = TableFolder(tmp_path / "t", version=version)
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    table.compaction(C, at("10:00:30"), base("f1"), plan_extra=OURS)
    before = files(table)
    with pytest.raises(EngineError, match=f"the compaction at {C} has completed") as error:
        getattr(compactor, method)(job_of(table, version))
    assert (error.value.code, error.value.exit_code) == ("ETC310", 3)
    assert files(table) == before


@pytest.mark.parametrize("begun", [False, True])
def test_a_plan_that_grew_stale_while_it_was_published_is_taken_back_unless_somebody_runs_it(table, compactor, begun):
    """A stock writer would commit base files that are gone; if it dies the next run withdraws the plan."""

    def no_longer_fits():
        if begun:
            table.file(C, ".compaction.inflight")
            table.data(C, base("f1"))
        raise StalePlanError("ETC402", "archived")

    table.commit(at("10:00:00"), at("10:00:01"), base("f1"), log("f1", 5))
    with pytest.raises(StalePlanError) as error:
        compactor.publish(replace(job_of(table), extra_metadata=OURS), lambda: None, no_longer_fits)
    assert error.value.was_withdrawn == (not begun)
    assert read(table).own_pending == (C if begun else None)
    assert (table.base / "p" / base("f1").name(C)).exists() == begun
    assert (files(table) >= ENDED) == (not begun)


@pytest.mark.parametrize("method", ["withdraw", "_remove_plan"])
def test_before_version_8_a_plan_is_not_taken_from_under_log_files_that_it_named(tmp_path, compactor, method):
    """They belong to the slice that the plan begins: without it that slice would have no base file, and RT lose its rows."""
    table = TableFolder(tmp_path / "t", version=6)
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    table.plan(C, OURS)
    table.commit(at("10:00:07"), at("10:00:08"), log("f1", base_instant=C))
    before = files(table)
    with pytest.raises(EngineError, match=f"written since the plan at {C} was published") as error:
        getattr(compactor, method)(job_of(table, 6))
    assert (error.value.code, error.value.exit_code) == ("ETC312", 3)
    assert files(table) == before


class TestAPlanThatCanNeitherBeCarriedOutNorWithdrawn:
    """Before table version 8: a planned log file is gone, and a writer has added to the slice that the plan begins."""

    @pytest.fixture
    def table(self, tmp_path):
        found = TableFolder(tmp_path / "t", version=6)
        first, named = at("10:00:00"), log("f1", 1, base_instant=at("10:00:00")).name(at("10:00:02"))
        found.commit(first, "", base("f1"), kind="BULK_INSERT")
        found.commit(at("10:00:02"), "", log("f1", 1, base_instant=first))
        planned = operation("f1", base("f1").name(first), named).model_copy(update={"base_instant": first})
        found.plan(C, OURS, planned)
        found.commit(at("10:00:07"), "", log("f1", 1, base_instant=C))
        (found.base / "p" / named).unlink()
        return found

    @staticmethod
    def finish(table, compactor):
        lease = partial(FileLease, local=True)
        runner = Runner(FileTableReader(), HudiFiles(), lambda: compactor, lease, lambda _: None)
        return runner.finish_pending(job_of(table, 6).policy, str(table.base))

    def test_apply_says_which_file_is_gone_and_goes_on_once_it_is_back(self, table, compactor, monkeypatch):
        """An empty one does, where a rollback took it."""
        before = files(table)
        with pytest.raises(EngineError) as error:
            self.finish(table, compactor)
        gone = "p/" + log("f1", 1, base_instant=at("10:00:00")).name(at("10:00:02"))
        assert error.value.code == "ETC312"
        assert f"cannot be carried out (its file {gone} is gone" in error.value.message
        assert f"written since the plan at {C} was published: it cannot be withdrawn" in error.value.message
        assert f"put `{gone}` back, then run `etc apply`" in error.value.hint
        assert error.value.hint.startswith("stop its writers and leave the plan")
        assert {one for one in files(table) if ".etc" not in one} == before
        (table.base / gone).touch()
        ran = []

        def run(job, *_):
            ran.append(job.instant)
            raise EngineError("ETC304", "far enough")

        monkeypatch.setattr(compactor, "run", run)
        with pytest.raises(EngineError, match="far enough"):
            self.finish(table, compactor)
        assert ran == [C]


@pytest.mark.parametrize("method", ["withdraw", "_remove_plan"])
def test_before_version_8_a_plan_is_not_taken_from_under_a_writer_that_may_name_it(tmp_path, compactor, method):
    """Its log files may come once the plan is gone. One that has died is not waited for."""
    table = TableFolder(tmp_path / "t", version=6)
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    table.plan(C, OURS)
    table.file(at("10:00:07"), ".deltacommit.requested")
    before = files(table)
    with pytest.raises(RetryableError, match=f"the writer that began at {at('10:00:07')} may add to") as error:
        getattr(compactor, method)(job_of(table, 6))
    assert error.value.exit_code == 4
    assert files(table) == before
    heartbeat = table.base / ".hoodie" / ".heartbeat" / at("10:00:07")
    heartbeat.parent.mkdir()
    heartbeat.touch()
    os.utime(heartbeat, (1, 1))
    getattr(compactor, method)(job_of(table, 6))
    assert not list(table.timeline.glob("*.compaction.*"))


@pytest.mark.parametrize("method", ["withdraw", "_remove_plan"])
def test_before_version_8_a_writer_may_begin_while_its_files_are_looked_for(tmp_path, compactor, method, monkeypatch):
    """Listing a large table takes long, and the writer adds to the slice that the plan begins."""
    table = TableFolder(tmp_path / "t", version=6)
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    table.plan(C, OURS)
    table.data(C, base("f1"))
    before, lists, real = files(table), [], plan_files._files_of

    def begun_meanwhile(job):
        lists.append(job)
        yield from real(job)
        if len(lists) == 2 + (method == "withdraw"):
            table.file(at("10:00:07"), ".deltacommit.requested")

    monkeypatch.setattr(plan_files, "_files_of", begun_meanwhile)
    with pytest.raises(RetryableError, match=f"the writer that began at {at('10:00:07')} may add to"):
        getattr(compactor, method)(job_of(table, 6))
    assert files(table) > before


@pytest.mark.parametrize("written", [(), (log("f1", base_instant=at("10:00:00")),)])
def test_before_version_8_one_that_named_none_is(tmp_path, compactor, written):
    table = TableFolder(tmp_path / "t", version=6)
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    before = files(table)
    table.plan(C, OURS)
    table.data(at("10:00:07"), *written)
    compactor.withdraw(job_of(table, 6))
    assert not list(table.timeline.glob("*.compaction.*"))
    assert before <= files(table)


def stat(path):
    return SimpleNamespace(getPath=lambda: path, getTotalWriteErrors=lambda: 0)


def test_nothing_is_committed_whose_base_files_are_gone(table, compactor):
    table.data(C, base("f1"))
    here, gone = (f"p/{base(file_id).name(C)}" for file_id in ("f1", "f2"))
    compactor._require_written(job_of(table), None, [stat(here)])
    with pytest.raises(EngineError, match="f2_0-1-0") as error:
        compactor._require_written(job_of(table), None, [stat(here), stat(gone)])
    assert error.value.code == "ETC307"


class TestCommitting:
    """The order around the commit; that it keeps writers out is played with real ones (`interleavings.py`)."""

    @pytest.fixture
    def calls(self):
        return []

    @pytest.fixture
    def compactor(self, calls, monkeypatch):
        """One whose Hudi, of the bundle 1.0, does nothing but to note what it is asked for."""

        @contextmanager
        def lock(*_):
            calls.append("lock")
            yield lambda: calls.append("held")
            calls.append("unlock")

        metadata = SimpleNamespace(addMetadata=lambda *_: None, getWriteStats=list)
        result = SimpleNamespace(getCommitMetadata=lambda: SimpleNamespace(get=lambda: metadata))
        client = SimpleNamespace(
            compact=lambda instant: calls.append("compact") or result,
            commitCompaction=lambda *_: calls.append("commit"),
        )
        found = HudiCompactor(SimpleNamespace(_jvm=None))
        monkeypatch.setattr(hudi_compactor, "require_bundle", lambda *_: None)
        monkeypatch.setattr(found, "_client", lambda _: nullcontext(client))
        monkeypatch.setattr(found, "_lock", lock)
        monkeypatch.setattr(found, "_empty", lambda: None)
        monkeypatch.setattr(hudi_compactor, "takes_write_metadata", lambda _: False)
        # it asks Java for its clock
        monkeypatch.setattr(hudi_compactor, "require_engine_time", lambda *_, completes: calls.append("clock"))
        heartbeat = SimpleNamespace(stop=lambda _: calls.append("heartbeat ends"))
        monkeypatch.setattr(hudi_compactor, "heartbeats", lambda _: heartbeat)
        return found

    def test_the_gate_and_the_clock_are_asked_before_the_lock_and_under_it(self, table, compactor, calls):
        compactor.run(job_of(table), lambda: calls.append("begun"), Gate(calls))
        assert calls == [
            *("compact", "begun", "before the lock", "clock"),
            *("lock", "under the lock", "clock", "held", "commit", "unlock"),
        ]

    @pytest.mark.parametrize("when", ["before_lock", "under_lock"])
    @pytest.mark.parametrize("error", [OvertakenError("ETC415", "late", frozenset()), EngineError("ETC307", "lost")])
    def test_what_it_refuses_is_not_committed(self, table, compactor, calls, when, error):
        """The heartbeat may be another's where our run was lost; it is ours where writers have overtaken it."""

        def refuse():
            raise error

        gate = Gate(calls)
        setattr(gate, when, refuse)
        with pytest.raises(type(error)):
            compactor.run(job_of(table), lambda: None, gate)
        assert "commit" not in calls
        assert ("heartbeat ends" in calls) == isinstance(error, OvertakenError)


def test_nothing_is_removed_where_a_file_of_it_lies_behind_a_link(tmp_path, table, compactor):
    """Else the plan would go, or be left behind without some of what it made."""
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"), log("f1", 5))
    table.plan(C, OURS)
    table.data(C, base("f1"))
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / ".hoodie_partition_metadata").touch()
    (outside / base("f2").name(C)).write_text("canary")
    for name in ("a", "q"):
        (table.base / name).symlink_to(outside)
    before = files(table)
    with pytest.raises(EtcError) as error:
        compactor.withdraw(job_of(table))
    assert error.value.code == "ETC442"
    assert (files(table), (outside / base("f2").name(C)).read_text()) == (before, "canary")
