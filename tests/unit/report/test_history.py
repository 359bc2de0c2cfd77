"""One record per run, joined from the table's commits and from run files."""

import json
from dataclasses import replace

import pytest

from etc_policy.plan.carry import CARRIED, carried_text
from etc_policy.plan.commit_metadata import compaction_record
from etc_policy.plan.model import CarriedFile
from etc_policy.policy.manifest import EventTime, Policy
from etc_policy.report.history import RecordedCheck, latest_verdict, policy_history
from etc_policy.report.history_text import render_history
from etc_policy.report.results import RunResults, TableVerification, VerificationReport
from etc_policy.report.run_files import RunFile, read_run_files, run_file_name
from etc_policy.run.results import TableResult
from etc_policy.table.history import Commit, GroupWrite, TableHistory
from etc_policy.verify.metadata_checks import KNOWN
from etc_policy.verify.ports import ExpectationResult, Verification
from tests.unit.hudi.table_folder import operation

POLICY = Policy(name="orders_ro", table="lake/orders", event_time=EventTime(column="ts"), data_latency_ms=1)
OPERATION = operation("f1", None)
CARRIED_FILE = CarriedFile(
    name=".f1_20260101100000001.log.0_100000-0-0", target=".f1_20260101090000001.log.1_0-1-0", size_bytes=450
)
FIRST, SECOND, FOREIGN = "20260101100000001", "20260101110000001", "20260101120000001"


def compaction(instant, hour, threshold=None, fingerprint="f1"):
    extra = {
        "etc.event_time.threshold": str(threshold),
        "etc.policy": "orders_ro",
        "etc.policy_fingerprint": fingerprint,
        "etc.plan_id": f"plan{hour}",
        "etc.git_sha": "0123456789abcdef",
        "etc.cause": "schedule",
    }
    completed, extra = f"20260101{hour}0500000", extra if threshold is not None else {}
    written = {"log_files": 0, "bytes_written": 1_000, "merged_log_files": 3, "merged_log_bytes": 300}
    group = GroupWrite(instant, completed, "p", "f1", None, False, 1, **written)
    record = compaction_record(instant, completed, extra)
    return Commit(instant, completed, "commit", "COMPACT", (group,), extra=extra, record=record)


HISTORY = TableHistory(
    base_path="lake/orders",
    table_version=9,
    timezone="UTC",
    commits=(
        compaction(FIRST, "10", threshold=1_000),
        Commit("20260101103000000", "20260101103001000", "deltacommit", "UPSERT", ()),
        compaction(SECOND, "11", threshold=2_000, fingerprint="f2"),
        compaction(FOREIGN, "12"),
    ),
    complete=True,
)


def verdict(status="pass", threshold=1_000, **rest):
    checks = (ExpectationResult(expectation="expect_no_key_twice", status=status),)
    return Verification(level="data", status=status, threshold_ms=threshold, expectations=checks, **rest)


def result(status, instant=None, **rest):
    return TableResult(
        policy=rest.pop("policy", "orders_ro"),
        base_path=rest.pop("base_path", HISTORY.base_path),
        status=status,
        instant=instant,
        started_at="2026-01-01T12:00:00Z",
        completed_at="2026-01-01T12:00:09Z",
        seconds=1.0,
        **rest,
    )


def applied(recorded_at, *results):
    return RunFile(
        kind="apply", recorded_at=recorded_at, git_sha="abc", results=RunResults(plan_id="p", tables=results)
    )


def verified(recorded_at, verification, policy="orders_ro"):
    tables = (TableVerification(policy=policy, base_path=HISTORY.base_path, verification=verification),)
    report = VerificationReport(observed_at=recorded_at, tables=tables)
    return RunFile(kind="verify", recorded_at=recorded_at, verifications=report)


def test_the_table_alone_tells_commit_policy_plan_and_instant():
    found = policy_history(POLICY, HISTORY, ()).compactions
    assert [(c.instant, c.ours, c.git_sha, c.policy_fingerprint, c.plan_id, c.threshold_ms) for c in found] == [
        (FIRST, True, "0123456789abcdef", "f1", "plan10", 1_000),
        (SECOND, True, "0123456789abcdef", "f2", "plan11", 2_000),
        (FOREIGN, False, None, None, None, None),
    ]
    assert [c.policy_changed for c in found] == [False, True, False]
    assert (found[0].completed_at, found[0].log_files, found[0].bytes_written) == ("2026-01-01T10:05:00.000Z", 3, 1_000)
    assert found[0].extra == {"etc.cause": "schedule"}


