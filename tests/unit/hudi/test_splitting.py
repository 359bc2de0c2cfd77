"""Log files that are split by record before a plan is published: made, checked, read back and removed without Spark."""

import io
import json
from dataclasses import replace
from datetime import UTC

import pytest

from etc_policy.errors import EngineError, EtcError, TableError
from etc_policy.hudi import log_split
from etc_policy.hudi.block_times import TimesWanted, read_times
from etc_policy.hudi.log_times import fill_from_logs
from etc_policy.hudi.table import FileTableReader
from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.commit_metadata import withdrawn_metadata
from etc_policy.plan.model import SplitInput
from etc_policy.plan.split import SPLIT, SPLIT_FOLDER, extract_path, merged_paths, split_text
from etc_policy.policy.manifest import EventTime, Policy, Strategy, Writer
from etc_policy.policy.project_schema import StorageSettings
from etc_policy.run.carrying import require_carried
from etc_policy.run.ports import Job
from etc_policy.run.splitting import split_files
from etc_policy.run.table_files import HudiFiles
from etc_policy.spark.plan_files import remove_plan
from etc_policy.storage.local import LocalStorage
from etc_policy.storage.open_storage import use_storage_settings
from etc_policy.table.history import POLICY_VALUES
from etc_policy.table.instants import instant_to_ms
from tests.unit.hudi.log_file import AVRO, CORRUPT, INSTANT, avro, block, deletes
from tests.unit.hudi.reading import OURS, read
from tests.unit.hudi.table_folder import (
    COMMIT_SCHEMA,
    TableFolder,
    archived,
    at,
    base,
    commit_metadata,
    log,
    operation,
)

B, C, DONE = at("00:00:00"), at("02:00:00"), at("10:00:06")
INSTANTS = [at(f"01:00:0{number}") for number in range(3)]
NAMES = [f".f1_{instant}.log.1_0-1-0" for instant in INSTANTS]
REMAINDER = f".f1_{C}.log.0_100000-0-0"
#: T is 1000 ms after 1970: the first file is wholly before it, the second on both sides, the third after it.
TIMES = ([900, 1000], [800, 1001, 1000, 2000], [3000])
COMPACTED_TIMES = 4
#: Three days after the commits, more than `max_ahead` allows.
AHEAD = 1_767_225_600_000 + 3 * 86_400_000
EVENT_TIME = EventTime(column="ts", unit="ms")


def content(times):
    return avro(times, ts="long")


def table_in(folder, times=TIMES, partition="p"):
    table = TableFolder(folder)
    table.commit(B, B, base("f1", partition=partition))
    for instant, of_file in zip(INSTANTS, times, strict=True):
        data = of_file if isinstance(of_file, bytes) else content(of_file)
        table.commit(instant, instant, log("f1", partition=partition, size=len(data)))
        (table.base / partition / f".f1_{instant}.log.1_0-1-0").write_bytes(data)
    return table


@pytest.fixture
def table(tmp_path):
    return table_in(tmp_path / "t")


def job_of(table, partition="p"):
    policy = Policy(
        name="p",
        table=str(table.base),
        event_time=EVENT_TIME,
        data_latency_ms=1,
        strategy=Strategy(granularity="record"),
        writer=Writer(compaction="none"),
    )
    one = operation("f1", base("f1").name(B), *NAMES, partition=partition)
    one = one.model_copy(update={"remainder": REMAINDER, "straddling": tuple(NAMES)})
    return Job(policy, str(table.base), 9, (), C, (one,), OURS)


def split(table, **rest):
    return HudiFiles().split(job_of(table, **rest), read(table, EVENT_TIME))


def published(table):
    job = split(table)
    table.plan(C, job.extra_metadata, *job.operations)
    return job


def files(table):
    return {str(path.relative_to(table.base)): path.read_bytes() for path in table.base.rglob("*") if path.is_file()}


def times(data):
    return read_times(io.BytesIO(data), len(data), TimesWanted(EVENT_TIME, "long", ("ts",)))


def test_nothing_is_split_from_behind_a_link(table, tmp_path):
    """A writer may link to a file that only etc may read; what is split of it would be for all to read."""
    target = table.base / "p" / NAMES[1]
    target.replace(tmp_path / "private")
    target.symlink_to(tmp_path / "private")
    before = files(table)
    with pytest.raises(EtcError) as error:
        split(table)
    assert error.value.code == "ETC442"
    assert files(table) == before


