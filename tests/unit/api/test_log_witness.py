"""Level `logs`: what commits recorded about log files is compared with the files, on real tables and without Spark."""

import json
import re
from dataclasses import replace

import pytest

from etc_policy.hudi import log_times
from etc_policy.storage import local
from etc_policy.storage.local import LocalStorage
from etc_policy.table.history import SEEN_UNTIL, THRESHOLD
from tests.unit.hudi import log_file
from tests.unit.hudi.table_folder import TableFolder, at, base
from tests.unit.hudi.table_folder import log as written
from tests.unit.plan.plan_cases import epoch_ms

NOON = "2026-01-01T12:00:00Z"
POLICIES = """version: 1
policies:
  - {name: orders, table: t, event_time_column: {column: ts, unit: ms}, data_latency: 1h, verify: {level: data}}
"""
BASE, FIRST, SECOND = at("08:00:00"), at("10:10:00"), at("11:20:00")
#: After the threshold of a run at noon, and before it.
AFTER, BEFORE = epoch_ms("11:30:00"), epoch_ms("10:30:00")


def commit_log(table, instant, completed, recorded_ms, content, file_id="f1", **rest):
    """A delta commit with one log file of these bytes, and the event time that it records."""
    file = replace(written(file_id, recorded_ms, **rest), size=len(content))
    table.commit(instant, completed, file)
    path = table.base / "p" / file.name(instant)
    path.write_bytes(content)
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A project, and a table with one base file and one log file that holds what its commit says."""
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "a.yml").write_text(POLICIES)
    monkeypatch.chdir(tmp_path)
    table = TableFolder(tmp_path / "t", properties={"hoodie.table.ordering.fields": "ts"})
    table.commit(BASE, at("08:00:05"), base("f1"), base("f2"))
    commit_log(table, SECOND, at("11:20:05"), AFTER, log_file.avro([AFTER, AFTER + 5], "long"))
    return table


@pytest.fixture
def compacted(folder, tmp_path):
    """The table, which etc has compacted: from then on plans believe what commits record."""
    (tmp_path / "policies" / "a.yml").write_text(POLICIES.replace("level: data", "level: logs"))
    ours = {THRESHOLD: str(epoch_ms("08:20:00")), SEEN_UNTIL: at("08:00:05")}
    folder.compaction(at("08:30:00"), at("08:31:00"), base("f1"), extra=ours)
    return folder


@pytest.fixture
def etc(capsys):
    from etc_policy.cli.main import main

    def run(*arguments):
        code = main((*arguments, "--at", NOON, "--output", "json"))
        captured = capsys.readouterr()
        return code, json.loads(captured.out) if captured.out else None, captured.err

    return run


def lie(table):
    """A log file whose commit records a later time than it holds, by an hour."""
    return commit_log(
        table, at("11:25:00"), at("11:25:05"), AFTER, log_file.avro([AFTER, BEFORE], "long"), file_id="f2"
    )


def verdict_of(report):
    (table,) = report["tables"]
    return table["verification"]


LOGS = "log_files_hold_what_their_commits_recorded"


def check(verdict, name=LOGS):
    (found,) = (one for one in verdict["expectations"] if one["expectation"] == name)
    return found


def test_where_nothing_was_due_the_log_files_prove_it(folder, etc):
    code, report, _ = etc("apply", "--yes")
    verdict = verdict_of(report)
    assert (code, report["tables"][0]["status"], verdict["status"], verdict["level"]) == (
        0,
        "nothing_due",
        "pass",
        "logs",
    )
    assert check(verdict)["observed"]["log_files_read"] == 1


def test_a_commit_that_records_a_later_time_than_its_log_file_holds(compacted, etc):
    path = lie(compacted)
    code, report, err = etc("apply", "--yes")
    verdict = verdict_of(report)
    assert (code, report["tables"][0]["status"], verdict["status"]) == (1, "nothing_due", "fail")
    assert check(verdict)["status"] == "fail"
    assert "error[ETC470]" in err
    for said in (path.name, "2026-01-01 11:30:00 UTC", "2026-01-01 10:30:00 UTC"):
        assert said in err


def freshness_of(etc, *arguments):
    (table,) = etc("freshness", *arguments)[1]["tables"]
    return table["status"], table.get("reason")


def test_freshness_is_unknown_from_then_on_on_every_machine(compacted, etc, tmp_path):
    path = lie(compacted)
    assert freshness_of(etc)[0] == "no_target"
    etc("apply", "--yes")
    for arguments in ((), ("--target-dir", str(tmp_path / "elsewhere")), ("--metadata-only",)):
        status, reason = freshness_of(etc, *arguments)
        assert (status, path.name in reason) == ("unknown", True)


def test_the_next_plan_takes_the_true_time(compacted, etc, tmp_path):
    lie(compacted)
    before = etc("plan")[1]["tables"][0]
    assert etc("apply", "--yes")[0] == 1
    for arguments in ((), ("--target-dir", str(tmp_path / "elsewhere")), ("--metadata-only",)):
        after = etc("plan", *arguments)[1]["tables"][0]
        assert (before["action"], after["action"]) == ("nothing_due", "compact")
        assert [one["file_id"] for one in after["operations"]] == ["f2"]
        assert "is wrong" in after["warnings"][0]


def test_a_time_that_no_commit_records_and_that_cannot_be_true_fails_nothing(compacted, etc):
    """Hudi drops 9999-12-31: by its commit the file holds nothing up to T, and so it does by its rows."""
    content = log_file.avro([AFTER, 253_402_300_799_000], "long")
    commit_log(compacted, at("11:25:00"), at("11:25:05"), AFTER, content, file_id="f2")
    code, report, _ = etc("apply", "--yes")
    verdict = verdict_of(report)
    assert (code, verdict["status"], verdict["level"]) == (0, "pass", "logs")
    (table,) = etc("freshness")[1]["tables"]
    assert (table["complete_until_ms"], table["complete_until_proof"]["level"]) == (epoch_ms("11:00:00"), "logs")


def test_a_second_look_finds_the_same(folder, etc):
    lie(folder)
    codes = [etc("verify", "--level", "logs")[0] for _ in range(2)]
    assert codes == [1, 1]


def test_a_lie_of_events_after_the_threshold_is_one_too(folder, etc):
    """It is wrong already, though nothing at or below the threshold is hidden yet."""
    commit_log(folder, at("11:25:00"), at("11:25:05"), AFTER + 5000, log_file.avro([AFTER], "long"), file_id="f2")
    code, report, _ = etc("apply", "--yes")
    verdict = verdict_of(report)
    failed = [one["expectation"] for one in verdict["expectations"] if one["status"] == "fail"]
    assert (code, failed) == (1, [LOGS])


def test_a_file_that_is_compacted_is_forgotten(folder, etc):
    path = lie(folder)
    etc("verify", "--level", "logs")
    assert freshness_of(etc)[0] == "unknown"
    folder.compaction(at("11:40:00"), at("11:41:00"), base("f2"))
    path.unlink()
    assert freshness_of(etc)[0] == "no_target"


NOT_READ = {
    "a kind of block that is not read": (log_file.block(log_file.HFILE, b"x"), "HFile blocks"),
    "bytes that are no log file": (b"#HUDI#" + b"x" * 40, "damaged: no block"),
    "deletes that its commit does not count": (
        log_file.avro([AFTER], "long") + log_file.deletes((log_file.LONG, AFTER), ts="long"),
        "counts no deletes",
    ),
    "a delete by key that its commit does not count": (
        log_file.avro([AFTER], "long") + log_file.deletes((log_file.INT, 0), ts="long"),
        "a delete without event time",
    ),
}


@pytest.mark.parametrize("what", NOT_READ)
def test_what_cannot_be_read_is_unproven_and_never_passes_silently(folder, etc, what):
    content, why = NOT_READ[what]
    path = commit_log(folder, at("11:25:00"), at("11:25:05"), AFTER, content, file_id="f2")
    code, report, _ = etc("apply", "--yes")
    verdict = verdict_of(report)
    assert (code, verdict["status"], verdict["level"]) == (0, "warn", "metadata")
    found = check(verdict)
    assert (found["status"], found["observed"]["log_files_unproven"]) == ("warn", 1)
    assert path.name in found["message"]
    assert why in found["message"]


def test_rows_without_an_event_time_are_counted(folder, etc):
    commit_log(folder, at("11:25:00"), at("11:25:05"), AFTER, log_file.avro([AFTER, None], "long"), file_id="f2")
    verdict = verdict_of(etc("apply", "--yes")[1])
    assert (verdict["status"], verdict["level"]) == ("warn", "logs")
    assert check(verdict)["observed"]["log_files_with_rows_without_event_time"] == 1


def test_partial_updates_are_due_as_commits_record_another_time_for_them(folder, etc):
    content = log_file.avro([AFTER], "long", {log_file.IS_PARTIAL: "true"})
    commit_log(folder, at("11:25:00"), at("11:25:05"), AFTER, content, file_id="f2")
    assert etc("plan")[1]["tables"][0]["action"] == "compact"


def test_deletes_by_key_are_due_as_nobody_knows_their_times(folder, etc):
    """The plan compacts what it does not know; until then the promise on latency alone bounds them."""
    content = log_file.deletes((log_file.INT, 0), ts="long")
    commit_log(folder, at("11:25:00"), at("11:25:05"), None, content, file_id="f2", deletes=1)
    assert etc("plan")[1]["tables"][0]["action"] == "compact"
    verdict = verdict_of(etc("verify", "--level", "logs")[1])
    assert (verdict["status"], check(verdict)["status"]) == ("warn", "warn")
    assert "only bounded by `data_latency`" in check(verdict)["message"]


def test_a_log_file_is_read_once_in_its_life(compacted, etc, monkeypatch):
    """Each version of it: one that is overwritten, in as many bytes too, was not read and proves nothing."""
    monkeypatch.setattr(local, "_AT_REST_NS", 0)

    def looked_at():
        verdict = verdict_of(etc("apply", "--yes")[1])
        observed = check(verdict)["observed"]
        return verdict["level"], observed["log_files_read"], observed["log_files_read_by_an_earlier_run"]

    (path,) = (compacted.base / "p").glob(".f1_*.log.*")
    first, again = looked_at(), looked_at()
    assert (first[0], first[1]) == (again[0], again[1]) == ("logs", first[1])
    assert (first[2], again[2]) == (0, first[1])
    path.write_bytes(b"x" * path.stat().st_size)
    assert looked_at()[0] == "metadata"


def test_a_policy_of_level_metadata_reads_no_log_file(compacted, etc, tmp_path):
    lie(compacted)
    policies = tmp_path / "policies" / "a.yml"
    policies.write_text(POLICIES.replace("level: data", "level: metadata"))
    code, report, _ = etc("apply", "--yes")
    assert (code, verdict_of(report)["level"]) == (0, "metadata")


KEPT = (
    "[]",
    '{"misrecorded": 7, "proofs": 7}',
    '{"proofs": {"subject": "", "of": [7]}}',
    '{"misrecorded": [7, {"path": 1}, {"path": "p/x"}]}',
)


@pytest.mark.parametrize("content", KEPT)
def test_what_is_kept_may_be_anything(folder, etc, content):
    kept = folder.base / ".hoodie" / ".etc" / "memory.json"
    kept.parent.mkdir(exist_ok=True)
    kept.write_text(content)
    assert freshness_of(etc)[0] == "no_target"


def fresh(etc, *arguments):
    (table,) = etc("freshness", *arguments)[1]["tables"]
    return table


def test_what_is_said_of_completeness_carries_its_proof(folder, etc):
    before = fresh(etc)
    assert before["complete_until_proof"]["level"] == "metadata"
    assert before["proofs"] == []
    etc("apply", "--yes")
    after = fresh(etc)
    proof = after["complete_until_proof"]
    assert (proof["level"], proof["until_ms"]) == ("logs", after["complete_until_ms"])
    assert before["complete_until_ms"] == after["complete_until_ms"]


def test_a_proof_of_less_than_is_said_now_is_named_beside(folder, etc, capsys):
    from etc_policy.cli.main import main

    etc("apply", "--yes")
    assert main(("freshness", "--at", "2026-01-01T12:10:00Z")) == 0
    text = " ".join(capsys.readouterr().out.replace("\N{NO-BREAK SPACE}", " ").split())
    assert "until 2026-01-01 11:10:00 UTC, 1h ago (proof: metadata, 2026-01-01 12:10:00 UTC)" in text
    assert "proved until 2026-01-01 11:00:00 UTC (proof: logs, " in text


def test_a_proof_is_of_one_compaction_and_one_reading_of_event_times(folder, etc, tmp_path):
    etc("apply", "--yes")
    policies = tmp_path / "policies" / "a.yml"
    policies.write_text(POLICIES.replace("unit: ms", "unit: ms, trust_commit_metadata: false"))
    assert fresh(etc)["proofs"] == []
    policies.write_text(POLICIES)
    assert len(fresh(etc)["proofs"]) == 1
    folder.compaction(at("11:40:00"), at("11:41:00"), base("f2"), extra={THRESHOLD: "5"})
    assert fresh(etc)["proofs"] == []


def test_a_verification_that_failed_disproves(folder, etc):
    etc("apply", "--yes")
    (path,) = (folder.base / "p").glob("f1_*.parquet")
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    assert etc("verify", "--level", "logs")[0] == 1
    path.write_bytes(content)
    assert fresh(etc)["proofs"] == []


def insist(tmp_path, level):
    text = POLICIES.replace("verify:", f"freshness: {{proof: {level}}}, verify:")
    (tmp_path / "policies" / "a.yml").write_text(text)


def test_a_policy_may_insist_on_a_proof(folder, etc, tmp_path, capsys):
    insist(tmp_path, "logs")
    found = fresh(etc)
    assert (found["status"], found["complete_until_ms"]) == ("unknown", None)
    (hint,) = re.findall(r"`etc (verify [^`]*)`", found["reason"])
    etc(*hint.split())
    assert fresh(etc)["status"] == "no_target"
    insist(tmp_path, "data")
    assert fresh(etc)["status"] == "unknown"
    assert "no verification of level `data`" in backlog(capsys)


def backlog(capsys):
    """What `etc debug` says of how far RO is complete."""
    from etc_policy.cli.main import main

    main(("debug", "--output", "json"))
    found = json.loads(capsys.readouterr().out)["findings"]
    return next(one["message"] for one in found if one["check"] == "backlog")


def test_what_is_insisted_on_counts_only_as_far_as_it_was_proved(folder, etc, tmp_path, capsys):
    from etc_policy.cli.main import main

    insist(tmp_path, "logs")
    etc("apply", "--yes")
    main(("freshness", "--at", "2026-01-01T12:10:00Z", "--output", "json"))
    (found,) = json.loads(capsys.readouterr().out)["tables"]
    assert (found["complete_until_ms"], found["lag_seconds"]) == (epoch_ms("11:00:00"), 70 * 60)
    assert found["complete_until_proof"]["level"] == "logs"
    assert backlog(capsys).endswith(" is complete until 2026-01-01 11:00:00 UTC")


class TestBeforeTheFirstCompaction:
    """No commit says of which column its event times are: until etc has compacted the table a few log files are looked at."""

    #: Up to where RO is complete at noon where it lacks nothing before.
    ALL = epoch_ms("11:00:00")

    @pytest.fixture
    def read(self, monkeypatch):
        """The log files whose event times are read."""
        found = []

        def read(storage, path, *rest, real=log_times._opened):
            found.append(path)
            return real(storage, path, *rest)

        monkeypatch.setattr(log_times, "_opened", read)
        return found

    def come(self, table, clock, file_id, *held, recorded=AFTER):
        content = log_file.avro([*held] or [AFTER], "long")
        return commit_log(table, at(f"{clock}:00"), at(f"{clock}:05"), recorded, content, file_id=file_id)

    def until(self, etc, *arguments):
        (table,) = etc("freshness", *arguments)[1]["tables"]
        return table["complete_until_ms"]

    def test_neither_freshness_nor_a_plan_says_more_than_the_log_files(self, folder, etc):
        """The writer tracks another column, which is an hour later."""
        path = self.come(folder, "11:25", "f2", BEFORE)
        assert self.until(etc) == BEFORE - 1
        code, plan, err = etc("plan")
        (table,) = plan["tables"]
        assert (code, table["action"], [one["file_id"] for one in table["operations"]]) == (0, "compact", ["f2"])
        assert "event times that commits recorded are not believed" in err
        assert f"p/{path.name} holds an event at 2026-01-01 10:30:00 UTC" in err
        assert "unless `event_time_column` has `trust_commit_metadata: false`" in err

    def test_what_was_seen_once_is_not_forgotten_behind_newer_files(self, folder, etc):
        self.come(folder, "11:25", "f2", BEFORE)
        assert self.until(etc) == BEFORE - 1
        for minute in range(26, 30):
            self.come(folder, f"11:{minute}", f"g{minute}")
        assert self.until(etc) == BEFORE - 1

    @pytest.mark.parametrize(
        "content",
        [
            log_file.avro([None], "long"),
            log_file.avro(["31/12/2025"], "string"),
            log_file.avro([AFTER], "long").replace(b'"ts"', b'"t2"'),
        ],
        ids=["no value", "a text", "no such column"],
    )
    def test_a_time_that_cannot_be_of_the_column_is_not_believed(self, folder, etc, content):
        commit_log(folder, at("11:25:00"), at("11:25:05"), AFTER, content, file_id="f2")
        assert "event times that commits recorded are not believed" in etc("plan")[2]
        (table,) = etc("freshness")[1]["tables"]
        assert table["unknown_log_files"] == 1

    def test_the_newest_of_three_file_groups_are_read_once(self, folder, etc, read, monkeypatch):
        monkeypatch.setattr(local, "_AT_REST_NS", 0)
        for minute, file_id in enumerate(("f2", "f3", "f4", "f4"), 24):
            self.come(folder, f"11:{minute}", file_id)
        assert self.until(etc) == self.ALL
        assert sorted(path[:6] for path in read) == ["p/.f2_", "p/.f3_", "p/.f4_"]
        assert "112700" in next(path for path in read if "f4" in path)
        read.clear()
        etc("plan")
        assert read == []

    def test_none_is_read_once_etc_has_compacted(self, compacted, etc, read):
        self.come(compacted, "11:25", "f2")
        assert (self.until(etc), etc("plan")[0], read) == (self.ALL, 0, [])

    def test_nor_where_the_user_wants_none_read(self, folder, etc, read):
        self.come(folder, "11:25", "f2", BEFORE)
        assert (self.until(etc, "--metadata-only"), read) == (self.ALL, [])

    @pytest.mark.parametrize(
        ("error", "said"),
        [
            (None, "its commit is believed, as it cannot be read: p/.f2_"),
            (OSError(5, "no disk"), "its commit is believed, as it cannot be read: p/.f2_"),
            (PermissionError(13, "denied"), "commits are believed, as log files cannot be held against them"),
        ],
        ids=["damaged", "unreadable", "forbidden"],
    )
    def test_what_cannot_be_read_is_said_and_fails_no_plan(self, folder, etc, monkeypatch, error, said):
        path = self.come(folder, "11:25", "f2")
        path.write_bytes(b"x" * path.stat().st_size)

        def open_it(storage, path, real=LocalStorage.open):
            if error is not None and ".log." in path:
                raise error
            return real(storage, path)

        monkeypatch.setattr(LocalStorage, "open", open_it)
        code, plan, err = etc("plan")
        assert (code, plan["tables"][0]["action"]) == (0, "nothing_due")
        assert said in err