def test_what_changed_in_the_policy_is_told_key_by_key():
    first, second = (
        replace(c, record=replace(c.record, policy_values=v))
        for c, v in zip(
            (HISTORY.commits[0], HISTORY.commits[2]), ({"data_latency": "1h"}, {"data_latency": "2h"}), strict=True
        )
    )
    second = replace(second, extra={**second.extra, "etc.git_dirty": "true"})
    found = policy_history(POLICY, replace(HISTORY, commits=(first, second)), ())
    assert [c.policy_changes for c in found.compactions] == [(), ("data_latency: 1h -> 2h",)]
    assert [c.git_dirty for c in found.compactions] == [False, True]
    text = render_history(found, 5)
    assert "policy        f2  changed since the run before\n                  data_latency: 1h -> 2h\n" in text
    assert "0123456789ab  with files changed since" in text


def test_run_files_add_the_checks_of_their_instant():
    runs = [
        applied("2026-01-01T10:05:01.000Z", result("compacted", FIRST, verification=verdict())),
        applied("2026-01-01T10:06:00.000Z", result("compacted", FIRST, policy="other", verification=verdict("fail"))),
        verified("2026-01-01T10:40:00.000Z", verdict("fail")),
        verified("2026-01-01T10:41:00.000Z", verdict("fail"), policy="other"),
    ]
    found = policy_history(POLICY, HISTORY, runs)
    checks = found.compactions[0].checks
    assert [(check.kind, check.verification.status) for check in checks] == [("apply", "pass"), ("verify", "fail")]
    assert found.compactions[0].result.status == "compacted"
    assert found.compactions[1].checks == found.attempts == ()


def test_a_plan_that_is_applied_again_adds_its_check_and_takes_no_figures_away():
    runs = [
        applied("2026-01-01T10:05:01.000Z", result("compacted", FIRST, bytes_read=7, verification=verdict())),
        applied("2026-01-01T10:07:00.000Z", result("already_applied", FIRST, verification=verdict("fail"))),
        applied("2026-01-01T11:07:00.000Z", result("already_applied", SECOND)),
    ]
    first, second, _ = policy_history(POLICY, HISTORY, runs).compactions
    assert (first.result.status, first.result.bytes_read) == ("compacted", 7)
    assert [check.verification.status for check in first.checks] == ["pass", "fail"]
    assert second.result.status == "already_applied"


def test_the_check_of_a_compaction_that_was_finished_first_is_its_own_where_the_next_failed():
    failed = result("failed", SECOND, resumed_instant=FIRST, reason="no space", verification=verdict())
    found = policy_history(POLICY, HISTORY, [applied("2026-01-01T11:01:00.000Z", failed)])
    assert [check.verification.status for check in found.compactions[0].checks] == ["pass"]
    assert (found.compactions[0].result, found.compactions[1].checks) == (None, ())
    assert [(attempt.status, attempt.verification) for attempt in found.attempts] == [("failed", None)]


def test_a_check_of_a_threshold_that_no_compaction_before_it_promised_stands_alone():
    found = policy_history(POLICY, HISTORY, [verified("2026-01-01T10:40:00.000Z", verdict(threshold=2_000))])
    assert [attempt.status for attempt in found.attempts] == [None]
    assert all(not compaction.checks for compaction in found.compactions)


def test_what_completed_no_compaction_is_an_attempt():
    runs = [
        applied("2026-01-01T13:00:00.000Z", result("stale", SECOND, reason="hoodie.properties changed")),
        applied("2026-01-01T14:00:00.000Z", result("nothing_due", verification=verdict(threshold=9))),
        applied("2026-01-01T15:00:00.000Z", result("compacted", "20260101150000001")),
    ]
    found = policy_history(POLICY, HISTORY, runs)
    assert [attempt.status for attempt in found.attempts] == ["stale", "nothing_due", "compacted"]
    assert found.compactions[1].result is None


