from contextlib import contextmanager
from dataclasses import replace

import pytest

from etc_policy.errors import EngineError, OvertakenError, RetryableError, StalePlanError, TableError
from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.carry import carried_in
from etc_policy.plan.commit_metadata import extra_metadata
from etc_policy.plan.split import SPLIT
from etc_policy.policy.manifest import EventTime, Strategy, Writer
from etc_policy.table.history import GIT_SHA, PLAN_ID, SEEN_UNTIL, THRESHOLD
from etc_policy.table.state import LogFile, WriteInFlight
from etc_policy.table.zone_evidence import ZoneReading
from tests.fakes import MemoryCompactor, MemoryFiles, MemoryLease, MemoryTable
from tests.unit.plan.plan_cases import epoch_ms, instant, state_of
from tests.unit.plan.states import NOW, PLAN, POLICY, STATE, C, slice_of, with_instant, with_slice

TOUCHES = {"publish", "run", "commit", "withdraw", "lock"}


@pytest.fixture
def table():
    return MemoryTable(STATE)


def apply(table, plan=PLAN, **ports):
    return table.runner(**ports).apply(POLICY, plan, "plan-1", "abc123")


def finish(table, **ports):
    return table.runner(**ports).finish_pending(POLICY, "/t")


def left_pending(table):
    """A killed run of etc left its plan."""
    table.put_plan(C, PLAN.operations, extra_metadata(PLAN, "plan-0", None))


@contextmanager
def refused(kind, code, match=None):
    """An error of a kind and of a code."""
    with pytest.raises(kind, match=match) as error:
        yield error
    assert error.value.code == code


def beside(table, **changed):
    """An engine at whose work these values of the table change; a function makes one of what is there then."""

    def change():
        for name, value in changed.items():
            setattr(table, name, value(getattr(table, name)) if callable(value) else value)

    return MemoryCompactor(table, meanwhile=change)


def living(table):
    """The lease of a table on which another run shows signs of life."""
    return lambda _: MemoryLease(table, alive=True)


def same(state):
    return state


def add_to_f1(table, *log_files):
    table.state = with_slice(table.state, "f1", log_files=(*slice_of(table.state, "f1").log_files, *log_files))


def in_flight(state, groups=None):
    """The state with a writer that has begun."""
    return replace(state, writes_in_flight=(WriteInFlight(instant("11:59:00"), groups),))


def is_as_before(table):
    """Whether no plan pends, and nothing was committed."""
    return (table.state.own_pending, table.commits) == (None, {})


class UnreadAfterTheCommit(MemoryFiles):
    """The commit cannot be read, though it is there."""

    def completed_commit(self, base_path, at):
        if "commit" in self.table.calls:
            raise TableError("ETC213", "cannot read the table")
        return super().completed_commit(base_path, at)


