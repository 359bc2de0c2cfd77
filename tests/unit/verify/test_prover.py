import json
from dataclasses import replace

import pytest

from etc_policy.errors import EngineError
from etc_policy.plan.split import SPLIT
from etc_policy.policy.manifest import EventTime, Freshness, Policy, Sample, Verify
from etc_policy.table.apply_state import ApplyState, Looked, Proof
from etc_policy.table.history import Commit, GroupWrite
from etc_policy.table.proofs import Judgement, after_verdict
from etc_policy.table.state import CompactionRecord, Instant
from etc_policy.verify.catalog import AS_OF, BOUNDS, FRESHNESS, VIEWS_AGREE, WAITING
from etc_policy.verify.compared_rows import merged_whole
from etc_policy.verify.evidence import Claim, Evidence
from etc_policy.verify.log_checks import LOGS
from etc_policy.verify.metadata_checks import INDEXES, prove_compacted
from etc_policy.verify.ports import Coverage, ExpectationResult, Verification
from etc_policy.verify.prover import (
    claim_in,
    claim_of,
    compare_partitions,
    looked_at,
    on_promise,
    proof_level,
    record_of_run,
    verify_table,
)
from tests.past import history_of
from tests.unit.plan.plan_cases import epoch_ms, instant, state_of

NOW = epoch_ms("12:00:00")
T = epoch_ms("11:00:00")
SEEN = instant("11:30:00")
CLAIM = Claim(T, SEEN)
POLICY = Policy(
    name="orders_ro",
    table="/t",
    event_time=EventTime(column="ts"),
    data_latency_ms=3_600_000,
    freshness=Freshness(target_ms=7_200_000),
)


def state_with(*logs, **told):
    """A table with a slice that begins at 11:00:00.001; each log file is `requested > completed, ...`."""
    files = {f"L{number}": text for number, text in enumerate(logs, 1)}
    return state_of(
        "/t", {"slices": {"p/f1": {"base": "11:00:00.001", "logs": files}, "p/f2": {"base": "08:00:00"}}, **told}
    )


def evidence(state, claim=CLAIM, policy=POLICY):
    """What a table's metadata tell, every file of it recorded as it is."""
    return Evidence(policy, state, history_of(timezone=state.timezone), claim, NOW)


def judgement(level, until_ms):
    """That of a verification that passed, and proves this."""
    proof = Proof(level=level, until_ms=until_ms, proved_at_ms=NOW)
    return Judgement(level, "pass", "", proof, Looked(level=level), None, covers=True)


def proof(*logs, claim=CLAIM, **told):
    return prove_compacted(evidence(state_with(*logs, **told), claim))


class TestMetadata:
    def test_nothing_left_proves_it(self):
        result = proof()
        assert (result.status, result.message) == ("pass", None)
        assert result.observed == {
            "log_files": 0,
            "log_files_at_or_below_threshold": 0,
            "late_log_files": 0,
            "examples": [],
        }

    def test_only_events_above_the_threshold_are_left(self):
        assert proof("11:20:00 > 11:20:05, event 11:00:00.001").status == "pass"

    def test_a_log_file_at_the_threshold_was_left_out(self):
        result = proof("11:20:00 > 11:20:05, event 11:00:00", "11:25:00 > 11:25:05, event 11:24:00")
        assert result.status == "fail"
        assert (result.observed["log_files_at_or_below_threshold"], result.observed["examples"]) == (1, ["L1"])
        assert result.message.startswith("1 log file not compacted with events at or below")

    def test_one_that_completed_at_the_very_time_seen_is_not_late(self):
        assert proof("11:20:00 > 11:30:00, event 10:00:00").status == "fail"

    def test_a_commit_that_the_plan_had_not_seen_is_late_and_counted(self):
        result = proof("11:29:00 > 11:30:00.001, event 10:00:00")
        assert (result.status, result.observed["late_log_files"], result.observed["examples"]) == ("pass", 1, [])

    def test_an_unknown_event_time_among_what_was_seen_fails(self):
        assert proof("11:20:00 > 11:20:05").status == "fail"

    def test_the_promise_on_latency_does_not_excuse_what_was_seen(self):
        """Its plan had to compact it, whatever the bound says: 10:20:05 lies above this threshold."""
        assert proof("11:20:00 > 11:20:05", claim=Claim(epoch_ms("10:00:00"), SEEN)).status == "fail"

    def test_a_later_unknown_one_is_bounded_by_the_promise_on_latency(self):
        """Completed at 12:00:00.001 with a latency of an hour it can only hold events after T; a little earlier, late ones."""
        after, before = proof("11:50:00 > 12:00:00.001"), proof("11:50:00 > 12:00:00")
        assert (after.status, after.observed["late_log_files"]) == ("pass", 0)
        assert (before.status, before.observed["late_log_files"]) == ("pass", 1)

    def test_the_bound_is_in_the_tables_zone(self):
        """12:00:00.001 in Tokyo is 03:00:00.001 UTC."""
        claim = Claim(epoch_ms("02:00:00"), SEEN)
        assert proof("11:50:00 > 12:00:00.001", claim=claim, timezone="Asia/Tokyo").observed["late_log_files"] == 0
        assert proof("11:50:00 > 12:00:00", claim=claim, timezone="Asia/Tokyo").observed["late_log_files"] == 1

    def test_a_threshold_that_was_forged_upwards_is_refuted(self):
        logs = ("11:20:00 > 11:20:05, event 11:15:00",)
        assert proof(*logs).status == "pass"
        assert proof(*logs, claim=Claim(epoch_ms("11:16:00"), SEEN)).status == "fail"

    def test_a_pending_compaction_is_named(self):
        assert proof(instants=["11:40:00, compaction, inflight"]).observed["pending_compaction"] == instant("11:40:00")
        assert "pending_compaction" not in proof(instants=["11:40:00, deltacommit, inflight"]).observed

    def test_examples_are_few(self):
        result = proof(*(f"11:20:0{n} > 11:21:0{n}, event 10:00:00" for n in range(9)))
        assert (result.observed["log_files_at_or_below_threshold"], len(result.observed["examples"])) == (9, 5)


