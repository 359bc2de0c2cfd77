import json
import os
import stat
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC
from pathlib import Path

import pytest

from etc_policy.api import loading
from etc_policy.api.each_table import raise_all
from etc_policy.api.planning import plan_tables, refusal_errors
from etc_policy.api.saved_plans import load_plan, match_policies, require_made_before_now, require_same_table
from etc_policy.errors import (
    EngineError,
    EtcError,
    ExitCode,
    RetryableError,
    SeveralErrors,
    StalePlanError,
    TableError,
    UsageError,
    Where,
    worst,
)
from etc_policy.plan.clock import MAX_CLOCK_SKEW_MS
from etc_policy.plan.model import make_plan
from etc_policy.policy.manifest import EventTime, Policy, Strategy, digest
from etc_policy.table.instants import instant_from_ms
from etc_policy.wiring import clock_ms
from tests.unit.plan.plan_cases import state_at
from tests.unit.plan.states import NOW, PLAN, POLICY, STATE

SKEW = "hoodie.time.generator.max_expected_clock_skew_ms"
SAVED = make_plan("2026-01-01T12:00:00Z", (PLAN,))


def refused(code, reason="why", hints=()):
    changes = {"action": "refused", "reason_code": code, "reason": reason, "hints": hints}
    return make_plan("2026-01-01T12:00:00Z", (PLAN.model_copy(update=changes),))


class Tables:
    """An Environment of tables that are there, or fail."""

    jobs = 2

    def progress(self, step):
        pass

    def __init__(self, **states):
        self.states = states

    def read_state(self, policy, *, read_stats=False, read_logs=True):
        found = self.states[policy.name]
        if isinstance(found, Exception):
            raise found
        return found

    def git_sha(self):
        return None


def policy(name):
    return Policy(name=name, table=f"/{name}", event_time=EventTime(column="ts"), data_latency_ms=3_600_000)


class TestPlanTables:
    def test_a_table_that_cannot_be_read_does_not_hide_the_others(self):
        gone = TableError("ETC201", "there is no table", hint="check `table`")
        plan = plan_tables(Tables(a=gone, b=STATE), [policy("a"), policy("b")], NOW, read_stats=False)
        first, second = plan.tables
        assert (first.action, first.reason_code, first.reason) == ("refused", "ETC201", "there is no table")
        assert (first.hints, first.base_path, first.threshold_ms) == (("check `table`",), "/a", NOW - 3_600_000)
        assert (second.policy, second.action) == ("b", "compact")
        assert plan.checksum == plan.computed_checksum

    def test_the_id_of_a_plan_changes_with_what_it_does_and_not_with_the_time(self):
        def plan_id(now_ms=NOW, state=STATE, **changed):
            wanted = policy("a").model_copy(update=changed)
            return plan_tables(Tables(a=state), [wanted], now_ms, read_stats=False).plan_id

        file_slice = STATE.slices[0]
        fewer = replace(STATE, slices=(replace(file_slice, file_id="other"),))
        assert plan_id() == plan_id(NOW + 1)
        assert len({plan_id(), plan_id(state=fewer), plan_id(data_latency_ms=3_600_001)}) == 3

    @pytest.mark.parametrize("error", [ZeroDivisionError("by nought"), RecursionError("deep"), MemoryError()])
    def test_an_error_that_nobody_expected_is_the_error_of_its_table(self, error):
        plan = plan_tables(Tables(a=error, b=STATE), [policy("a"), policy("b")], NOW, read_stats=False)
        first, second = plan.tables
        assert (first.action, first.reason_code) == ("refused", "ETC236")
        assert f"`a` cannot be worked on: {type(error).__name__}" in first.reason
        assert second.action == "compact"


class Released(Tables):
    """Tables of several releases of Hudi; `read_by` says with which one the statistics of each were read."""

    may_choose_release = True

    def __init__(self, **releases):
        super().__init__(**dict.fromkeys(releases, STATE))
        self.releases, self.release, self.read_by = releases, None, []

    def release_of(self, policy):
        return self.releases[policy.name]

    @contextmanager
    def with_release(self, release):
        self.release = release
        yield
        self.release = None

    def with_statistics(self, policy, state):
        self.read_by.append((policy.name, self.release))
        return state