class TestApply:
    def test_the_order_of_steps(self, table):
        outcome = apply(table)
        # Looked at before Spark starts, and under the lock before and after publishing; marked before the first beat.
        before = ["lease", "read", "lock", "read", "publish", "read", "wait", "mark"]
        after = ["run", "begun", "read", "heartbeat", "commit", "give back"]
        assert (table.calls, table.mark) == (before + after, C)
        assert (outcome.status, outcome.instant, outcome.completed) == ("compacted", C, "20260101120000000")
        assert (outcome.file_slices, outcome.log_files, outcome.bytes_written) == (1, 1, 5)
        assert outcome.threshold_ms == PLAN.threshold_ms
        assert outcome.watermark_predicted_ms == PLAN.watermark_after_ms
        assert outcome.bytes_read == PLAN.operations[0].bytes_read
        assert outcome.bytes_written_estimate == PLAN.operations[0].bytes_written_estimate

    def test_a_commit_that_cannot_be_read_is_done_all_the_same(self, table):
        """Hudi has reported success; the verification says what the table is like now."""

        said = []
        outcome = replace(table.runner(), files=UnreadAfterTheCommit(table), progress=said.append).apply(
            POLICY, PLAN, "plan-1", None
        )
        assert (outcome.status, outcome.instant, outcome.threshold_ms) == ("compacted", C, PLAN.threshold_ms)
        assert (outcome.completed, outcome.bytes_written, outcome.writes_beside) == (None, 0, ())
        assert said[-1].endswith("how much it wrote cannot be read: cannot read the table")

    def test_nothing_is_said_to_be_published_before_the_engine_is_there(self, table):
        said = []

        def no_spark():
            raise EngineError("ETC302", "PySpark is not installed")

        with pytest.raises(EngineError, match="PySpark"):
            replace(table.runner(), compactor=no_spark, progress=said.append).apply(POLICY, PLAN, "plan-1", None)
        assert said == []
        replace(table.runner(), progress=said.append).apply(POLICY, PLAN, "plan-1", None)
        assert "publishing the plan" in said[0]

    def test_exactly_the_plan_is_published_and_its_metadata_committed(self, table):
        compactor = MemoryCompactor(table)
        apply(table, compactor=compactor)
        (job,) = compactor.jobs
        assert (job.instant, job.operations, job.base_path) == (C, PLAN.operations, "/t")
        assert (job.table_version, job.metadata_partitions) == (9, ("files",))
        extra = job.extra_metadata
        assert (extra[THRESHOLD], extra[PLAN_ID]) == (str(PLAN.threshold_ms), "plan-1")
        assert (extra[SEEN_UNTIL], extra[GIT_SHA]) == (PLAN.seen.last_completed, "abc123")

    @pytest.mark.parametrize("action", ["nothing_due", "refused"])
    def test_what_is_not_to_be_done_is_not_looked_at(self, table, action):
        idle = PLAN.model_copy(update={"action": action, "instant": None, "reason": "because", "hints": ("do",)})
        outcome = apply(table, idle)
        assert table.calls == []
        assert (outcome.status, outcome.reason, outcome.hints) == (action, "because", ("do",))

    def test_a_stale_plan_touches_nothing_and_starts_no_spark(self, table):
        table.state = replace(STATE, properties_fingerprint="other")

        def no_spark():
            raise AssertionError("Spark was started")

        runner = replace(table.runner(), compactor=no_spark)
        with pytest.raises(StalePlanError, match=r"hoodie\.properties changed") as error:
            runner.apply(POLICY, PLAN, "plan-1", None)
        assert (error.value.code, error.value.exit_code) == ("ETC402", 4)
        assert table.calls == ["lease", "read", "give back"]

    @pytest.mark.parametrize("readings", [0, 1])
    def test_a_clock_that_was_set_back_since_planning_publishes_nothing(self, table, readings):
        """Looked at before Spark starts, and under the lock."""
        clocks = [NOW] * readings + [epoch_ms("11:10:00")] * 9
        runner = replace(table.runner(), clock_ms=lambda: clocks.pop(0))
        with refused(EngineError, "ETC405", "ahead of this machine's clock"):
            runner.apply(POLICY, PLAN, "plan-1", None)
        assert ("publish" in table.calls, table.plans) == (False, {})

    def test_a_zone_that_changed_since_planning_publishes_nothing(self, table):
        table.state = replace(STATE, timezone="America/Los_Angeles")
        with pytest.raises(EngineError, match="here they are read in America/Los_Angeles"):
            apply(table)
        assert table.calls == ["lease", "read", "give back"]

    @pytest.mark.parametrize(
        "zone", [ZoneReading("UTC", "contradicted", "its writers' clocks show another zone"), None]
    )
    def test_what_a_killed_run_left_is_not_finished_in_another_zone(self, table, zone):
        left_pending(table)
        clock = NOW if zone else epoch_ms("11:10:00")
        table.state = replace(table.state, zone=zone)
        with refused(EngineError, "ETC405", "cannot be compacted now"):
            replace(table.runner(), clock_ms=lambda: clock).finish_pending(POLICY, "/t")
        assert "run" not in table.calls

    def test_a_change_while_spark_starts_is_seen_under_the_lock(self, table):
        table.changes = [same, lambda s: with_instant(s, "10:05:00", "deltacommit", completed="10:10:01")]
        with pytest.raises(StalePlanError, match="completed before the plan's instant"):
            apply(table)
        assert table.calls == ["lease", "read", "lock", "read", "give back"]
        assert (table.plans, table.commits) == ({}, {})

    def test_a_change_while_publishing_withdraws_the_plan(self, table):
        def archived(state):
            return replace(state, instants=tuple(i for i in state.instants if i.requested >= C))

        table.changes = [same, same, archived]
        with pytest.raises(StalePlanError, match="archiving"):
            apply(table)
        assert table.calls == ["lease", "read", "lock", "read", "publish", "read", "withdraw", "give back"]
        assert is_as_before(table)

    def test_a_plan_that_was_applied_before_is_not_run_again(self, table):
        table.put_commit(C, "20260101113000000", extra_metadata(PLAN, "plan-1", None))
        outcome = apply(table)
        assert (outcome.status, outcome.completed) == ("already_applied", "20260101113000000")
        assert TOUCHES.isdisjoint(table.calls)

    def test_it_was_applied_before_also_when_another_cut_completed_since(self, table):
        """The instant of the last compaction is not asked: cuts may complete in another order than their instants."""
        table.put_commit(C, "20260101113000000", extra_metadata(PLAN, "plan-1", None))
        later = PLAN.model_copy(update={"instant": "20260101112005001"})
        table.put_commit(later.instant, "20260101114000000", extra_metadata(later, "plan-2", None))
        assert table.state.last_compaction.plan_id == "plan-2"
        assert apply(table).status == "already_applied"
        assert TOUCHES.isdisjoint(table.calls)

    @pytest.mark.parametrize("extra", [{}, extra_metadata(PLAN, "plan-of-another", None)])
    def test_a_compaction_of_another_at_the_same_instant_makes_it_stale(self, table, extra):
        table.put_commit(C, "20260101113000000", extra)
        with pytest.raises(StalePlanError):
            apply(table)
        assert TOUCHES.isdisjoint(table.calls)

    def test_another_etc_apply_has_the_table(self, table):
        with refused(RetryableError, "ETC403"):
            apply(table, lease=lambda _: MemoryLease(table, held=True))
        assert table.calls == []

    def test_an_expired_heartbeat_fences_the_commit_off(self, table):
        with refused(EngineError, "ETC307"):
            apply(table, lease=lambda _: MemoryLease(table, expired=True))
        assert table.calls[-6:] == ["mark", "run", "begun", "read", "heartbeat", "give back"]
        assert (table.commits, table.state.own_pending) == ({}, C)

    def test_a_plan_that_a_living_stock_writer_has_begun_is_left_to_it(self, table):
        with refused(RetryableError, "ETC404"):
            apply(table, lease=living(table))
        assert {"run", "withdraw"}.isdisjoint(table.calls)
        assert table.plans.keys() == {C}

    def test_the_start_of_spark_is_not_counted_as_work(self, table, monkeypatch):
        clock = [100.0]
        monkeypatch.setattr("etc_policy.run.runner.time.monotonic", lambda: clock[0])

        def pass_by(seconds):
            clock[0] += seconds

        engine = MemoryCompactor(table, meanwhile=lambda: pass_by(3))

        def start_spark():
            pass_by(50)
            return engine

        assert replace(table.runner(), compactor=start_spark).apply(POLICY, PLAN, "p", None).run_seconds == 3

    def test_a_commit_of_another_run_fences_ours_off(self, table):
        compactor = MemoryCompactor(table, meanwhile=lambda: table.put_commit(C, "20260101115900000", {}))
        with refused(EngineError, "ETC305"):
            apply(table, compactor=compactor)
        assert "commit" not in table.calls
        assert table.commits[C].completed == "20260101115900000"

    def test_the_outcome_tells_of_this_job_whatever_completes_right_after_it(self, table):
        class Overtaken(MemoryCompactor):
            def run(self, job, begun, gate):
                super().run(job, begun, gate)
                other = PLAN.model_copy(update={"threshold_ms": 1, "watermark_after_ms": 2})
                self.table.put_commit("20260101112005001", "20260101121000000", extra_metadata(other, "plan-2", None))

        outcome = apply(table, compactor=Overtaken(table))
        assert table.state.last_compaction.threshold_ms == 1
        assert outcome.threshold_ms == PLAN.threshold_ms
        assert (outcome.instant, outcome.completed) == (C, "20260101120000000")

    def test_success_without_a_commit_is_not_believed(self, table):
        with refused(EngineError, "ETC306"):
            apply(table, compactor=MemoryCompactor(table, loses_commit=True))

    def test_the_lease_is_given_back_when_hudi_fails(self, table):
        def fail():
            raise EngineError("ETC300", "no space left")

        with pytest.raises(EngineError, match="no space left"):
            apply(table, compactor=MemoryCompactor(table, meanwhile=fail))
        assert table.calls[-1] == "give back"