class TestClaim:
    def record(self, **changes):
        told = {"instant": SEEN, "completed": instant("11:40:00"), "threshold_ms": T, "policy": "p", "plan_id": "x"}
        return CompactionRecord(**told, **changes)

    def test_that_of_the_last_compaction(self):
        state = replace(state_with(), last_compaction=self.record(seen_until=instant("11:35:00")))
        assert claim_of(POLICY, state, NOW) == Claim(T, instant("11:35:00"))

    def test_an_old_record_had_seen_what_came_before_its_instant(self):
        state = replace(state_with(), last_compaction=self.record())
        assert claim_of(POLICY, state, NOW) == Claim(T, SEEN)

    def test_that_of_a_run_is_what_the_table_says_of_it(self):
        """Not what the run says: nothing but the instant is taken from it."""
        state = replace(state_with(), last_compaction=self.record(seen_until=instant("11:35:00")))
        older = replace(self.record(), instant=instant("10:00:00"), threshold_ms=T - 1)
        history = history_of(runs=[older])
        assert claim_in(record_of_run(state, history, SEEN)) == Claim(T, instant("11:35:00"))
        assert claim_in(record_of_run(state, history, instant("10:00:00"))) == Claim(T - 1, instant("10:00:00"))
        assert record_of_run(state, history, instant("10:30:00")) is None

    def test_without_one_what_the_watermark_promises(self):
        state = state_with("11:20:00 > 11:20:05, event 10:30:00")
        assert claim_of(POLICY, state, NOW) == Claim(epoch_ms("10:30:00") - 1, instant("11:20:05"), leaves_out=True)
        assert prove_compacted(evidence(state, claim_of(POLICY, state, NOW))).status == "pass"

    def test_never_above_what_the_latency_allows(self):
        state = state_with("11:20:00 > 11:20:05, event 11:15:00")
        assert claim_of(POLICY, state, NOW).threshold_ms == T

    def test_of_an_empty_table(self):
        assert claim_of(POLICY, state_of("/t", {}), NOW) == Claim(T, "", leaves_out=True)

    def test_of_a_table_that_was_never_compacted_it_holds_beside_a_delete(self):
        """`etc freshness` bounds it by the latency, and so does the claim: it failed at the first `etc verify`."""
        state = state_with("11:50:00 > 11:50:05, deletes")
        assert prove_compacted(evidence(state, claim_of(POLICY, state, NOW))).status == "pass"


def cut(policy_values):
    return CompactionRecord(SEEN, instant("11:40:00"), T, "p", "x", policy_values=policy_values)


CLEAN = Instant(instant("11:45:00"), "clean", "completed", instant("11:45:01"))