@pytest.mark.parametrize("partition", ["p", "a=1/b=2", ""])
def test_each_slice_is_split_at_the_threshold(tmp_path, partition):
    table = table_in(tmp_path / "t", partition=partition)
    before = files(table)
    job = split(table, partition=partition)
    (one,) = job.operations
    extract = f"{SPLIT_FOLDER}/{C}/{partition}/{NAMES[1]}".replace("//", "/")
    up = {"p": "../", "a=1/b=2": "../../", "": ""}[partition]
    assert merged_paths(one) == (NAMES[0], up + extract)
    made = {path: data for path, data in files(table).items() if path not in before}
    assert {path: (times(data).min_ms, times(data).max_ms) for path, data in made.items()} == {
        extract: (800, 1000),
        f"{partition}/{REMAINDER}".lstrip("/"): (1001, 3000),
    }
    assert one.split.remainder_bytes == len(made[f"{partition}/{REMAINDER}".lstrip("/")])
    require_carried(job)
    assert HudiFiles().missing_files(job) == ()
    HudiFiles().discard_split(job)
    assert files(table) == before


def test_a_table_in_a_bucket_is_split_alike(table, s3_server):
    use_storage_settings(StorageSettings(endpoint=s3_server.endpoint))
    bucket = s3_server.make_bucket()
    location = s3_server.upload(table.base, bucket, "t")
    before = s3_server.keys(bucket)
    job = replace(job_of(table), base_path=location)
    job = HudiFiles().split(job, FileTableReader().read(location, EVENT_TIME))
    require_carried(job)
    assert job.operations == split(table).operations
    in_bucket = {key.removeprefix("t/"): s3_server.content(bucket, key) for key in s3_server.keys(bucket)}
    assert in_bucket == {path: data for path, data in files(table).items() if "draft" not in path}
    HudiFiles().discard_split(job)
    assert s3_server.keys(bucket) == before


def test_what_is_known_to_hold_nothing_after_the_threshold_is_not_read(table):
    job = job_of(table)
    (one,) = job.operations
    known = replace(job, operations=(one.model_copy(update={"straddling": tuple(NAMES[1:])}),))
    (table.base / "p" / NAMES[0]).write_bytes(b"not read")
    assert merged_paths(HudiFiles().split(known, read(table, EVENT_TIME)).operations[0])[0] == NAMES[0]


def test_a_slice_with_nothing_up_to_the_threshold_merges_an_empty_file(tmp_path):
    table = table_in(tmp_path / "t", ([2000], [3000], [4000]))
    (one,) = split(table).operations
    assert one.split.inputs == (SplitInput(name=NAMES[0], extract_bytes=0),)
    assert (table.base / extract_path(one, NAMES[0])).read_bytes() == b""


def test_a_slice_with_nothing_after_the_threshold_is_merged_as_it_is(tmp_path):
    table = table_in(tmp_path / "t", ([1], [2], [3]))
    before = files(table)
    (one,) = split(table).operations
    assert (merged_paths(one), one.added_log_files, files(table)) == (tuple(NAMES), (), before)


class TestLogCompaction:
    """Its log file holds again what others hold: it is left out, and their rows are split."""

    def table(self, folder, *repeated):
        data = [avro(times, ts="long", header={INSTANT: at}) for times, at in zip(TIMES[:2], INSTANTS, strict=False)]
        again = avro([900, 2000], ts="long", header={INSTANT: INSTANTS[2], COMPACTED_TIMES: ",".join(repeated)})
        return table_in(folder, (*data, again))

    def test_rows_that_are_in_files_beside_it_are_merged_from_there(self, tmp_path):
        (one,) = split(table := self.table(tmp_path / "t", *INSTANTS[:2])).operations
        assert [each.name for each in one.split.inputs] == NAMES[:2]
        assert times((table.base / "p" / REMAINDER).read_bytes()).max_ms == 2000

    def test_where_one_of_them_is_gone_it_is_refused(self, tmp_path):
        with pytest.raises(EngineError, match="a log compaction wrote it, and not all that it repeats") as error:
            split(self.table(tmp_path / "t", INSTANTS[0], "20260101003000000"))
        assert error.value.code == "ETC323"


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (content([900])[:-1], "damaged"),
        (deletes((3, 900), ts="long"), "a delete block"),
        (content([900, None]), "a row without an event time"),
        (block(CORRUPT, b"?"), "a corrupt block"),
        (block(AVRO, content([900]), version=2), "damaged: another format version"),
        (avro([900], ts="long", version=9), "another version of data block"),
    ],
)
def test_nothing_is_left_of_a_split_that_is_refused(tmp_path, fault, why):
    table = table_in(tmp_path / "t", ([2000], [900, 2000], fault))
    before = files(table)
    with pytest.raises(EngineError, match=why) as error:
        split(table)
    assert (error.value.code, NAMES[2] in error.value.message, files(table)) == ("ETC323", True, before)