class Unworkable(MemoryCompactor):
    """Hudi cannot compact what the plan names."""

    stays = False

    def run(self, job, note_inflight, gate):
        raise EngineError("ETC326", "Hudi cannot compact `/t`", hint="mend it", cause="a column of an odd type")

    def withdraw(self, job):
        if self.stays:
            raise RetryableError("ETC422", "the lock is held")
        super().withdraw(job)


class TestUnworkable:
    def test_its_plan_is_withdrawn_by_the_same_run(self, table):
        with pytest.raises(EngineError, match="and the plan is withdrawn") as error:
            apply(table, compactor=Unworkable(table))
        assert (error.value.code, error.value.hint, error.value.exit_code) == ("ETC326", "mend it", 3)
        assert error.value.cause == "a column of an odd type"
        assert table.calls[-2:] == ["withdraw", "give back"]

    def test_nor_is_one_left_that_an_earlier_run_has_left(self, table):
        left_pending(table)
        with pytest.raises(EngineError, match="and the plan is withdrawn"):
            finish(table, compactor=Unworkable(table))
        assert "withdraw" in table.calls

    def test_where_it_cannot_be_withdrawn_that_is_said(self, table):
        compactor = Unworkable(table)
        compactor.stays = True
        with pytest.raises(EngineError, match=r"the plan is still there \(the lock is held\)") as error:
            apply(table, compactor=compactor)
        assert error.value.hint == "`etc undo` withdraws it; then mend it"

    def test_where_hudi_cannot_end_it_what_that_takes_is_said(self, table):
        class Endless(Unworkable):
            def withdraw(self, job):
                raise EngineError("ETC326", "Hudi cannot commit it", hint="drop the index")

        with pytest.raises(EngineError, match=r"the plan is still there \(Hudi cannot commit it\)") as error:
            apply(table, compactor=Endless(table))
        assert error.value.hint == "drop the index; then mend it"

    def test_a_plan_that_failed_for_want_of_something_stays_for_the_next_run(self, table):
        class Full(Unworkable):
            def run(self, job, note_inflight, gate):
                raise EngineError("ETC304", "no space left")

        with pytest.raises(EngineError, match="no space left"):
            apply(table, compactor=Full(table))
        assert "withdraw" not in table.calls


class TestAlteredSchema:
    """ALTER TABLE beside a run: Hudi would merge by the schema of before (facts: schema-of-the-cut)."""

    def test_while_it_compacts_the_plan_is_taken_back(self, table):
        with refused(OvertakenError, "ETC415", "schema was altered") as error:
            apply(table, compactor=beside(table, altered=instant("11:58:00")))
        assert (error.value.exit_code, error.value.groups, error.value.was_withdrawn) == (4, frozenset(), True)
        assert table.calls[-3:] == ["heartbeat", "withdraw", "give back"]
        assert is_as_before(table)

    def test_a_plan_that_was_left_pending_is_withdrawn(self, table):
        left_pending(table)
        table.altered = instant("11:58:00")
        assert finish(table) is None
        assert "withdraw" in table.calls
        assert is_as_before(table)


def test_what_it_compacts_is_rolled_back_meanwhile(table):
    """Hudi lets a rollback of a completed write go beside a compaction of its log files, which has read them already."""
    with refused(OvertakenError, "ETC415", "takes back the write at 20260101112000000") as error:
        apply(table, compactor=beside(table, rolled_back=instant("11:20:00")))
    assert error.value.exit_code == 4
    assert table.calls[-3:] == ["heartbeat", "withdraw", "give back"]
    assert is_as_before(table)


def test_before_version_8_the_next_run_compacts_anew_what_was_rolled_back_meanwhile():
    """The plan stays, as writers may have added to the slices that it begins; what was rolled back is left out then."""
    table = MemoryTable(replace(STATE, table_version=6))
    whole = POLICY.model_copy(update={"strategy": Strategy(granularity="file_slice")})
    plan = build_table_plan(whole, table.state, now_ms=NOW, clock_ms=NOW)
    table.put_plan(plan.instant, plan.operations, extra_metadata(plan, "plan-0", None))

    def roll_back(state):
        return with_instant(state, "12:00:10", "rollback", completed="12:00:11", touched=["f1"])

    with refused(RetryableError, "ETC405", "rollback at 20260101120010000 takes back rows"):
        finish(table, compactor=beside(table, state=roll_back))
    assert ("withdraw" in table.calls, table.commits) == (False, {})
    assert finish(table).status == "resumed"