def test_statistics_are_read_with_the_release_that_takes_the_table():
    """All tables of one release before those of the next, and in the plan as they were asked for."""
    tables = Released(a="1.2.0", b="0.15.0", c="1.2.0")
    plan = plan_tables(tables, map(policy, "abc"), NOW, read_stats=True)
    assert tables.read_by == [("a", "1.2.0"), ("c", "1.2.0"), ("b", "0.15.0")]
    assert [table.policy for table in plan.tables] == ["a", "b", "c"]


class WrittenJustNow(Tables):
    """A table to which a writer has added an old row right before each reading; `read` counts them."""

    read = 0

    def __init__(self, version, ahead_ms=0):
        self.version, self.ahead_ms = version, ahead_ms
        self.written_ms = clock_ms() + ahead_ms

    def read_state(self, policy, *, read_stats=False, read_logs=True):
        self.read += 1
        first, last = (instant_from_ms(at, UTC) for at in (self.written_ms - 1_000, self.written_ms))
        return replace(state_at([first, last], "UTC"), table_version=self.version)


class TestRightAfterAWrite:
    """C has to be just after the write, and at least the bound on clock skew before now."""

    @pytest.mark.parametrize("version", [6, 9])
    def test_a_table_is_planned_once_the_bound_is_past(self, version):
        own = policy("a").model_copy(
            update={"strategy": Strategy(granularity="log_file" if version == 9 else "file_slice")}
        )
        tables = WrittenJustNow(version, ahead_ms=0 if version == 9 else 50)
        plan = plan_tables(tables, [own], clock_ms(), read_stats=False)
        assert (plan.tables[0].action, tables.read) == ("compact", 2), plan.tables[0].reason
        if version == 9:
            assert plan.tables[0].instant <= instant_from_ms(clock_ms() - MAX_CLOCK_SKEW_MS, UTC)

    def test_an_older_write_is_not_waited_for(self):
        tables = WrittenJustNow(9, ahead_ms=-1_000)
        assert plan_tables(tables, [policy("a")], clock_ms(), read_stats=False).tables[0].action == "compact"
        assert tables.read == 1

    def test_a_writer_whose_clock_is_further_ahead_refuses_the_table(self):
        tables = WrittenJustNow(9, ahead_ms=900)
        table = plan_tables(tables, [policy("a")], clock_ms(), read_stats=False).tables[0]
        assert (table.action, table.reason_code, tables.read) == ("refused", "too_young", 2)

    def test_a_long_bound_is_not_waited_for(self):
        own = policy("a").model_copy(update={"hudi_options": {SKEW: "60000"}})
        tables, began = WrittenJustNow(9), time.monotonic()
        assert plan_tables(tables, [own], clock_ms(), read_stats=False).tables[0].reason_code == "too_young"
        assert (tables.read, time.monotonic() - began < 5) == (1, True)


class TestRefusals:
    """Those of rules have their cases, with their exit codes, in `tests/golden/refusals`."""

    ROWS = (
        ("ETC401", "ETC401", ExitCode.RETRY),
        ("ETC450", "ETC450", ExitCode.RETRY),
        ("ETC456", "ETC456", ExitCode.RETRY),
        ("ETC460", "ETC460", ExitCode.RETRY),
        ("ETC201", "ETC201", ExitCode.FAILED),
        ("too_young", "ETC405", ExitCode.RETRY),
        ("not_a_day", "ETC405", ExitCode.ENGINE),
    )

    @pytest.mark.parametrize(("code", "shown", "exit_code"), ROWS)
    def test_what_another_run_may_not_meet_is_for_a_retry(self, code, shown, exit_code):
        (error,) = refusal_errors(refused(code, hints=("do", "or")), [POLICY])
        assert (error.code, error.exit_code, error.hint) == (shown, exit_code, "do")
        word = f" ({code})" if shown == "ETC405" else ""
        assert error.message == f"`orders_ro` cannot be compacted now{word}: why"

    def test_the_place_is_the_policys(self):
        known = POLICY.model_copy(update={"source": "policies/a.yml:3:5"})
        (error,) = refusal_errors(refused("too_young"), [known])
        assert str(error.where) == "policies/a.yml:3:5 (policy `orders_ro`)"
        (error,) = refusal_errors(refused("too_young"), [known.model_copy(update={"source": None})])
        assert error.where is None
        assert refusal_errors(refused("too_young"), []) == []

    def test_nothing_refused(self):
        assert refusal_errors(SAVED, [POLICY]) == []