def test_a_log_file_above_2_gib_is_refused_before_it_is_read(table):
    with (table.base / "p" / NAMES[1]).open("r+b") as file:
        file.truncate((2 << 30) + 1)  # sparse
    before = [path.name for path in (table.base / "p").iterdir()]
    with pytest.raises(EngineError, match="larger than 2 GiB") as error:
        split(table)
    assert (error.value.code, NAMES[1] in error.value.message) == ("ETC323", True)
    assert [path.name for path in (table.base / "p").iterdir()] == before


def test_a_remainder_that_no_later_run_could_split_is_not_made(table, monkeypatch):
    """Each log file is small enough, and the rows after T of all of them are not."""
    monkeypatch.setattr(log_split, "MAX_LOG_BYTES", max(len(content(times)) for times in TIMES) + 1)
    before = files(table)
    with pytest.raises(EngineError, match="cannot be split by record: its rows after T") as error:
        split(table)
    assert (error.value.code, files(table)) == ("ETC323", before)


def test_what_a_killed_split_has_left_is_in_nobodys_way(table):
    split(table)
    (table.base / "p" / REMAINDER).write_bytes(b"half")
    (table.base / SPLIT_FOLDER / "draft").write_bytes(b"half")
    (table.base / SPLIT_FOLDER / at("01:30:00") / "p").mkdir(parents=True)
    job = split(table)
    require_carried(job)
    assert sorted(path.name for path in (table.base / SPLIT_FOLDER).iterdir()) == [C]


def test_a_pending_plan_is_read_as_it_was_split(table):
    job = published(table)
    state = read(table, EVENT_TIME)
    found = HudiFiles().pending_job(job.policy, state)
    assert (found.operations[0].log_files_compacted, found.operations[0].split) == (
        tuple(NAMES),
        job.operations[0].split,
    )
    assert (found.splits, found.operations[0].remainder, state.orphans) == (True, REMAINDER, ())
    assert [one.log_files for one in state.slices] == [one.log_files for one in read(table, EVENT_TIME).slices]


@pytest.mark.parametrize("gone", [f"p/{REMAINDER}", f"{SPLIT_FOLDER}/{C}/p/{NAMES[1]}"])
def test_what_is_gone_or_altered_is_noticed(table, gone):
    job = published(table)
    with (table.base / gone).open("ab") as file:
        file.write(b"x")
    with pytest.raises(EngineError) as error:
        require_carried(job)
    assert error.value.code == "ETC319"
    (table.base / gone).unlink()
    assert HudiFiles().missing_files(job) == (gone,)


def test_a_plan_is_spoiled_where_what_was_split_is_not_as_it_was_made(table):
    """As where a run that had stalled splits on while another one publishes: `etc apply` plans anew."""
    job = published(table)
    (table.base / "p" / REMAINDER).write_bytes(b"another")
    assert HudiFiles().missing_files(job) == (f"p/{REMAINDER}",)


class TestTakenOver:
    """A run that stalls while it splits, for longer than its lease: another one plans the same C meanwhile."""

    def test_nothing_is_split_for_a_plan_that_is_published(self, table):
        published(table)
        before = files(table)
        with pytest.raises(EngineError, match="another run has published the compaction") as error:
            split(table)
        assert (error.value.code, files(table)) == ("ETC307", before)

    @pytest.mark.parametrize("done", [False, True])
    def test_what_the_other_one_has_split_stays(self, table, monkeypatch, done):
        opened, made = LocalStorage.open, {}

        def stalled(storage, path):
            if path == f"p/{NAMES[1]}" and not made:
                made["begun"] = b""
                made.update({path: (table.base / path).read_bytes() for path, _ in split_files(published(table))})
                if done:
                    (commit,) = table.timeline.glob(f"{INSTANTS[0]}_*")
                    table.file(C, f"_{DONE}.commit", commit.read_bytes())
            return opened(storage, path)

        monkeypatch.setattr(LocalStorage, "open", stalled)
        with pytest.raises(EngineError, match="another run has published the compaction"):
            split(table)
        needed = {f"p/{REMAINDER}"} if done else made.keys() - {"begun"}
        assert {path: files(table).get(path) for path in needed} == {path: made[path] for path in needed}

    def test_nothing_is_left_where_the_other_one_has_withdrawn_its_plan(self, table, monkeypatch):
        """C is completed then, so that a remainder would count."""
        before, opened, ended = files(table), LocalStorage.open, []

        def stalled(storage, path):
            if path == f"p/{NAMES[1]}" and not ended:
                ended.append(path)
                for made, _ in split_files(published(table)):
                    (table.base / made).unlink()
                table.complete(
                    C, DONE, "commit", COMMIT_SCHEMA, commit_metadata(C, (), withdrawn_metadata(), "COMPACT")
                )
            return opened(storage, path)

        monkeypatch.setattr(LocalStorage, "open", stalled)
        with pytest.raises(EngineError, match="another run has published the compaction"):
            split(table)
        assert {path for path in files(table) if C not in path.partition("timeline/")[2]} == before.keys()