def test_a_restore_that_begins_meanwhile_ends_the_compaction_itself(table):
    """It takes pending plans back too, and would remove the base files of one that was committed beside it."""
    with refused(RetryableError, "ETC405", "a restore at 20260101115800000 is at work"):
        apply(table, compactor=beside(table, restore=instant("11:58:00")))
    assert ("withdraw" in table.calls, table.commits) == (False, {})


def test_indexes_that_change_meanwhile_are_what_the_next_run_goes_by(table):
    """A client commits to the metadata table that was there when it was made (facts: indexes-changed-beside)."""
    with refused(RetryableError, "ETC405", "files now, and had nothing"):
        apply(table, compactor=beside(table, changed_table="its metadata table has files now, and had nothing"))
    assert ("withdraw" in table.calls, table.commits) == (False, {})
    table.changed_table = None
    assert finish(table).status == "resumed"


class TestDeletesBesideAWriter:
    """Writers add to a slice of which deletes are being compacted: the delete rule is asked again before the commit."""

    DELETING = with_slice(
        STATE, "f1", log_files=tuple(f._replace(has_deletes=True) for f in slice_of(STATE, "f1").log_files)
    )
    LATER = LogFile("L9", 1, instant("11:59:00"), instant("11:59:05"), NOW)

    @pytest.fixture
    def table(self, monkeypatch):
        monkeypatch.setattr("etc_policy.run.fence.WRITER_WAIT_SECONDS", 0.2)
        monkeypatch.setattr("etc_policy.run.fence._POLL_SECONDS", 0.01)
        return MemoryTable(self.DELETING)

    @pytest.fixture
    def plan(self):
        return build_table_plan(POLICY, self.DELETING, now_ms=NOW, clock_ms=NOW)

    def test_nothing_is_committed_and_the_plan_is_taken_back(self, table, plan):
        with refused(OvertakenError, "ETC415", "L9 was added") as error:
            apply(table, plan, compactor=MemoryCompactor(table, meanwhile=lambda: add_to_f1(table, self.LATER)))
        assert (error.value.exit_code, error.value.groups) == (4, {("p", "f1")})
        assert table.calls[-3:] == ["heartbeat", "withdraw", "give back"]
        assert is_as_before(table)

    def test_one_that_is_in_flight_when_the_plan_is_to_be_published_is_waited_for_before_it(self, table, plan):
        """Its log file makes the plan stale; without the wait a whole compaction would be thrown away."""
        table.state = in_flight(table.state)

        def end(state):
            add_to_f1(table, self.LATER)
            return replace(table.state, writes_in_flight=())

        table.changes = [same, same, end]
        with pytest.raises(StalePlanError, match="must not be separated") as error:
            apply(table, plan)
        assert not isinstance(error.value, OvertakenError)
        assert {"publish", "run"}.isdisjoint(table.calls)

    def test_and_one_that_does_not_end_costs_no_compaction(self, table, plan):
        table.state = in_flight(table.state)
        with pytest.raises(OvertakenError, match="a writer that began at 20260101115900000") as error:
            apply(table, plan)
        assert error.value.groups == {("p", "f1")}
        assert {"publish", "run"}.isdisjoint(table.calls)

    @pytest.mark.parametrize("in_the_way", ["add", "begin"])
    def test_before_version_8_a_plan_that_was_overtaken_is_finished_and_the_writer_named(self, table, plan, in_the_way):
        """It cannot be taken from under what a writer adds to the slice that it begins."""
        table.state = replace(table.state, table_version=6)
        table.put_plan(plan.instant, plan.operations, extra_metadata(plan, "plan-0", None))
        if in_the_way == "add":  # into the slice that the plan begins, whose instant the log file bears
            add_to_f1(table, self.LATER._replace(requested=plan.instant, completed=plan.instant))
            table.state = with_instant(table.state, "11:59:00", "deltacommit", completed="11:59:00")
        else:
            table.state = in_flight(table.state)
        outcome = finish(table, compactor=MemoryCompactor(table, completed=plan.instant))
        assert (outcome.status, outcome.writes_beside) == ("resumed", (instant("11:59:00"),))
        assert "withdraw" not in table.calls

    def test_a_writer_that_stays_in_the_way_is_not_waited_for_for_ever(self, table, plan):
        with pytest.raises(OvertakenError, match="a writer that began at 20260101115900000"):
            apply(table, plan, compactor=beside(table, state=in_flight))
        assert is_as_before(table)

    def test_one_that_says_that_it_writes_elsewhere_was_worth_the_wait(self, table, plan):
        elsewhere = frozenset({("p", "f2")})
        engine = beside(table, state=in_flight, changes=[same, lambda s: in_flight(s, elsewhere)])
        assert apply(table, plan, compactor=engine).status == "compacted"

    def test_one_that_comes_right_before_the_commit_is_seen_under_the_lock(self, table, plan):
        with pytest.raises(OvertakenError):
            apply(table, plan, compactor=beside(table, changes=[same, in_flight]))
        assert "commit" not in table.calls

    def test_one_that_began_beside_the_commit_is_named(self, table, plan):
        outcome = apply(table, plan, compactor=beside(table, changes=[same, same, in_flight]))
        assert (outcome.status, outcome.writes_beside) == ("compacted", (instant("11:59:00"),))

    def test_whether_one_did_is_unknown_where_the_table_cannot_be_read_after_the_commit(self, table, plan):
        def unread(_):
            raise TableError("ETC213", "cannot read the table")

        outcome = apply(table, plan, compactor=beside(table, changes=[same, same, unread]))
        assert (outcome.status, outcome.writes_beside, outcome.bytes_written) == ("compacted", None, 5)

    def test_nor_is_it_known_where_nobody_knows_when_it_completed(self, table, plan):
        runner = replace(table.runner(), files=UnreadAfterTheCommit(table))
        outcome = runner.apply(POLICY, plan, "plan-1", None)
        assert (outcome.status, outcome.completed, outcome.writes_beside) == ("compacted", None, None)

    def test_a_plan_that_a_killed_run_left_is_asked_about_too(self, table, plan):
        table.put_plan(plan.instant, plan.operations, extra_metadata(plan, "plan-0", None))
        table.state = in_flight(table.state)
        assert finish(table) is None
        assert {"run", "withdraw"} <= set(table.calls)
        assert is_as_before(table)

    def test_and_is_not_even_run_where_a_log_file_was_added(self, table, plan):
        table.put_plan(plan.instant, plan.operations, extra_metadata(plan, "plan-0", None))
        add_to_f1(table, self.LATER)
        assert finish(table) is None
        assert "run" not in table.calls
        assert is_as_before(table)