def test_a_place_on_a_path_with_colons():
    there = POLICY.model_copy(update={"source": "C:/a:b.yml:3:5"})
    assert there.place == Where("C:/a:b.yml", 3, 5, POLICY.name)
    assert POLICY.model_copy(update={"source": None}).place is None


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        ([], ExitCode.DONE),
        ([ExitCode.DONE], ExitCode.DONE),
        ([ExitCode.RETRY, ExitCode.DONE], ExitCode.RETRY),
        ([ExitCode.RETRY, ExitCode.FAILED], ExitCode.FAILED),
        ([ExitCode.FAILED, ExitCode.ENGINE, ExitCode.RETRY], ExitCode.ENGINE),
    ],
)
def test_the_code_that_says_most(codes, code):
    assert worst(codes) == code


def test_gathered_errors_are_raised_as_one():
    raise_all([], [], None)
    errors = [RetryableError("ETC401", "one", cause="c"), EngineError("ETC300", "two")]
    with pytest.raises(SeveralErrors, match="ETC401: one; ETC300: two") as error:
        raise_all(errors[:1], errors[1:], SAVED)
    assert (error.value.code, error.value.exit_code, error.value.cause) == ("ETC355", ExitCode.ENGINE, "c")
    assert [issue.message for issue in error.value.issues] == ["one", "two"]
    assert error.value.report is SAVED


class TestLoadPlan:
    @pytest.fixture
    def path(self, tmp_path):
        path = tmp_path / "plan.json"
        path.write_text(SAVED.model_dump_json(indent=2))
        return path

    def test_there_and_back(self, path):
        assert load_plan(path) == SAVED

    def test_no_such_file(self, tmp_path):
        with pytest.raises(UsageError, match="No such file") as error:
            load_plan(tmp_path / "none.json")
        assert (error.value.code, error.value.exit_code) == ("ETC601", 64)

    def test_what_has_no_end_is_not_read(self, tmp_path, monkeypatch):
        monkeypatch.setattr(loading, "MAX_BYTES", 1_000)
        with (tmp_path / "plan.json").open("wb") as file:
            file.truncate(1_001)
        with pytest.raises(UsageError, match="File too large") as error:
            load_plan(tmp_path / "plan.json")
        assert error.value.code == "ETC601"

    def test_a_device_is_not_read(self, tmp_path):
        """Made here, with the numbers of the one that gives zeros for ever."""
        device = tmp_path / "plan.json"
        try:
            os.mknod(device, stat.S_IFCHR | 0o600, os.makedev(1, 5))
        except PermissionError:
            pytest.skip("only root makes devices")
        with pytest.raises(UsageError, match="this is a device"):
            load_plan(device)

    def test_a_pipe_is(self, tmp_path):
        os.mkfifo(tmp_path / "plan.json")
        writer = threading.Thread(target=lambda: (tmp_path / "plan.json").write_text(SAVED.model_dump_json()))
        writer.start()
        assert load_plan(tmp_path / "plan.json") == SAVED
        writer.join()

    def test_a_pipe_that_nobody_writes_to_is_not_waited_for_for_ever(self, tmp_path, monkeypatch):
        monkeypatch.setattr(loading, "PIPE_WAIT_SECONDS", 0.1)
        os.mkfifo(tmp_path / "plan.json")
        with pytest.raises(UsageError, match="nobody has written to this pipe") as error:
            load_plan(tmp_path / "plan.json")
        assert error.value.code == "ETC601"

    @pytest.mark.parametrize(
        ("path", "is_own"),
        [
            *((f"{folder}/fd/7", True) for folder in ("/dev", "/proc/self", "/proc/thread-self", "/proc/PID")),
            ("/dev/stdin", True),
            *((path, False) for path in ("/dev/shm/fd/7", "/dev/stdin/x", "/proc/1/fd/7", "/proc/self/cwd/7", "plan")),
        ],
    )
    def test_only_what_the_process_has_open_is_its_own(self, path, is_own):
        """A project in `/dev/shm` lies in a folder like any other."""
        assert loading._is_own(Path(path.replace("PID", str(os.getpid())))) is is_own

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"{",
            b"[" * 100_000,
            b"[]",
            b"{}",
            b"\xff\xfe\x00",
            b"null",
            b'{"schema_version": 99, "plan_id": "", "tables": []}',
        ],
    )
    def test_what_is_no_plan(self, path, content):
        path.write_bytes(content)
        with pytest.raises(UsageError) as error:
            load_plan(path)
        assert (error.value.code, error.value.where) == ("ETC602", Where(str(path)))

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("instant", "20260101111111111"),
            ("threshold_ms", 1),
            ("base_path", "/other"),
            ("policy", "other"),
            ("now_ms", 1),
            ("warnings", ["x"]),
        ],
    )
    def test_an_edit_anywhere_is_noticed(self, path, key, value):
        content = json.loads(path.read_text())
        content["tables"][0][key] = value
        path.write_text(json.dumps(content))
        with pytest.raises(UsageError, match="edited") as error:
            load_plan(path)
        assert error.value.code == "ETC603"

    def test_form_does_not_count(self, path):
        path.write_text(json.dumps(json.loads(path.read_text()), sort_keys=True))
        assert load_plan(path) == SAVED

    @pytest.mark.parametrize("content", ["", "\n \n"])
    def test_an_empty_file_is_called_empty(self, path, content):
        path.write_text(content)
        with pytest.raises(UsageError, match="the plan file is empty") as error:
            load_plan(path)
        assert (error.value.code, error.value.hint) == ("ETC602", "save a new one with `etc plan --out FILE`")

    def test_a_plan_of_an_earlier_etc_was_not_edited(self, path):
        content = json.loads(path.read_text())
        del content["tables"][0]["moves"], content["checksum"]
        path.write_text(json.dumps({**content, "checksum": digest(content)}))
        with pytest.raises(UsageError, match="not a plan file of this version") as error:
            load_plan(path)
        assert error.value.code == "ETC602"

    def test_a_plan_of_a_later_version_is_not_understood(self, path):
        later = SAVED.model_copy(update={"schema_version": 2})
        path.write_text(later.model_copy(update={"checksum": later.computed_checksum}).model_dump_json())
        with pytest.raises(UsageError) as error:
            load_plan(path)
        assert error.value.code == "ETC602"