class Verifier:
    """A DataVerifier that answers what it is told, and keeps what it was asked."""

    release = "1.2.0"

    def __init__(self, *results, late_rows=3, wrongly_listed=(), wrongly_indexed=(), missed=()):
        self.results, self.late_rows, self.requests = results, late_rows, []
        self.listing, self.indexed, self.missed = wrongly_listed, wrongly_indexed, missed

    def wrongly_listed(self, state):
        assert "files" in state.metadata_partitions, "there is no listing to be asked for"
        return self.listing

    def wrongly_indexed(self, state):
        assert set(state.metadata_partitions) - {"files"}, "there is no index to be asked for"
        return self.indexed

    def missed_by_indexes(self, request, state):
        return self.missed

    def check(self, request):
        self.requests.append(request)
        return self.late_rows, self.results


STATUSES = ("pass", "warn", "fail", "error")


def result(status):
    return ExpectationResult(expectation=f"expect_{status}", status=status if status in STATUSES else "pass")


ROWS = {"type": "expect_no_key_twice"}
LAG = {"type": "expect_freshness_within", "kwargs": {"now_ms": {"$PARAMETER": "now_ms"}, "error_after_ms": 1}}


class TestVerdict:
    def verify(self, state, verifier=None, suite=(ROWS,), level="data", policy=POLICY):
        def given():
            assert verifier is not None, "no rows were to be read"
            return verifier

        return verify_table(evidence(state, policy=policy), suite, level, given)

    def names(self, verdict):
        return [found.expectation for found in verdict.expectations]

    def test_from_metadata_alone(self):
        verdict = self.verify(state_with(), level="metadata")
        assert (verdict.level, verdict.status, verdict.threshold_ms, verdict.late_rows) == ("metadata", "pass", T, None)
        assert self.names(verdict) == [
            "no_uncompacted_log_file_at_or_below_threshold", "files_are_what_their_commits_wrote",
        ]  # fmt: skip
        assert verdict.not_checked == ("expect_no_key_twice",)

    def test_an_empty_table_has_no_rows_to_read(self):
        verdict = self.verify(state_of("/t", {}))
        assert (verdict.level, verdict.not_checked) == ("metadata", ("expect_no_key_twice",))

    @pytest.mark.parametrize("level", ["metadata", "sample", "data"])
    def test_a_suite_that_needs_no_rows_reads_none(self, level):
        verdict = self.verify(state_with(), suite=(LAG,), level=level)
        assert (verdict.level, verdict.status, verdict.not_checked) == ("metadata", "fail", ())
        assert self.names(verdict)[-1] == "expect_freshness_within"

    def test_freshness_counts_what_is_proved_as_the_policy_wants(self):
        """As `etc freshness` does: by metadata RO is complete up to T, and the kept proof reaches two hours less far."""
        lag = {"type": FRESHNESS, "kwargs": {**LAG["kwargs"], "error_after_ms": 7_200_000}}
        policy = POLICY.model_copy(update={"freshness": Freshness(proof="data")})
        verdict = self.verify(state_with(), suite=(lag,), level="logs", policy=policy)
        message = "how far RO is complete is not known: no verification of level `data` has passed"
        assert (verdict.status, message in verdict.failures) == ("fail", True)
        assert (on_promise(verdict).status, verdict.unjudged_lag_ms) == ("warn", None)
        state = state_with()
        kept = after_verdict(ApplyState(), policy, state, judgement("data", T - 7_200_000))
        proven = replace(state, apply_state=kept)
        verdict = self.verify(proven, suite=(lag,), level="logs", policy=policy)
        assert (verdict.status, verdict.expectations[-1].observed["lag_ms"]) == ("fail", 3 * 3_600_000)
        assert self.verify(proven, suite=(), level="logs", policy=policy).unjudged_lag_ms == 3 * 3_600_000

    @pytest.mark.parametrize(
        ("asked", "level", "status"),
        [({}, "data", "pass"), ({"threshold_ms": T - 1}, "data", "fail"), ({}, "sample", "fail")],
    )
    def test_freshness_counts_what_the_verification_itself_proves(self, asked, level, status):
        """The first one of a table could never pass else. A suite may compare no more than a part of what is claimed."""
        lag = {"type": FRESHNESS, "kwargs": {**LAG["kwargs"], "error_after_ms": 7_200_000}}
        policy = POLICY.model_copy(update={"freshness": Freshness(proof="data")})
        agree = ExpectationResult(expectation=VIEWS_AGREE, status="pass")
        suite = ({"type": VIEWS_AGREE, "kwargs": asked}, lag)
        state = state_with("11:20:00 > 11:30:00, event 11:15:00")
        verdict = self.verify(state, Verifier(agree), suite=suite, level=level, policy=policy)
        assert (verdict.status, verdict.expectations[-1].expectation) == (status, FRESHNESS)

    def test_results_stand_in_the_suites_order(self):
        verifier = Verifier(result("one"), result("two"))
        verdict = self.verify(state_with(), verifier, suite=(ROWS, LAG, ROWS))
        assert self.names(verdict)[-3:] == ["expect_one", "expect_freshness_within", "expect_two"]
        assert [item["type"] for item in verifier.requests[0].suite] == ["expect_no_key_twice"] * 2

    def test_readers_that_miss_files_fail_it_and_no_row_is_read(self):
        verifier = Verifier(result("pass"), wrongly_listed=("p/f1.parquet: listed, not there",))
        verdict = self.verify(state_with(), verifier)
        assert (verdict.level, verdict.status, verdict.not_checked) == ("metadata", "fail", ("expect_no_key_twice",))
        assert "1 file wrongly, for example p/f1.parquet: listed, not there" in verdict.failures
        assert not verifier.requests

    def test_readers_that_find_the_files_pass_it(self):
        for partitions in (("files",), ()):
            verdict = self.verify(replace(state_with(), metadata_partitions=partitions), Verifier(result("pass")))
            assert (verdict.level, verdict.status) == ("data", "pass")
            assert ("metadata_table_lists_the_files_that_are_there" in self.names(verdict)) == bool(partitions)

    @pytest.mark.parametrize("found", [{"wrongly_indexed": ("p/f1.parquet: no",)}, {"missed": ("RO: 1 of 2 rows",)}])
    def test_indexes_by_which_readers_miss_rows_fail_it_though_the_views_agree(self, found):
        state = replace(state_with(), metadata_partitions=("files", "column_stats"))
        verdict = self.verify(state, Verifier(result("pass"), **found))
        assert (verdict.level, verdict.status, verdict.not_checked) == ("data", "fail", ())
        assert (
            f"1 fault in the metadata table's indexes, for example {next(iter(found.values()))[0]}" in verdict.failures
        )

    @pytest.mark.parametrize(("partitions", "asked"), [(("files",), False), (("files", "column_stats"), True)])
    def test_indexes_are_looked_at_where_there_are_some(self, partitions, asked):
        verdict = self.verify(replace(state_with(), metadata_partitions=partitions), Verifier(result("pass")))
        assert (INDEXES in self.names(verdict)) is asked

    def test_a_verifier_that_runs_anyway_looks_at_them_without_rows(self):
        state = replace(state_with(), metadata_partitions=("files", "column_stats"))
        running = Verifier(wrongly_indexed=("p/f1.parquet: no statistics",))
        verdict = verify_table(evidence(state), (), "logs", lambda: None, running)
        assert verdict.status == "fail"
        assert "no statistics" in verdict.failures
        assert verify_table(evidence(state), (), "metadata", lambda: None, running).status == "pass"

    @pytest.mark.parametrize(
        ("changes", "why"),
        [
            ({}, None),
            ({"last_compaction": None}, "etc has compacted nothing yet"),
            ({"last_compaction": cut({"strategy.granularity": "log_file"})}, "the last compaction was not by record"),
            ({"earliest_commit_to_retain": SEEN}, f"keeps what readers need as of {SEEN} and later"),
            ({"earliest_commit_to_retain": instant("11:29:59")}, None),
            ({"instants": (CLEAN,)}, f"the clean at {CLEAN.requested} may have removed files"),
            ({"instants": (CLEAN,), "earliest_commit_to_retain": instant("11:00:00")}, None),
            ({"instants": (replace(CLEAN, action="deltacommit", state="inflight", requested=instant("11:20:00")),)}, "not ended"),
        ],
    )  # fmt: skip
    def test_a_cut_whose_files_may_be_gone_is_not_compared_and_said_to_be_so(self, changes, why):
        state = replace(state_with(), **{"last_compaction": cut({"strategy.granularity": "record"}), **changes})
        verdict = self.verify(state, Verifier(*[result("pass")] * (1 if why else 2)), suite=({"type": AS_OF}, ROWS))
        said = [one.message for one in verdict.expectations if one.expectation == AS_OF]
        assert (bool(said), verdict.status) == (bool(why), "warn" if why else "pass")
        assert not why or why in said[0]

    def test_rows_that_later_ones_hide_are_a_warning(self):
        hidden = ExpectationResult(expectation=AS_OF, status="pass", observed={"hidden_by_later_rows": 2})
        state = replace(state_with(), last_compaction=cut({"strategy.granularity": "record"}))
        verdict = self.verify(state, Verifier(hidden), suite=({"type": AS_OF},))
        assert verdict.status == "warn"
        assert "2 rows up to T have a later row of the same key" in verdict.failures

    @pytest.mark.parametrize(("status", "told"), [("pass", "warn"), ("fail", "fail")])
    def test_rows_without_an_event_time_that_wait_are_a_warning(self, status, told):
        observed = {WAITING: 1, "null_event_times_not_in_ro": int(status == "fail")}
        waiting = ExpectationResult(expectation=BOUNDS, status=status, observed=observed)
        verdict = self.verify(state_with(), Verifier(waiting), suite=({"type": BOUNDS},))
        assert verdict.status == told
        said = "1 row without an event time comes into RO once T has passed the rest of the log file"
        assert (said in verdict.failures) == (told == "warn")
        assert (BOUNDS in looked_at(verdict, "data", None, POLICY, state_with()).checks) == (told == "warn")

    def test_what_the_rows_are_asked(self):
        verifier = Verifier(result("pass"))
        late = "11:29:00 > 11:30:00.001, event 11:20:00"
        state = state_with("11:20:00 > 11:20:05, event 11:15:00", late, instants=["11:50:00, deltacommit, inflight"])
        state = replace(state, partition_fields=("p",))
        verdict = self.verify(state, verifier)
        (request,) = verifier.requests
        assert (verdict.level, verdict.status, verdict.late_rows) == ("data", "pass", 3)
        assert (request.threshold_ms, request.now_ms) == (T, NOW)
        assert request.pinned_instant == state.last_completed == instant("11:30:00.001")
        assert request.late_commits == {instant("11:29:00"), instant("11:50:00")}
        assert request.seen_until == SEEN
        assert request.open_groups == {("p", "f1")}
        assert request.waiting == {f"p/f1/{instant(at)}" for at in ("11:20:00", "11:29:00")}
        assert request.base_files == {file_slice.base_file for file_slice in state.slices}
        assert (request.complete_until_ms, request.watermark_ms) == (T, epoch_ms("11:15:00") - 1)
        assert request.last_commit_ms == epoch_ms("11:30:00.001")
        assert request.partition_fields == ("p",)
        assert (request.file_ids, request.since_ms, verdict.coverage) == (None, None, None)

    def test_a_late_commit_that_is_archived_is_late_all_the_same(self):
        verifier, state = Verifier(result("pass")), replace(state_with(), instants=(CLEAN,))
        ends = (instant("11:29:00"), instant("11:30:00.001")), (instant("11:28:00"), SEEN)
        commits = tuple(Commit(*one, "deltacommit", "UPSERT", (), archived=True) for one in ends)
        asked = replace(evidence(state), history=replace(history_of(), commits=commits))
        verify_table(asked, (ROWS,), "data", lambda: verifier)
        assert verifier.requests[0].late_commits == {instant("11:29:00"), CLEAN.requested}

    def test_buckets_with_one_file_id_in_every_partition_are_as_many_file_groups(self):
        state = state_with("11:20:00 > 11:20:05, event 11:15:00")
        bucket = next(one for one in state.slices if one.log_files)
        elsewhere = replace(bucket, partition="q", log_files=())
        state = replace(state, slices=(bucket, elsewhere))
        policy = POLICY.model_copy(update={"verify": Verify(level="sample", sample=Sample(share=1.0, seed=7))})
        verifier = Verifier(result("pass"))
        found = self.verify(state, verifier, policy=policy, level="sample").coverage
        assert (found.file_groups, found.file_groups_read) == (2, 2)
        assert verifier.requests[0].open_groups == {("p", "f1")}

    def test_a_sample_reads_whole_file_groups_and_says_which_share(self):
        verifier = Verifier(result("pass"))
        policy = POLICY.model_copy(update={"verify": Verify(sample=Sample(seed=7), window_ms=60_000, where="p = 'x'")})
        verdict = self.verify(state_with(), verifier, level="sample", policy=policy)
        (request,) = verifier.requests
        assert len(request.file_ids) == 1
        assert request.file_ids < {"f1", "f2"}
        assert request.since_ms == T - 60_000
        found = verdict.coverage
        assert (found.file_groups, found.file_groups_read, found.seed) == (2, 1, 7)
        assert (found.since_ms, found.where) == (T - 60_000, "p = 'x'")

    @pytest.mark.parametrize(
        ("statuses", "status"),
        [
            (["pass"], "pass"),
            (["pass", "warn"], "warn"),
            (["warn", "fail"], "fail"),
            (["fail", "error", "warn"], "error"),
        ],
    )
    def test_the_worst_expectation_decides(self, statuses, status):
        assert (
            self.verify(state_with(), Verifier(*map(result, statuses)), suite=(ROWS,) * len(statuses)).status == status
        )

    def test_good_rows_do_not_hide_what_the_metadata_refute(self):
        state = state_with("11:20:00 > 11:20:05, event 10:00:00")
        assert self.verify(state, Verifier(result("pass"))).status == "fail"

    def test_an_engine_that_fails_is_no_verdict(self):
        class Broken(Verifier):
            def check(self, request):
                raise EngineError("ETC300", "gone")

        with pytest.raises(EngineError):
            self.verify(state_with(), Broken())