def taken_while_spark_starts(table, taken):
    """The ports of a runner whose engine takes a while to start, which others use."""
    engine, lease = MemoryCompactor(table), MemoryLease(table)

    def start():
        taken(lease)
        return engine

    return replace(table.runner(lease=lambda _: lease), compactor=start)


def begin(lease):
    lease.alive = True


def finished(table):
    """Another run commits the pending plan, as the table is read."""

    def read(_):
        table.put_commit(C, "20260101115900000", {})
        return table.state

    return read


class TestFinishPending:
    @pytest.mark.parametrize("missing", [(), ("p/L1",)])
    def test_a_stock_writer_begins_it_while_spark_starts(self, table, missing):
        """It may keep no heartbeat, so that nothing but this look keeps us from rolling it back."""
        left_pending(table)
        table.missing = missing
        with refused(RetryableError, "ETC404"):
            taken_while_spark_starts(table, begin).finish_pending(POLICY, "/t")
        assert {"mark", "run", "withdraw"}.isdisjoint(table.calls)

    def test_a_stock_writer_finishes_it_while_spark_starts(self, table):
        left_pending(table)
        extra = extra_metadata(PLAN, "plan-0", None)
        runner = taken_while_spark_starts(table, lambda _: table.put_commit(C, "20260101115900000", extra))
        outcome = runner.finish_pending(POLICY, "/t")
        assert (outcome.status, outcome.completed, outcome.run_seconds) == ("resumed", "20260101115900000", 0)
        assert {"mark", "run"}.isdisjoint(table.calls)

    def test_without_a_pending_plan_not_even_the_lease_is_taken(self, table):
        assert finish(table) is None
        assert table.calls == ["read"]

    def test_a_lock_that_a_killed_run_left_is_removed_under_the_lease_though_nothing_pends(self, table):
        table.left_lock = True
        assert finish(table) is None
        assert table.calls == ["lease", "remove the lock", "give back", "read"]
        assert finish(table) is None
        assert table.calls[4:] == ["read"]

    def test_a_run_that_was_killed_while_it_wrote_its_commit_is_finished(self, table):
        left_pending(table)
        table.cut_off = C
        outcome = finish(table)
        assert (outcome.status, outcome.instant) == ("resumed", C)
        assert table.calls[:9] == ["read", "lease", "wait", "lock", "reopen", "give back", "read", "lease", "read"]

    @pytest.mark.parametrize("ports", [{"alive": True}, {"held": True}])
    def test_a_commit_that_a_living_run_may_be_writing_is_left_alone(self, table, ports):
        left_pending(table)
        table.cut_off = C
        with pytest.raises(RetryableError):
            finish(table, lease=lambda _: MemoryLease(table, **ports))
        assert "reopen" not in table.calls

    def test_a_timeline_that_is_damaged_in_another_way_is_an_error(self, table):
        def damaged(_):
            raise TableError("ETC208", "cannot read timeline file")

        table.changes = [damaged]
        with pytest.raises(TableError, match="cannot read timeline file"):
            finish(table)
        assert table.calls == ["read", "lease", "give back"]

    def test_a_lock_of_a_living_run_is_left_alone(self, table):
        class Taken(MemoryLease):
            def __enter__(self):
                raise RetryableError("ETC403", "another `etc apply` is working")

        table.left_lock = True
        assert finish(table, lease=lambda _: Taken(table)) is None
        assert table.calls == ["read"]

    def test_a_pending_plan_of_another_is_left_alone(self, table):
        table.put_plan(C, PLAN.operations, {})
        assert finish(table) is None
        assert table.calls == ["read"]

    def test_ours_is_finished_with_the_metadata_of_its_plan_file(self, table):
        left_pending(table)
        compactor = MemoryCompactor(table)
        outcome = finish(table, compactor=compactor)
        steps = ["read", "lease", "read", "wait", "wait", "mark", "run", "begun", "read", "heartbeat", "commit"]
        assert table.calls == [*steps, "give back"]
        assert (outcome.status, outcome.instant, outcome.threshold_ms) == ("resumed", C, PLAN.threshold_ms)
        assert outcome.bytes_read == table.runner().files.bytes_read(compactor.jobs[0]) > 0
        assert compactor.jobs[0].extra_metadata[PLAN_ID] == "plan-0"
        assert table.state.own_pending is None

    def test_a_living_run_is_left_alone(self, table):
        left_pending(table)
        with refused(RetryableError, "ETC404"):
            finish(table, lease=living(table))
        assert TOUCHES.isdisjoint(table.calls)
        assert table.calls[-1] == "give back"

    def test_one_that_was_finished_while_we_waited_for_the_lease(self, table):
        left_pending(table)

        table.changes = [same, finished(table)]
        assert finish(table) is None
        assert table.calls == ["read", "lease", "read", "give back"]

    def test_a_plan_whose_files_are_gone_is_withdrawn(self, table):
        """A rollback took a log file that it names: it could never run, and would block every later plan."""
        left_pending(table)
        table.missing = ("p/L1",)
        assert finish(table) is None
        assert table.calls == ["read", "lease", "read", "wait", "wait", "withdraw", "give back"]
        assert is_as_before(table)

    @pytest.mark.parametrize(
        "changed",
        [
            {"log_files_compacted": PLAN.operations[0].log_files_compacted[:-1]},
            {"log_files_compacted": (*PLAN.operations[0].log_files_compacted, ".f1_20260101000000000.log.9_0-1-0")},
            {"base_file": None},
            {"base_instant": "20251231000000000"},
            {"partition": "q"},
        ],
    )
    def test_one_that_is_not_all_of_its_file_slices_is_withdrawn(self, table, changed):
        """Every writer of the table can change the file; to leave out a log file from before C loses its rows."""
        first, *others = PLAN.operations
        operations = (first.model_copy(update=changed), *others)
        table.put_plan(C, operations, extra_metadata(PLAN, "plan-0", None))
        assert finish(table) is None
        assert "run" not in table.calls
        assert is_as_before(table)

    @pytest.mark.parametrize("kept", [True, False])
    def test_a_plan_that_archiving_has_passed_is_withdrawn(self, table, kept):
        """Its commit would lie before the first active one, where readers take it for archived and lose rows."""
        archived_below = tuple(i for i in STATE.instants if i.requested > C or (kept and i.action == "deltacommit"))
        table.state = replace(STATE, instants=archived_below)
        left_pending(table)
        outcome = finish(table)
        if kept:
            assert outcome.status == "resumed"
        else:
            assert outcome is None
            assert table.calls == ["read", "lease", "read", "wait", "wait", "withdraw", "give back"]
            assert is_as_before(table)

    def test_a_plan_made_before_it_fits_no_more_afterwards(self, table):
        left_pending(table)
        assert finish(table).status == "resumed"
        with pytest.raises(StalePlanError):
            apply(table)


