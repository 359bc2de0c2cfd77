"""Files that are carried into the slice that a plan begins, on table version 6: made, checked and removed without Spark."""

import os
from dataclasses import replace
from types import SimpleNamespace

import pytest

from etc_policy.errors import EngineError, TableError
from etc_policy.plan.carry import CARRIED, carried_text
from etc_policy.plan.model import CarriedFile
from etc_policy.policy.manifest import EventTime, Policy, Strategy
from etc_policy.run.carrying import carry_files, require_carried
from etc_policy.run.ports import Job
from etc_policy.run.table_files import HudiFiles
from etc_policy.spark.compactor import HudiCompactor
from etc_policy.storage.safe_files import copy_draft
from tests.unit.hudi.reading import OURS, read
from tests.unit.hudi.table_folder import TableFolder, at, base, log, operation

B, C, LATER = at("00:00:00"), at("10:00:06"), at("10:00:07")
NAMES = [f".f1_{C}.log.0_10000{place}-0-0" for place in range(2)]


@pytest.fixture
def table(tmp_path):
    """Three log files lie on a base file; the first is compacted."""
    table = TableFolder(tmp_path / "t", version=6)
    table.commit(B, B, base("f1"))
    for version in (1, 2, 3):
        table.commit(at(f"01:00:0{version}"), "", log("f1", base_instant=B, version=version, size=10 * version))
    return table


@pytest.fixture
def compactor():
    return HudiCompactor(SimpleNamespace(_jvm=None))


def job_of(table, carry="auto", **changes):
    policy = Policy(
        name="p",
        table=str(table.base),
        event_time=EventTime(column="ts"),
        data_latency_ms=1,
        strategy=Strategy(granularity="log_file", carry=carry),
    )
    targets = [log("f1", base_instant=B, version=version).name(B) for version in (1, 2, 3)]
    carried = tuple(
        CarriedFile(name=name, target=target, size_bytes=size)
        for name, target, size in zip(NAMES, targets[1:], (20, 30), strict=True)
    )
    one = operation("f1", base("f1").name(B), targets[0]).model_copy(update={"carried": carried, **changes})
    extra = {**OURS, CARRIED: carried_text((one,))}
    return Job(policy, str(table.base), 6, (), C, (one,), extra)


def files(table):
    return {str(path.relative_to(table.base)): path.stat().st_size for path in table.base.rglob("*") if path.is_file()}


def published(table, **rest):
    job = job_of(table, **rest)
    table.plan(C, job.extra_metadata, *job.operations)
    return job


@pytest.mark.parametrize("carry", ["auto", "hard_link", "copy"])
def test_all_are_carried_and_again_after_a_kill(table, carry):
    job = published(table, carry=carry)
    carry_files(job)
    folder = table.base / "p"
    assert [(folder / name).read_bytes() for name in NAMES] == [b"x" * 20, b"x" * 30]
    assert {os.stat(folder / name).st_nlink for name in NAMES} == {1 if carry == "copy" else 2}
    require_carried(job)
    whole = files(table)
    (folder / NAMES[0]).unlink()
    if carry == "copy":
        (folder / NAMES[1]).write_bytes(b"x" * 29)
        (folder / copy_draft(NAMES[0])).write_bytes(b"half")
    with pytest.raises(EngineError, match=f"`p/{NAMES[0]}` is gone") as error:
        require_carried(job)
    assert error.value.code == "ETC319"
    carry_files(job)
    assert files(table) == whole


@pytest.mark.parametrize("carry", ["auto", "copy"])
def test_nothing_is_carried_from_behind_a_link(table, tmp_path, carry):
    """A writer may link to a file that only etc may read; its copy would be one that all read."""
    job = published(table, carry=carry)
    target = table.base / "p" / job.operations[0].carried[0].target
    target.replace(tmp_path / "private")
    target.symlink_to(tmp_path / "private")
    before = files(table)
    with pytest.raises(EngineError) as error:
        carry_files(job)
    assert error.value.code == "ETC442"
    assert files(table) == before