@pytest.mark.parametrize(
    ("estimate", "carried", "shown"),
    [
        (800, (), "1000 B written, 25% more than estimated"),
        (1_250, (), "1000 B written, 20% less than estimated"),
        (1_004, (), "1000 B written, as estimated"),
        (500, (CARRIED_FILE,), "1000 B written, 10% more than estimated"),
        (0, (), "1000 B written"),
        (None, (), "1000 B written"),
    ],
)
def test_what_was_written_beside_what_the_plan_expected(estimate, carried, shown):
    """Files that were carried are no part of the estimate."""
    commit = compaction(FIRST, "10", threshold=1_000)
    text = carried_text((OPERATION.model_copy(update={"carried": carried}),))
    commit = replace(commit, bytes_written_estimate=estimate, extra={**commit.extra, CARRIED: text})
    found = policy_history(POLICY, replace(HISTORY, commits=(commit,)), ())
    assert found.compactions[0].bytes_written_estimate == estimate
    assert f"3 log files of 1 file slice, {shown}\n" in render_history(found, limit=1)


def test_the_text_is_newest_first_and_counts_what_was_quiet():
    runs = [
        applied("2026-01-01T10:05:01.000Z", result("compacted", FIRST, verification=verdict())),
        applied("2026-01-01T13:00:00.000Z", result("failed", reason="no space left")),
        applied("2026-01-01T14:00:00.000Z", result("nothing_due", verification=verdict(threshold=9))),
    ]
    assert render_history(policy_history(POLICY, HISTORY, runs), limit=20) == (
        "orders_ro  lake/orders\n"
        "\n"
        "  2026-01-01 13:00:00 UTC  etc apply: failed\n"
        "    reason        no space left\n"
        "\n"
        "  20260101120000001  a compaction by somebody else\n"
        "    merged        3 log files of 1 file slice, 1000 B written\n"
        "\n"
        "  20260101110000001  compacted, completed 2026-01-01 11:05:00 UTC\n"
        "    threshold T   1970-01-01 00:00:02 UTC\n"
        "    git commit    0123456789ab\n"
        "    policy        f2  changed since the run before\n"
        "    plan          plan11\n"
        "    merged        3 log files of 1 file slice, 1000 B written\n"
        "    checks        none on this machine\n"
        "\n"
        "  20260101100000001  compacted, completed 2026-01-01 10:05:00 UTC\n"
        "    threshold T   1970-01-01 00:00:01 UTC\n"
        "    git commit    0123456789ab\n"
        "    policy        f1\n"
        "    plan          plan10\n"
        "    merged        3 log files of 1 file slice, 1000 B written\n"
        "    checks        PASS  1 of 1 checks (level: data)\n"
        "\n"
        "  1 run more on this machine with nothing due"
    )
    assert "3 older: `--limit 4` shows them" in render_history(policy_history(POLICY, HISTORY, runs), limit=1)
    assert "no compaction yet" in render_history(
        policy_history(POLICY, HISTORY, ()).model_copy(update={"compactions": ()}), 1
    )


class TestRunFiles:
    RUN = verified("2026-01-01T10:40:00.000Z", verdict())

    def test_they_come_back_oldest_first(self):
        later = verified("2026-01-01T10:41:00.000Z", verdict())
        found = read_run_files([("b", later.model_dump_json()), ("a", self.RUN.model_dump_json())])
        assert (found.files, found.issues) == ((self.RUN, later), ())

    def test_the_name_sorts_by_time(self):
        assert run_file_name(self.RUN, 7) == "20260101T104000000Z-verify-7.json"

    def test_a_newer_version_is_named_and_left_out(self):
        whole = json.loads(self.RUN.model_dump_json())
        part = json.loads(self.RUN.model_dump_json())
        whole |= {"schema_version": 2, "something": "new"}
        part["verifications"] |= {"schema_version": 3, "tables": "of another kind"}
        found = read_run_files([("a.json", json.dumps(whole)), ("b.json", json.dumps(part))])
        assert found.files == ()
        assert [(issue.code, issue.where.path, issue.level) for issue in found.issues] == [
            ("ETC612", "a.json", "warning"),
            ("ETC612", "b.json", "warning"),
        ]
        assert "schema 3 of verifications, this one knows 1" in found.issues[1].message

    def test_what_is_no_run_file_is_named_and_left_out(self):
        texts = ["{", "[]", '{"kind": "apply"}', "[" * 100_000, self.RUN.model_dump_json()]
        found = read_run_files([(f"{number}.json", text) for number, text in enumerate(texts)])
        assert found.files == (self.RUN,)
        assert [(issue.code, issue.where.path) for issue in found.issues] == [("ETC611", f"{n}.json") for n in range(4)]


def test_runs_of_the_same_policy_on_another_table_are_left_out():
    elsewhere = result("compacted", FIRST, base_path="lake/of_dev/orders", verification=verdict())
    found = policy_history(POLICY, HISTORY, [applied("2026-01-01T10:05:01.000Z", elsewhere)])
    assert (found.attempts, [c.checks for c in found.compactions]) == ((), [(), (), ()])