class TestFinishOthers:
    """A compaction that others have scheduled is carried out by the rules of etc's own."""

    OTHER = instant("11:30:00")
    WHOLE = tuple(one.model_copy(update={"log_files_compacted": ("L1", "L2")}) for one in PLAN.operations)
    DELETING = TestDeletesBesideAWriter.DELETING

    @pytest.fixture
    def table(self, monkeypatch):
        monkeypatch.setattr("etc_policy.run.fence.WRITER_WAIT_SECONDS", 0.0)
        return MemoryTable(STATE)

    def schedule(self, table, at=OTHER):
        table.put_plan(at, self.WHOLE, {"theirs": "1"})

    def finish(self, table, **ports):
        return list(table.runner(**ports).finish_others(POLICY, "/t"))

    def test_one_over_which_our_hudi_fails_is_left_to_who_scheduled_it(self, table):
        self.schedule(table)
        with pytest.raises(EngineError, match="Hudi cannot compact `/t`\n"):
            self.finish(table, compactor=Unworkable(table))
        assert "withdraw" not in table.calls

    def test_it_is_run_as_its_plan_says(self, table):
        self.schedule(table)
        engine = MemoryCompactor(table)
        (done,) = self.finish(table, compactor=engine)
        (job,) = engine.jobs
        assert (done.instant, done.status, done.log_files) == (self.OTHER, "resumed", 2)
        assert (job.operations, job.extra_metadata) == (self.WHOLE, {"theirs": "1"})
        steps = ["read", "lease", "read", "wait", "wait", "mark", "run", "begun", "read", "heartbeat", "commit", "read"]
        assert table.calls == [*steps, "give back"]

    def test_each_that_is_pending_the_oldest_first(self, table):
        for clock in ("11:31:00", "11:30:00"):
            self.schedule(table, instant(clock))
        assert [one.instant for one in self.finish(table)] == [instant("11:30:00"), instant("11:31:00")]

    def test_a_plan_of_etc_is_left_to_apply(self, table):
        left_pending(table)
        assert self.finish(table) == []
        assert table.calls == ["read"]

    @pytest.mark.parametrize("beside", [True, False])
    @pytest.mark.parametrize(
        ("action", "call"),
        [
            (
                "clustering",
                "`CALL run_clustering(path => '/t', op => 'execute', instants => '20260101113500000', options => '",
            ),
            ("logcompaction", "`hoodie.log.compaction.inline=true`"),
        ],
    )
    def test_what_goes_by_choices_of_its_writers_is_left_to_them(self, table, action, call, beside):
        if beside:
            self.schedule(table)
        table.state = with_instant(table.state, "11:35:00", action, pending="requested")
        with pytest.raises(EngineError, match=r"cannot be compacted now \(pending_service\)") as error:
            self.finish(table)
        assert (error.value.code, error.value.exit_code, table.calls) == ("ETC405", 3, ["read"])
        assert call in error.value.hint

    def test_a_lock_that_a_dead_run_left_is_removed_first(self, table):
        table.left_lock = True
        assert self.finish(table) == []
        assert table.calls == ["lease", "remove the lock", "give back", "read"]

    def test_one_that_a_living_job_runs_is_left_to_it(self, table):
        self.schedule(table)
        with refused(RetryableError, "ETC404"):
            self.finish(table, lease=living(table))
        assert ("run" in table.calls, table.calls[-1]) == (False, "give back")

    def overtaken(self, table, match, **ports):
        """It is withdrawn, and the next plan compacts what is due."""
        with refused(OvertakenError, "ETC415", match) as error:
            self.finish(table, **ports)
        assert error.value.exit_code == 4
        assert error.value.hint == "nothing was committed: `etc apply --select orders_ro` compacts what is due"
        assert table.calls[-2:] == ["withdraw", "give back"]
        assert (table.commits, [one for one in table.state.pending if one.action == "compaction"]) == ({}, [])

    def test_a_write_that_came_after_it_was_scheduled_beside_deletes(self, table):
        table.state = self.DELETING
        self.schedule(table)
        add_to_f1(table, TestDeletesBesideAWriter.LATER)
        self.overtaken(table, "L9 was added to file group f1")
        assert "run" not in table.calls

    def test_a_writer_that_may_add_to_what_it_compacts_beside_deletes(self, table):
        table.state = in_flight(self.DELETING)
        self.schedule(table)
        self.overtaken(table, "a writer that began at 20260101115900000")

    def test_one_that_came_right_after_the_last_look_is_named(self, table):
        table.state = self.DELETING
        self.schedule(table)
        (done,) = self.finish(table, compactor=beside(table, changes=[same, same, in_flight]))
        assert done.writes_beside == (instant("11:59:00"),)

    def test_a_write_that_its_planner_has_not_seen(self, table):
        """It completed before the compaction's instant: its rows would be of a slice that nobody reads."""
        self.schedule(table)
        add_to_f1(table, LogFile("L9", 1, instant("11:29:00"), instant("11:29:05"), NOW))
        self.overtaken(table, "the log files of file group f1 in `p` changed")

    @pytest.mark.parametrize("came", ["before", "meanwhile"])
    def test_before_version_8_one_that_came_into_the_old_slice(self, table, came):
        table.state = replace(table.state, table_version=6)
        self.schedule(table)
        into_the_old = LogFile("L9", 1, instant("08:00:00"), instant("08:00:00"), NOW)
        if came == "before":
            add_to_f1(table, into_the_old)
        late = [into_the_old] * (came == "meanwhile")
        engine = MemoryCompactor(table, meanwhile=lambda: add_to_f1(table, *late))
        self.overtaken(table, "the log files of file group f1 in `p` changed", compactor=engine)

    def test_before_version_8_writers_that_add_to_its_own_slice_are_named(self, table):
        """It cannot be taken from under what they added."""
        table.state = replace(self.DELETING, table_version=6)
        self.schedule(table)
        add_to_f1(table, LogFile("L9", 1, self.OTHER, self.OTHER, NOW))
        table.state = with_instant(table.state, "11:59:00", "deltacommit", completed="11:59:00")
        (done,) = self.finish(table, compactor=MemoryCompactor(table, completed=self.OTHER))
        assert (done.writes_beside, "withdraw" in table.calls) == ((instant("11:59:00"),), False)

    def test_what_it_names_is_gone(self, table):
        self.schedule(table)
        table.missing = ("p/L1",)
        self.overtaken(table, "its file p/L1 is gone or was altered")

    def test_a_write_of_it_was_rolled_back(self, table):
        self.schedule(table)
        table.rolled_back = instant("10:10:00")
        self.overtaken(table, "takes back the write at 20260101101000000")

    def test_the_schema_was_altered_since(self, table):
        self.schedule(table)
        table.altered = instant("11:40:00")
        self.overtaken(table, "schema was altered")

    def test_what_was_done_before_the_overtaken_one_is_reported(self, table):
        self.schedule(table)
        results = table.runner().finish_others(POLICY, "/t")
        assert next(results).instant == self.OTHER
        self.schedule(table, instant("11:40:00"))
        table.missing = ("p/L1",)
        with pytest.raises(OvertakenError):
            next(results)