def test_one_that_somebody_has_written_to_is_not_made_anew(table):
    job = published(table, carry="copy")
    carry_files(job)
    (table.base / "p" / NAMES[1]).write_bytes(b"x" * 40)
    for check in (carry_files, require_carried):
        with pytest.raises(EngineError, match=f"`p/{NAMES[1]}` is 40 bytes long; 30 bytes were carried") as error:
            check(job)
        assert (error.value.code, error.value.exit_code) == ("ETC319", 3)
        assert "`etc apply`" not in error.value.hint
        assert "stop writers and cleaning, and leave it" in error.value.hint


@pytest.mark.parametrize(("size", "state"), [(None, "gone"), (31, "31 bytes long")])
def test_a_target_that_is_not_as_planned_is_not_carried(table, size, state):
    job = published(table)
    target = table.base / "p" / job.operations[0].carried[1].target
    target.unlink() if size is None else target.write_bytes(b"x" * size)
    with pytest.raises(EngineError, match=f"30 bytes long when the compaction was planned, and is {state}"):
        carry_files(job)
    assert not (table.base / "p" / NAMES[1]).exists()


def test_a_file_system_without_links_is_an_error_only_where_the_policy_wants_them(table, monkeypatch):
    job = published(table, carry="hard_link")

    def refused(source, *_, **__):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr("etc_policy.storage.local.os.link", refused)
    with pytest.raises(EngineError, match="could not be carried") as error:
        carry_files(job)
    assert (error.value.code, "carry: auto" in error.value.hint) == ("ETC318", True)
    carry_files(
        replace(job, policy=job.policy.model_copy(update={"strategy": Strategy(granularity="log_file", carry="auto")}))
    )
    require_carried(job)


@pytest.mark.parametrize("made", [0, 1, 2])
def test_a_plan_that_is_taken_back_takes_what_it_carried(table, compactor, made):
    before = files(table)
    job = published(table, carry="copy")
    carry_files(job)
    for name in NAMES[made:]:
        (table.base / "p" / name).rename(table.base / "p" / copy_draft(name))
    compactor.withdraw(job)
    assert files(table) == before


def test_a_plan_to_whose_slice_a_writer_has_added_stays(table, compactor):
    job = published(table)
    carry_files(job)
    table.commit(LATER, "", log("f1", base_instant=C))
    before = files(table)
    with pytest.raises(EngineError, match=r"log\.1_0-1-0 was written since the plan") as error:
        compactor.withdraw(job)
    assert (error.value.code, files(table)) == ("ETC312", before)


def test_one_to_whose_carried_file_a_writer_has_added_can_be_neither_finished_nor_withdrawn(table, compactor):
    """So does Hudi 0.x where the store can append: no hint may lead back to the other command."""
    job = published(table, carry="copy")
    carry_files(job)
    (table.base / "p" / NAMES[1]).write_bytes(b"x" * 40)
    table.commit(LATER, "")
    with pytest.raises(EngineError) as error:
        compactor.withdraw(job)
    assert (error.value.code, "`etc apply`" in error.value.hint) == ("ETC312", False)
    assert "`etc explain ETC319`" in error.value.hint


def test_log_files_grow_where_two_commits_wrote_to_one(table):
    """On whatever path etc sees them: writers may reach a mounted store by another one."""
    assert not read(table).logs_grow
    table.commit(LATER, "", log("f1", base_instant=B, version=3, size=40))
    assert read(table).logs_grow


def test_a_pending_plan_is_read_with_what_it_carries(table):
    job = published(table)
    state = read(table)
    found = HudiFiles().pending_job(job.policy, state)
    assert found.operations[0].carried == job.operations[0].carried
    assert (found.carries, state.orphans) == (True, ())