class TestMatchPolicies:
    def test_the_policies_of_a_plan(self, tmp_path):
        assert match_policies(SAVED, [policy("b"), POLICY], tmp_path) == {"orders_ro": POLICY}

    def test_one_that_is_gone(self, tmp_path):
        with pytest.raises(StalePlanError, match="does not have") as error:
            match_policies(SAVED, [policy("b")], tmp_path)
        assert (error.value.code, error.value.exit_code) == ("ETC406", 4)

    @pytest.mark.parametrize(
        ("change", "told"),
        [
            ({"data_latency_ms": 1}, "data_latency: 1h -> 1ms"),
            ({"table": "/other"}, "table: /t -> /other"),
            ({"strategy": Strategy(granularity="file_slice")}, "strategy.granularity: log_file -> file_slice"),
        ],
    )
    def test_one_that_was_changed(self, tmp_path, change, told):
        with pytest.raises(StalePlanError, match="was changed") as error:
            match_policies(SAVED, [POLICY.model_copy(update=change)], tmp_path)
        assert error.value.code == "ETC407"
        assert told in error.value.message

    @pytest.mark.parametrize("change", [{"description": "x"}, {"tags": ("a",)}, {"source": "b.yml:1:1"}])
    def test_texts_are_no_change(self, tmp_path, change):
        changed = POLICY.model_copy(update=change)
        assert match_policies(SAVED, [changed], tmp_path) == {"orders_ro": changed}


class TestSameTable:
    @pytest.mark.parametrize("table", ["/t", "file:///t", "file:/t", "/t/", "//t"])
    def test_the_same(self, table):
        require_same_table(PLAN, POLICY.model_copy(update={"table": table}))

    def test_another(self):
        with pytest.raises(StalePlanError, match="which is now at `/other`"):
            require_same_table(PLAN, POLICY.model_copy(update={"table": "/other"}))

    def test_a_plan_that_changes_nothing_is_for_any(self):
        idle = PLAN.model_copy(update={"action": "nothing_due"})
        require_same_table(idle, POLICY.model_copy(update={"table": "/other"}))


class TestAPlanFromTheFuture:
    @pytest.mark.parametrize("ahead_ms", [-(10**10), 0, 60_000])
    def test_it_is_not(self, monkeypatch, ahead_ms):
        monkeypatch.setattr("etc_policy.api.saved_plans.clock_ms", lambda: NOW - ahead_ms)
        require_made_before_now(SAVED)

    def test_it_is(self, monkeypatch):
        monkeypatch.setattr("etc_policy.api.saved_plans.clock_ms", lambda: NOW - 600_000)
        with pytest.raises(EtcError, match="10m ahead of this machine's clock") as error:
            require_made_before_now(SAVED)
        assert (error.value.code, error.value.exit_code) == ("ETC418", ExitCode.ENGINE)