class TestUndo:
    def undo(self, table, **ports):
        return table.runner(**ports).undo(POLICY, "/t")

    def test_nothing_pends(self, table):
        assert self.undo(table) is None
        assert table.calls == ["read"]

    def test_a_pending_plan_of_another_is_left_alone(self, table):
        table.put_plan(C, PLAN.operations, {})
        assert self.undo(table) is None
        assert (table.calls, list(table.plans)) == (["read"], [C])

    def test_ours_is_withdrawn(self, table):
        left_pending(table)
        withdrawn = self.undo(table)
        assert table.calls == ["read", "lease", "read", "wait", "wait", "withdraw", "give back"]
        assert (withdrawn, table.state.own_pending) == (C, None)

    def test_a_stock_writer_begins_it_while_spark_starts(self, table):
        left_pending(table)
        with pytest.raises(RetryableError):
            taken_while_spark_starts(table, begin).undo(POLICY, "/t")
        assert "withdraw" not in table.calls

    def test_not_under_a_living_run(self, table):
        left_pending(table)
        with pytest.raises(RetryableError):
            self.undo(table, lease=living(table))
        assert "withdraw" not in table.calls
        assert table.state.own_pending == C

    def test_one_that_was_finished_while_we_waited_for_the_lease(self, table):
        left_pending(table)

        table.changes = [same, finished(table)]
        assert self.undo(table) is None
        assert "withdraw" not in table.calls