@pytest.mark.parametrize(
    "pair",
    [
        {"name": f".f1_{C}.log.0_100000-0-0", "target": f"../.f1_{B}.log.2_0-1-0"},
        {"name": f".f1_{LATER}.log.0_100000-0-0", "target": f".f1_{B}.log.2_0-1-0"},
        {"name": f".f1_{C}.log.0_100000-0-0", "target": f".f2_{B}.log.2_0-1-0"},
        {"name": f".f1_{C}.log.0_100000-0-0", "target": f".f1_{LATER}.log.2_0-1-0"},
    ],
)
def test_a_plan_that_carries_other_files_is_not_one_of_etc(table, pair):
    one = CarriedFile(**pair, size_bytes=1)
    job = published(table, carried=(one,))
    with pytest.raises(TableError, match="it names the carried log files") as error:
        HudiFiles().pending_job(job.policy, read(table))
    assert error.value.code == "ETC245"


@pytest.mark.parametrize("text", ["{", "[1]", '[{"partition": "p", "name": "f", "target": "g", "size": 1}]'])
def test_a_trace_of_another_form_is_an_error_of_the_table(table, text):
    job = job_of(table)
    table.plan(C, {**OURS, CARRIED: text}, *job.operations)
    with pytest.raises(TableError):
        HudiFiles().pending_job(job.policy, read(table))


class TestOrphans:
    def test_without_their_plan_they_are_seen_and_removed(self, table):
        before = files(table)
        job = published(table)
        carry_files(job)
        (table.timeline / f"{C}.compaction.requested").unlink()
        state = read(table)
        assert state.orphans == tuple(f"p/{name}" for name in NAMES)
        HudiFiles().remove_orphans(state)
        assert files(table) == before
        assert read(table).orphans == ()

    def test_those_of_a_plan_that_came_meanwhile_stay(self, table):
        job = job_of(table)
        carry_files(job)
        state = read(table)
        published(table)
        HudiFiles().remove_orphans(state)
        require_carried(job)


class TestCompleted:
    def test_the_commit_must_record_what_the_plan_carries(self, table):
        extra = job_of(table).extra_metadata
        carried = [log("f1", base_instant=C, version=0, token=f"10000{place}-0-0") for place in range(2)]
        table.compaction(C, "", base("f1"), *carried[:1], extra=extra, plan_extra=extra)
        assert read(table).uncarried == C
        table.compaction(C, "", base("f1"), *carried, extra=extra, plan_extra=extra)
        assert (read(table).uncarried, read(table).foreign_compaction) == (None, None)

    @pytest.mark.parametrize("kind", ["COMPACT", "BULK_INSERT"])
    def test_a_compaction_by_others_is_known(self, table, kind):
        if kind == "COMPACT":
            table.compaction(C, "", base("f1"))
        else:
            table.commit(C, "", base("f1"), action="commit", kind=kind)
        assert read(table).foreign_compaction == (C if kind == "COMPACT" else None)


STRATEGY, PAYLOAD = "hoodie.record.merge.strategy.id", "hoodie.compaction.payload.class"
STRATEGY_OF_HUDI_0 = "hoodie.compaction.record.merger.strategy"
DEFAULT, LATEST = (
    f"org.apache.hudi.common.model.{name}" for name in ("DefaultHoodieRecordPayload", "OverwriteWithLatestAvroPayload")
)


@pytest.mark.parametrize(
    ("properties", "found"),
    [
        ({STRATEGY: "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"}, False),
        ({STRATEGY: "ce9acb64-bde0-424c-9b91-f6ebba25356d", PAYLOAD: LATEST}, False),
        ({STRATEGY: "00000000-0000-0000-0000-000000000000", PAYLOAD: DEFAULT}, True),
        ({}, True),
        ({PAYLOAD: DEFAULT}, False),
        ({PAYLOAD: DEFAULT, STRATEGY_OF_HUDI_0: "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"}, False),
        ({PAYLOAD: DEFAULT, STRATEGY_OF_HUDI_0: "00000000-0000-0000-0000-000000000000"}, True),
        ({PAYLOAD: LATEST}, True),
    ],
)
def test_how_rows_are_merged_is_known_from_what_hudi_records(tmp_path, properties, found):
    table = TableFolder(tmp_path / "t", version=6, properties=properties)
    table.commit(B, B, base("f1"))
    assert read(table).merges_otherwise == found