def test_a_plan_that_is_taken_back_takes_what_was_split(table):
    before = files(table)
    remove_plan(published(table))
    assert files(table) == before
    assert not (table.base / SPLIT_FOLDER / C).exists()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (f'"{REMAINDER}"', f'".f2_{C}.log.0_100000-0-0"'),
        (f'"{REMAINDER}"', f'".f1_{C}.log.1_0-1-0"'),
        (f'"{REMAINDER}"', '"../x"'),
        (f'"{NAMES[0]}","extract_bytes":null', f'"{NAMES[0]}","extract_bytes":3'),
        (f'"name":"{NAMES[0]}"', '"name":"x"'),
        (f'["{NAMES[0]}"', '["x"'),
        ('"file_id":"f1"', '"file_id":"f2"'),
        ("merged", "nothing"),
        ("[{", "{"),
        ("[{", "[1,{"),
        ("[{", "[{},{"),
    ],
)
def test_a_trace_that_etc_did_not_write_is_an_error_of_the_table(table, old, new):
    job = split(table)
    text = split_text(job.operations)
    assert old in text
    table.plan(C, {**OURS, SPLIT: text.replace(old, new)}, *job.operations)
    with pytest.raises(TableError):
        HudiFiles().pending_job(job.policy, read(table, EVENT_TIME))


class TestCompleted:
    def compacted(self, table, *added):
        job = split(table)
        made = {path: (table.base / path).read_bytes() for path, _ in split_files(job)}
        extra = {**job.extra_metadata}
        table.compaction(C, DONE, base("f1"), *added, extra=extra, plan_extra=extra)
        for path, data in made.items():  # the test's table has written over the remainder
            (table.base / path).write_bytes(data)
        return job

    def test_the_rows_after_the_threshold_are_a_log_file_of_the_new_slice(self, table):
        size = split(table).operations[0].split.remainder_bytes
        job = self.compacted(table, log("f1", version=0, token="100000-0-0", size=size))
        state = read(table, EVENT_TIME)
        (one,) = state.slices
        (left,) = one.log_files
        assert (one.base_instant, left.name, left.completed) == (C, REMAINDER, DONE)
        assert (left.has_deletes, left.seen_event_time_ms, left.rows_since) == (False, 1001, None)
        assert (state.uncarried, state.orphans, state.missing_files) == (None, (), ())
        HudiFiles().discard_split(job)
        assert (table.base / "p" / REMAINDER).exists()
        assert not (table.base / SPLIT_FOLDER / C).exists()

    @pytest.mark.parametrize("later", [[3000, AHEAD], [AHEAD]])
    def test_a_row_that_is_too_far_ahead_is_not_split_off_again(self, tmp_path, later):
        """Its time cannot be true, and it is after T all the same: that is how it came into this file."""
        table = table_in(tmp_path / "t", ([900], [1000], later))
        size = split(table).operations[0].split.remainder_bytes
        job = self.compacted(table, log("f1", version=0, token="100000-0-0", size=size))
        state = fill_from_logs(read(table, EVENT_TIME), job.policy, None)
        (left,) = state.slices[0].log_files
        assert (left.name, left.min_event_time_ms, left.max_event_time_ms) == (REMAINDER, later[0], AHEAD)
        plan = build_table_plan(job.policy, state, now_ms=2000, clock_ms=instant_to_ms(DONE, UTC) + 60_000)
        assert (plan.reason_code, plan.warnings) == ("nothing_due", ())

    def test_a_threshold_of_another_column_bounds_nothing(self, table):
        values = json.dumps({"event_time_column.column": "ts", "event_time_column.unit": "us"})
        extra = {**split(table).extra_metadata, POLICY_VALUES: values}
        table.compaction(C, DONE, base("f1"), log("f1", version=0, token="100000-0-0"), extra=extra, plan_extra=extra)
        (left,) = read(table, EVENT_TIME).slices[0].log_files
        assert (left.name, left.seen_event_time_ms, left.may_hold_anything) == (REMAINDER, None, True)

    def test_the_commit_must_record_them(self, table):
        self.compacted(table)
        assert read(table, EVENT_TIME).uncarried == C
        table.commit(at("12:00:00"), at("12:00:01"), log("f1"))
        while (table.timeline / f"{C}_{DONE}.commit").exists():
            table.archive_first(1)
        assert read(table, EVENT_TIME).uncarried == C

    @pytest.mark.parametrize(("extra", "found"), [({}, C), (withdrawn_metadata(), None), (OURS, None)])
    def test_a_compaction_by_others_is_known(self, table, extra, found):
        table.compaction(C, DONE, base("f1"), extra=extra)
        assert read(table, EVENT_TIME).foreign_compaction == found