class TestCarried:
    """Table version 6, where log files that stay are carried into the slice that the plan begins."""

    FIRST, SECOND = (f".f1_{instant('08:00:00')}.log.{version}_0-1-0" for version in (1, 2))

    @pytest.fixture
    def carried(self):
        events = {self.FIRST: "10:00:00", self.SECOND: "11:30:00"}
        logs = {name: f"08:00:00 > 08:00:00, event {event}" for name, event in events.items()}
        return MemoryTable(state_of("/t", {"version": 6, "slices": {"p/f1": {"base": "08:00:00", "logs": logs}}}))

    POLICY = POLICY.model_copy(update={"strategy": Strategy(granularity="log_file", carry="auto")})

    def plan(self, table):
        return build_table_plan(self.POLICY, table.state, now_ms=NOW, clock_ms=NOW)

    def pending(self, table):
        plan = self.plan(table)
        table.put_plan(plan.instant, plan.operations, extra_metadata(plan, "plan-0", None))
        return plan

    def finish(self, table, **ports):
        return table.runner(**ports).finish_pending(self.POLICY, "/t")

    def add(self, table, requested):
        """A writer's log file in the slice of an instant."""
        (one,) = table.state.slices
        log_file = LogFile(f".f1_{requested}.log.3_0-1-0", 1, requested, requested, None)
        changed = replace(one, log_files=(*one.log_files, log_file))
        table.state = replace(table.state, slices=(changed,))

    def test_what_stays_is_recorded_with_the_plan_and_its_commit(self, carried):
        compactor = MemoryCompactor(carried)
        plan = self.plan(carried)
        runner = carried.runner(compactor=compactor)
        assert runner.apply(self.POLICY, plan, "plan-1", None).status == "compacted"
        (job,) = compactor.jobs
        assert carried_in(job.extra_metadata) == {("p", "f1"): plan.operations[0].carried}
        assert [one.target for one in plan.operations[0].carried] == [self.SECOND]

    def test_a_pending_plan_is_finished_though_writers_added_to_the_slice_that_it_begins(self, carried):
        plan = self.pending(carried)
        self.add(carried, plan.instant)
        assert self.finish(carried).status == "resumed"

    def test_one_beside_which_the_old_slice_changed_is_withdrawn(self, carried):
        self.pending(carried)
        self.add(carried, instant("08:00:00"))
        assert self.finish(carried) is None
        assert (carried.plans.keys() > set(), carried.commits, "withdraw" in carried.calls) == (True, {}, True)

    @pytest.mark.parametrize("into_the_old", [True, False])
    def test_what_came_into_the_old_slice_while_it_ran_is_not_lost(self, carried, into_the_old):
        plan = self.pending(carried)
        compactor = MemoryCompactor(carried)
        compactor.meanwhile = lambda: self.add(carried, instant("08:00:00") if into_the_old else plan.instant)
        if into_the_old:
            assert self.finish(carried, compactor=compactor) is None
            assert (carried.commits, carried.calls[-2:]) == ({}, ["withdraw", "give back"])
        else:
            assert self.finish(carried, compactor=compactor).status == "resumed"

    def test_a_stock_run_that_completed_the_plan_is_an_error_that_names_the_danger(self, carried):
        plan = self.pending(carried)
        done = lambda: carried.put_commit(plan.instant, plan.instant, {})  # noqa: E731
        compactor = MemoryCompactor(carried)
        runner = replace(carried.runner(), compactor=lambda: (done(), compactor)[1])
        with refused(EngineError, "ETC320", "without its carried log files"):
            runner.finish_pending(self.POLICY, "/t")

    def test_a_commit_that_java_ended_after_a_killed_run_is_that_runs(self, carried):
        """It has all that the plan carries: nothing is to be stopped."""
        plan = self.pending(carried)
        extra = carried.plans[plan.instant][1]
        done = lambda: carried.put_commit(plan.instant, plan.instant, extra)  # noqa: E731
        compactor = MemoryCompactor(carried)
        runner = replace(carried.runner(), compactor=lambda: (done(), compactor)[1])
        result = runner.finish_pending(self.POLICY, "/t")
        assert (result.status, result.instant, "run" in carried.calls) == ("resumed", plan.instant, False)

    @pytest.mark.parametrize("step", ["undo", "finish_pending"])
    def test_orphans_are_removed(self, carried, step):
        carried.state = replace(carried.state, orphans=("p/x",))
        assert getattr(carried.runner(), step)(self.POLICY, "/t") is None
        assert carried.state.orphans == ()
        assert carried.calls == ["read", "lease", "read", "remove orphans", "give back"]


class TestSplit:
    """`granularity: record`: what is compacted is split before its plan is published."""

    POLICY = POLICY.model_copy(
        update={
            "strategy": Strategy(granularity="record"),
            "writer": Writer(compaction="none"),
            "event_time": EventTime(column="ts", unit="ms"),
        }
    )

    @pytest.fixture
    def table(self):
        slices = {"p/f1": {"base": "08:00:00", "logs": {"L1": "10:10:00 > 10:10:05, event 10:05:00"}}}
        kind = {"merge_mode": "EVENT_TIME_ORDERING", "ordering": ["ts"], "slices": slices}
        return MemoryTable(state_of("/t", kind))

    def apply(self, table, **ports):
        plan = build_table_plan(self.POLICY, table.state, now_ms=NOW, clock_ms=NOW)
        return table.runner(**ports).apply(self.POLICY, plan, "plan-1", None)

    def test_it_is_split_published_and_committed_with_what_was_split(self, table):
        compactor = MemoryCompactor(table)
        assert self.apply(table, compactor=compactor).status == "compacted"
        (job,) = compactor.jobs
        assert SPLIT in job.extra_metadata
        assert job.operations[0].added_log_files == ((job.operations[0].remainder, 7),)
        split, published = (table.calls.index(one) for one in ("split", "lock"))
        assert split < published < table.calls.index("discard")

    def test_what_cannot_be_split_publishes_nothing(self, table):
        table.unsplittable = "it holds a delete block"
        with pytest.raises(EngineError, match="delete block"):
            self.apply(table)
        assert (table.plans, table.commits, "lock" in table.calls) == ({}, {}, False)

    def test_what_was_split_for_a_plan_that_does_not_fit_any_more_is_removed(self, table):
        table.changes = [same, lambda s: replace(s, properties_fingerprint="other")]
        with pytest.raises(StalePlanError):
            self.apply(table)
        assert table.plans == {}
        assert table.calls.index("split") < table.calls.index("discard")

    def test_what_a_run_has_left_that_was_killed_after_its_commit_is_removed(self, table):
        table.left_split = True
        assert table.runner().finish_pending(self.POLICY, "/t") is None
        assert not table.left_split

    def test_what_a_living_run_needs_stays(self, table):
        table.left_split = True
        table.changes = [same, lambda s: replace(s, own_pending=C)]
        assert table.runner().finish_pending(self.POLICY, "/t") is None
        assert table.left_split
