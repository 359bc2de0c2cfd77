from dataclasses import replace

import pytest

from etc_policy.plan.clock import EngineTime, ahead_of_clock, completes_too_early, engine_disagrees
from etc_policy.plan.rules import Moment, facts_of_plan, first_objection
from etc_policy.table.zone_evidence import ZoneReading, ZoneSample, judge_zone
from tests.unit.plan.plan_cases import epoch_ms, instant
from tests.unit.plan.states import NOW, PLAN, POLICY, STATE, C


def clock_refusal(policy, plan, state, clock_ms):
    return first_objection(Moment.PUBLISH, facts_of_plan(policy, plan, state, clock_ms))


def engine(clock, now="12:00:00", took=0):
    return EngineTime(instant(clock), epoch_ms(now), epoch_ms(now) + took)


class TestTheEngine:
    @pytest.mark.parametrize("clock", ["12:00:00", "12:00:00.200", "11:59:59.800"])
    def test_within_the_skew(self, clock):
        assert engine_disagrees(engine(clock), "UTC", 200) is None

    @pytest.mark.parametrize("clock", ["12:00:00.201", "11:59:59.799", "04:00:00", "21:00:00"])
    def test_beyond_it(self, clock):
        trouble = engine_disagrees(engine(clock), "UTC", 200)
        assert trouble == (
            f"Hudi would write {instant(clock)} as the time now, and in the table's zone (UTC) it is 20260101120000000"
        )

    def test_an_answer_that_takes_long_says_less(self):
        assert engine_disagrees(engine("12:00:03", took=3_000), "UTC", 0) is None

    def test_the_hour_that_comes_twice(self):
        first, second = 1_792_886_400_000 + 1_800_000, 1_792_886_400_000 + 5_400_000  # 00:30 and 01:30 UTC: both 02:30
        for now in (first, second):
            assert engine_disagrees(EngineTime("20261025023000000", now, now), "Europe/Paris", 0) is None


class TestTheCommit:
    def test_after_its_instant(self):
        assert completes_too_early(C, engine("12:00:00"), STATE.last_completed) is None

    @pytest.mark.parametrize("completed", ["10:10:05.001", "10:10:05.002", "04:00:00"])
    def test_not_after_its_instant(self, completed):
        early = completes_too_early(instant("10:10:05.002"), engine(completed), None)
        assert "which is not after its own instant 20260101101005002" in early

    def test_far_behind_the_last_commit(self):
        early = completes_too_early(C, engine("11:00:00"), instant("11:01:00.001"))
        assert "the table's last instant completed at 20260101110100001" in early
        assert completes_too_early(C, engine("11:00:00"), instant("11:01:00")) is None


class TestASavedPlan:
    def test_fits(self):
        assert clock_refusal(POLICY, PLAN, STATE, NOW) is None

    def test_the_clock_was_set_back(self):
        assert clock_refusal(POLICY, PLAN, STATE, epoch_ms("11:10:00")).code == "clock_behind"

    def test_of_a_table_that_declares_utc_no_zone_is_advised(self):
        early = epoch_ms("11:10:00")
        declared = clock_refusal(POLICY, PLAN, replace(STATE, zone=ZoneReading("UTC")), early)
        local = clock_refusal(POLICY, PLAN, replace(STATE, zone=ZoneReading("UTC", "unsure")), early)
        assert ("changes nothing" in declared.hint, "set to theirs" in local.hint) == (True, True)

    def test_the_zone_has_changed(self):
        refusal = clock_refusal(POLICY, PLAN, replace(STATE, timezone="Asia/Tokyo"), NOW)
        assert (refusal.code, "in zone UTC, and here they are read in Asia/Tokyo" in refusal.reason) == (
            "zone_changed",
            True,
        )

    def test_another_name_of_the_same_zone(self):
        assert clock_refusal(POLICY, PLAN, replace(STATE, timezone="Etc/UTC"), NOW) is None

    def test_writers_elsewhere(self):
        reading = ZoneReading("UTC", "contradicted", "its writers' clocks show another zone: ...")
        assert clock_refusal(POLICY, PLAN, replace(STATE, zone=reading), NOW).code == "writers_zone"

    def test_made_in_the_future(self):
        assert ahead_of_clock(NOW + 60_000, NOW) is None
        assert ahead_of_clock(NOW - 10**9, NOW) is None
        assert "10m ahead of this machine's clock" in ahead_of_clock(NOW + 600_000, NOW)


class TestTheWritersZone:
    def test_nothing_to_tell_it_by(self):
        assert judge_zone("UTC", []).certainty == "unsure"

    def test_the_evidence_names_an_instant_its_file_and_the_offset(self):
        samples = [ZoneSample(instant(f"21:0{n}:00"), epoch_ms(f"12:0{n}:00.300")) for n in range(4)]
        reading = judge_zone("UTC", samples)
        assert (reading.certainty, reading.evidence) == (
            "contradicted",
            "its writers' clocks show another zone: 20260101210300000 was written at 2026-01-01 12:03:00.300 UTC (UTC+09:00)",
        )

    def test_two_zones(self):
        clocks = (
            ("12:00:00", "12:00:00"),
            ("04:05:00", "12:05:00"),
            ("12:10:00", "12:10:00"),
            ("04:15:00", "12:15:00"),
        )
        reading = judge_zone("UTC", [ZoneSample(instant(name), epoch_ms(time)) for name, time in clocks])
        assert reading.evidence.startswith(
            "its instants go back and forth between two zones: 20260101121000000 was written"
        )
        assert reading.evidence.endswith("20260101041500000 was written at 2026-01-01 12:15:00 UTC (UTC-08:00)")

    def test_a_few_files_that_were_written_later_do_not_matter(self):
        samples = [ZoneSample(instant(f"12:{n:02}:00"), epoch_ms(f"12:{n:02}:01")) for n in range(20)]
        reading = judge_zone("UTC", [*samples, ZoneSample(instant("10:00:00"), epoch_ms("12:20:00"))])
        assert (reading.certainty, reading.evidence) == (
            "confirmed",
            "its last 20 instants agree with the times of their files",
        )