def test_partitions_are_not_held_against_the_table_as_of_the_last_cut():
    """Which only a policy by record promises, and of files from before the compaction."""
    verifier = Verifier(result("pass"))
    assert compare_partitions(evidence(state_with()), verifier).status == "pass"
    asked = {one["type"] for one in verifier.requests[0].suite}
    assert AS_OF not in asked and VIEWS_AGREE in asked


class TestMergedWhole:
    """Which file groups are not held against the table as of T."""

    def found(self, *, deletes, split=(), since="08:00:00", granularity="record"):
        record = cut({"strategy.granularity": granularity})
        written = GroupWrite(instant("09:00:00"), instant("09:00:01"), "p", "f1", None, certain=False, rows=1)
        history = history_of([written._replace(requested=instant("08:00:00")), written._replace(has_deletes=deletes)])
        merged = written._replace(log_files=0, previous=instant(since))
        trace = {"partition": "p", "log_files": (), "merged": (), "remainder": "", "remainder_bytes": 0}
        extra = {SPLIT: json.dumps([{**trace, "file_id": one} for one in split])}
        commit = Commit(SEEN, SEEN, "commit", "COMPACT", (merged,), extra=extra)
        history = replace(history, commits=(*history.commits, commit))
        return merged_whole(replace(state_with(), last_compaction=record), history)

    def test_those_with_deletes_that_were_not_split(self):
        assert self.found(deletes=True) == {("p", "f1")}
        assert self.found(deletes=True, granularity="log_file") == self.found(deletes=True, split=("f1",)) == set()

    def test_not_those_without_deletes_whatever_the_run_did(self):
        assert self.found(deletes=False) == set()

    def test_those_of_which_writes_are_archived(self):
        assert self.found(deletes=False, since="07:59:59") == {("p", "f1")}