def test_a_check_after_the_first_says_when_and_by_what():
    runs = [
        applied("2026-01-01T10:05:01.000Z", result("compacted", FIRST, verification=verdict())),
        applied("2026-01-01T10:06:00.000Z", result("already_applied", FIRST, verification=verdict())),
        verified("2026-01-01T10:07:00.000Z", verdict()),
    ]
    text = render_history(policy_history(POLICY, HISTORY, runs), limit=20)
    assert [line.partition("(level: data)")[2] for line in text.splitlines() if "PASS" in line] == [
        "",
        ", etc apply at 2026-01-01 10:06:00 UTC",
        ", etc verify at 2026-01-01 10:07:00 UTC",
    ]


def test_a_compaction_that_the_table_lost_is_told_as_such():
    runs = [applied("2026-01-01T15:00:00.000Z", result("compacted", "20260101150000001"))]
    text = render_history(policy_history(POLICY, HISTORY, runs), limit=20)
    assert "2026-01-01 15:00:00 UTC  etc apply: compacted, in a commit that the table no longer has\n" in text


def test_what_a_compaction_carried_is_shown():
    pairs = [
        {"partition": "p", "name": f".f1_{FIRST}.log.0_10000{n}-0-0", "target": f"old-{n}", "size": 1} for n in range(5)
    ]
    first = HISTORY.commits[0]
    carrying = replace(first, extra={**first.extra, "etc.carried": json.dumps(pairs)})
    text = render_history(policy_history(POLICY, replace(HISTORY, commits=(carrying,)), ()), limit=9)
    assert f"carried       old-0 as .f1_{FIRST}.log.0_100000-0-0" in text
    assert "and 2 more log files" in text
    damaged = replace(first, extra={**first.extra, "etc.carried": "{"})
    assert "carried" not in render_history(policy_history(POLICY, replace(HISTORY, commits=(damaged,)), ()), limit=9)


def checked(level, status):
    """A check of the first compaction at a level."""
    return RecordedCheck(
        recorded_at="2026-01-01T12:00:00Z",
        kind="verify",
        verification=verdict(status).model_copy(update={"level": level}),
    )


@pytest.mark.parametrize(
    ("checks", "stands"),
    [
        ([], None),
        ([("data", "pass"), ("metadata", "fail")], ("metadata", "fail")),
        ([("data", "fail"), ("metadata", "pass")], ("data", "fail")),
        ([("data", "fail"), ("metadata", "pass"), ("logs", "pass")], ("data", "fail")),
        ([("data", "fail"), ("data", "error")], ("data", "fail")),
        ([("data", "fail"), ("metadata", "pass"), ("data", "pass")], ("data", "pass")),
        ([("metadata", "fail"), ("data", "pass")], ("data", "pass")),
        ([("data", "pass"), ("data", "error")], ("data", "error")),
    ],
)
def test_a_weaker_check_does_not_outweigh_a_failure(checks, stands):
    """The site said "Passed" of a compaction that had failed at level data, after a look at metadata."""
    found = latest_verdict([checked(*one) for one in checks])
    assert (found and (found.level, found.status)) == stands


def test_nor_does_one_that_says_what_is_in_doubt():
    """Of a window, a condition or another suite: it did not look at what had failed."""
    warned = checked("data", "warn")
    in_doubt = ExpectationResult(expectation=KNOWN, status="warn", message="its verification failed")
    doubtful = warned.model_copy(
        update={"verification": warned.verification.model_copy(update={"expectations": (in_doubt,)})}
    )
    failed = checked("data", "fail")
    assert latest_verdict([failed, doubtful]) is failed.verification
    assert latest_verdict([failed, warned]) is warned.verification


@pytest.mark.parametrize("status", ["compacted", "nothing_due"])
def test_a_run_of_before_a_compaction_has_not_checked_it(status):
    """After a restore a boundary of `strategy.at` is published once more, at the same instant."""
    of_this = {"instant": FIRST} if status == "compacted" else {"resumed_instant": FIRST}
    run = applied("2026-01-01T10:04:59.000Z", result(status, verification=verdict(), **of_this))
    found = policy_history(POLICY, HISTORY, (run,))
    assert (found.compactions[0].result, found.compactions[0].checks) == (None, ())
    assert [one.status for one in found.attempts] == [status]