def test_without_its_plan_it_is_seen_and_removed(table):
    before = files(table)
    split(table)
    state = read(table, EVENT_TIME)
    assert state.orphans == (f"p/{REMAINDER}",)
    HudiFiles().remove_orphans(state)
    assert {path for path in files(table) if SPLIT_FOLDER not in path} == before.keys()
    assert read(table, EVENT_TIME).orphans == ()


class TestArchived:
    """Hudi takes an instant before the active timeline for completed, whether it ever was (facts: split-orphan)."""

    @pytest.fixture
    def archive(self, table):
        """Archives all that the table has, and more at C where that is asked for."""

        def archive(*more):
            whole = [archived(B, B, base("f1")), *(archived(one, one, log("f1")) for one in INSTANTS)]
            for file in table.timeline.iterdir():
                file.unlink()
            table.archive(*whole, *more)
            table.commit(at("03:00:00"), at("03:00:01"), log("f2"))

        return archive

    def test_what_a_killed_run_has_split_off_is_still_seen_and_removed(self, table, archive):
        split(table)
        archive()
        state = read(table, EVENT_TIME)
        assert state.orphans == (f"p/{REMAINDER}",)
        assert [one.name for one in state.slices[0].log_files] == NAMES
        HudiFiles().remove_orphans(state)
        assert not (table.base / "p" / REMAINDER).exists()

    def test_what_a_compaction_has_split_off_stays(self, table, archive):
        split(table)
        archive(archived(C, DONE, base("f1"), log("f1", version=0, token="100000-0-0"), action="commit"))
        state = read(table, EVENT_TIME)
        assert (state.orphans, [one.name for one in state.slices[0].log_files][-1]) == ((), REMAINDER)

    @pytest.mark.parametrize(
        ("unit", "found"), [("ms", (1001, False)), ("us", (None, True))], ids=["bounded", "by another column"]
    )
    def test_it_is_bounded_by_what_the_plan_of_that_knew(self, table, archive, unit, found):
        """Its rows came before C, so that the latency promises nothing of what is after T."""
        split(table)
        values = json.dumps({"event_time_column.column": "ts", "event_time_column.unit": "ms"})
        extra = {**OURS, POLICY_VALUES: values, SPLIT: "[]"}
        remainder = log("f1", version=0, token="100000-0-0")
        archive(archived(C, DONE, base("f1"), remainder, action="commit", extra=extra))
        left = read(table, EventTime(column="ts", unit=unit)).slices[0].log_files[-1]
        assert (left.name, left.seen_event_time_ms, left.may_hold_anything) == (REMAINDER, *found)

    def test_nor_is_it_removed_where_the_archive_does_not_reach_back(self, table, archive):
        split(table)
        archive()
        table.archive(archived(at("02:30:00"), at("02:30:01"), log("f2")), manifest=2)
        assert read(table, EVENT_TIME).orphans == ()


def test_extracts_that_a_run_has_left_are_seen_and_removed(table):
    before = files(table)
    assert not HudiFiles().has_left_split(str(table.base))
    split(table)
    assert HudiFiles().has_left_split(str(table.base))
    HudiFiles().discard_left(str(table.base))
    assert files(table).keys() - before.keys() == {f"p/{REMAINDER}"}
    assert not HudiFiles().has_left_split(str(table.base))