def verification(level, *names, coverage=None, unproven=0, logs="pass"):
    found = [ExpectationResult(expectation=name, status="pass", observed={"threshold_ms": T}) for name in names]
    if logs is not None:
        found.append(ExpectationResult(expectation=LOGS, status=logs, observed={"log_files_unproven": unproven}))
    return Verification(level=level, status="pass", threshold_ms=T, coverage=coverage, expectations=tuple(found))


def compared_until(threshold_ms, status="pass"):
    found = ExpectationResult(expectation=VIEWS_AGREE, status=status, observed={"threshold_ms": threshold_ms})
    whole = verification("data")
    return whole.model_copy(update={"status": status, "expectations": (found, *whole.expectations)})


SOME = Coverage(file_groups=9, file_groups_read=1)


@pytest.mark.parametrize(
    ("found", "level"),
    [
        (verification("data", VIEWS_AGREE), "data"),
        (verification("data", VIEWS_AGREE, unproven=1), "data"),
        (compared_until(T + 1), "data"),
        (compared_until(T - 1), "logs"),  # what lies between was not compared
        (compared_until(T, "warn"), "logs"),
        (verification("data", VIEWS_AGREE, logs=None), "data"),
        (verification("data", "expect_column_values_to_not_be_null"), "logs"),  # nothing compared the views
        (verification("data", VIEWS_AGREE, coverage=SOME), "sample"),
        (verification("sample", VIEWS_AGREE, coverage=SOME), "sample"),
        (verification("sample", VIEWS_AGREE, coverage=SOME, unproven=1), "metadata"),
        (verification("logs"), "logs"),
        (verification("metadata", unproven=1, logs="warn"), "metadata"),
        (verification("metadata", logs=None), "metadata"),
    ],
)
def test_what_a_verification_proves_of_completeness(found, level):
    assert proof_level(found) == level
