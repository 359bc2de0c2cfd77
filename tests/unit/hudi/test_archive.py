import json
from importlib.metadata import PackageNotFoundError

import pytest

from etc_policy.errors import TableError
from etc_policy.hudi import archive, footers
from etc_policy.hudi.archive import Archive
from etc_policy.hudi.plan_file import encode_plan
from etc_policy.storage.open_storage import open_storage
from etc_policy.table.history import THRESHOLD
from tests.unit.hudi.log_file import with_small_footer
from tests.unit.hudi.reading import OURS, read, slices
from tests.unit.hudi.table_folder import COMMIT_SCHEMA, archived, at, avro, base, commit_metadata, log

OF_LAYOUT_2 = {"hoodie.timeline.layout.version": "2"}


class TestArchive:
    def test_archived_delta_commits_keep_completion_and_event_time(self, table):
        table.data(at("09:00:00"), base("f1"))
        table.data(at("09:00:02"), log("f1"))
        table.data(at("09:00:03"), log("f1"))
        table.archive(
            archived(at("09:00:00"), at("09:00:01"), base("f1")),
            archived(at("09:00:02"), at("09:00:09"), log("f1", 20)),
            archived(at("09:00:03"), at("09:00:05"), log("f1", 30, deletes=2)),
        )
        table.commit(at("10:00:00"), at("10:00:01"), log("f1", 40))
        assert slices(table) == {
            "f1": (
                at("09:00:00"),
                [
                    (at("09:00:03"), at("09:00:05"), None, True),
                    (at("09:00:02"), at("09:00:09"), 20, False),
                    (at("10:00:00"), at("10:00:01"), 40, False),
                ],
            )
        }

    def test_an_archived_commit_whose_completion_nobody_knows_counts_as_completed_when_requested(self, table):
        table.data(at("09:00:02"), log("f1"))
        table.archive(archived(at("09:00:02"), None, log("f1", 20)))
        table.commit(at("10:00:00"), at("10:00:01"), log("f1", 40))
        assert slices(table)["f1"][1][0] == (at("09:00:02"), at("09:00:02"), 20, False)

    def test_the_manifest_says_which_archive_files_count(self, table):
        table.data(at("09:00:02"), log("f1"))
        table.archive(archived(at("09:00:02"), at("09:00:03"), log("f1", 20)), manifest=1)
        table.archive(archived(at("09:00:02"), at("09:00:04"), log("f1", 10)), manifest=2)
        table.commit(at("10:00:00"), at("10:00:01"), log("f1", 40))
        assert slices(table)["f1"][1][0] == (at("09:00:02"), at("09:00:04"), 10, False)

    def test_between_two_manifests_the_newest_counts(self, table):
        """Hudi removes `_version_` and writes it anew with each archiving; a writer may die between the two."""
        table.data(at("08:59:00"), base("f1"))
        table.data(at("09:00:02"), log("f1"))
        table.data(at("09:00:03"), base("f1"))
        written = [
            archived(at("08:59:00"), at("08:59:01"), base("f1")),
            archived(at("09:00:02"), at("09:00:09"), log("f1", 20)),
            archived(at("09:00:03"), at("09:00:10"), base("f1"), action="commit"),
        ]
        for manifest in (9, 10):
            table.archive(*written[: manifest - 7], manifest=manifest)
        table.commit(at("10:00:00"), at("10:00:01"), log("f1", 40))
        before = slices(table)
        assert [one[0] for one in before["f1"][1]] == [at("09:00:02"), at("10:00:00")]
        (table.timeline / "history" / "_version_").unlink()
        assert slices(table) == before

    @pytest.mark.parametrize("release", [None, "25.0.0"])
    def test_without_pyarrow_it_is_said_how_to_get_it(self, table, monkeypatch, release):
        def found(name):
            if release is None:
                raise PackageNotFoundError(name)
            return release

        table.archive(archived(at("09:00:02"), at("09:00:03"), log("f1", 20)))
        table.data(at("09:00:02"), log("f1"))
        table.commit(at("10:00:00"), at("10:00:01"), log("f1", 40))
        monkeypatch.setattr(footers, "version", found)
        with pytest.raises(TableError) as error:
            read(table)
        assert (error.value.code, error.value.hint) == ("ETC210", "run `pip install 'pyarrow>=26'`")

    def test_only_its_times_are_read_where_all_is_active(self, table):
        damaged = {**archived(at("09:00:02"), at("09:00:03")), "metadata": b"no Avro"}
        table.archive(damaged)
        table.compaction(at("10:00:06"), at("10:00:30"), base("f1"), extra=OURS)
        assert read(table).last_compaction.threshold_ms == 1000


class TestLastCompaction:
    def test_its_commit_tells_the_threshold(self, table):
        table.compaction(at("10:00:06"), at("10:00:30"), base("f1"), extra=OURS)
        record = read(table).last_compaction
        assert (record.instant, record.completed) == (at("10:00:06"), at("10:00:30"))
        assert (record.threshold_ms, record.policy, record.plan_id) == (1000, "orders_ro", "abc")
        assert record.seen_until == at("10:00:09")

    def test_run_by_stock_hudi_its_plan_file_tells_it(self, table):
        table.compaction(at("10:00:06"), at("10:00:30"), base("f1"), plan_extra=OURS)
        assert read(table).last_compaction.threshold_ms == 1000

    def test_the_commit_wins_over_the_plan(self, table):
        extra = {**OURS, THRESHOLD: "2000"}
        table.compaction(at("10:00:06"), at("10:00:30"), base("f1"), extra=extra, plan_extra=OURS)
        assert read(table).last_compaction.threshold_ms == 2000

    def test_a_later_compaction_that_is_not_ours_does_not_hide_it(self, table):
        table.compaction(at("10:00:06"), at("10:00:30"), base("f1"), extra=OURS)
        table.compaction(at("10:00:40"), at("10:00:50"), base("f1"))
        assert read(table).last_compaction.instant == at("10:00:06")

    def test_the_one_that_completed_last_counts_and_not_the_highest_instant(self, table):
        """A cut may stand below an earlier one of another slice."""
        table.compaction(at("10:00:06"), at("10:00:50"), base("f1"), extra=OURS)
        table.compaction(at("10:00:20"), at("10:00:30"), base("f2"), extra={**OURS, THRESHOLD: "2000"})
        record = read(table).last_compaction
        assert (record.instant, record.completed, record.threshold_ms) == (at("10:00:06"), at("10:00:50"), 1000)

    def test_in_the_archive_too(self, table):
        table.archive(
            archived(at("09:00:06"), at("09:00:50"), extra=OURS, action="commit"),
            archived(at("09:00:20"), at("09:00:30"), extra={**OURS, THRESHOLD: "2000"}, action="commit"),
        )
        table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
        record = read(table).last_compaction
        assert (record.instant, record.completed, record.threshold_ms) == (at("09:00:06"), at("09:00:50"), 1000)

    def test_an_archived_one_that_completed_after_all_active_ones(self, table):
        """A cut may lie further back than an earlier one, and is archived before it."""
        table.archive(archived(at("10:00:06"), at("10:00:50"), extra=OURS, action="commit"))
        table.compaction(at("10:00:20"), at("10:00:30"), base("f2"), extra={**OURS, THRESHOLD: "2000"})
        assert read(table).last_compaction.instant == at("10:00:06")

    @pytest.mark.parametrize("threshold", ["", "soon", "1.5"])
    def test_a_threshold_that_is_no_number_is_none(self, table, threshold):
        table.compaction(at("10:00:06"), at("10:00:30"), base("f1"), extra={THRESHOLD: threshold})
        assert read(table).last_compaction is None

    @pytest.mark.parametrize("part", ["metadata", "plan"])
    def test_from_the_archive(self, table, part):
        told = {
            "metadata": avro(COMMIT_SCHEMA, commit_metadata(at("09:00:00"), (), OURS)),
            "plan": encode_plan((), OURS),
        }
        stock = avro(COMMIT_SCHEMA, commit_metadata(at("09:30:00"), ()))
        row = {"instantTime": at("09:00:00"), "completionTime": at("09:00:01"), "action": "commit", "metadata": stock}
        other = {"instantTime": at("09:30:00"), "completionTime": at("09:30:01"), "action": "commit", "metadata": stock}
        table.archive({**row, part: told[part]}, other)
        table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
        record = read(table).last_compaction
        assert (record.instant, record.completed, record.threshold_ms) == (at("09:00:00"), at("09:00:01"), 1000)

    def test_the_active_timeline_wins_over_the_archive(self, table):
        table.archive(archived(at("09:00:00"), at("09:00:01"), extra={**OURS, THRESHOLD: "5"}, action="commit"))
        table.compaction(at("10:00:06"), at("10:00:30"), base("f1"), extra=OURS)
        assert read(table).last_compaction.threshold_ms == 1000

    def test_a_delta_commit_with_such_metadata_is_no_compaction(self, table):
        table.commit(at("10:00:00"), at("10:00:01"), base("f1"), extra=OURS)
        assert read(table).last_compaction is None


class TestDamagedArchive:
    @pytest.fixture
    def parquet(self, table):
        path = table.archive(archived(at("09:00:00"), at("09:00:01"), log("f1", 20)))
        table.data(at("09:00:00"), log("f1"))
        table.commit(at("10:00:00"), at("10:00:01"), log("f1", 40))
        return path

    @pytest.mark.parametrize("name", ["manifest_1", None])
    def test_for_good_it_is_an_error_that_names_it(self, table, parquet, name):
        path = parquet.parent / name if name else parquet
        path.unlink()
        with pytest.raises(TableError, match=path.name) as error:
            read(table)
        assert (error.value.code, error.value.exit_code) == ("ETC208", 3)

    @pytest.mark.parametrize("text", ["[default]\nkey = secret", "1/../../secret", "\u0661"])
    def test_what_names_no_manifest_is_not_shown(self, table, parquet, text):
        (parquet.parent / "_version_").write_text(text)
        with pytest.raises(TableError, match="manifest_`") as error:
            read(table)
        assert (error.value.code, text in f"{error.value.message} {error.value.cause}") == ("ETC208", False)

    def test_a_manifest_that_names_a_file_again_and_again(self, table, parquet, monkeypatch):
        """Each was opened: 231 KB of manifest took 20 s."""
        manifest, opened = parquet.parent / "manifest_1", []
        content = json.loads(manifest.read_text())
        manifest.write_text(json.dumps({"files": content["files"] * 20_000}))
        rows = archive.archive_rows
        monkeypatch.setattr(archive, "archive_rows", lambda *given: opened.append(1) or rows(*given))
        assert read(table).slices
        assert 0 < len(opened) < 10
        manifest.write_text(json.dumps({"files": [{"fileName": f"{n}.parquet"} for n in range(10_001)]}))
        with pytest.raises(TableError, match="manifest_1"):
            read(table)

    @pytest.mark.parametrize("content", [b"", b"PAR1", b"no parquet at all", b"PAR1" + b"\x00" * 40 + b"PAR1"])
    def test_a_file_that_is_no_parquet(self, table, parquet, content):
        parquet.write_bytes(content)
        with pytest.raises(TableError, match=parquet.name) as error:
            read(table)
        assert error.value.code == "ETC208"

    def test_a_row_with_metadata_that_are_damaged(self, table, parquet):
        table.archive({**archived(at("09:00:00"), at("09:00:01"), log("f1", 20)), "metadata": b"Obj\x01no"})
        with pytest.raises(TableError) as error:
            read(table)
        assert error.value.code == "ETC208"

    @pytest.mark.parametrize(
        "text",
        [
            *("", "{", "[" * 100_000, "[]", "{}", '{"files": 3}', '{"files": {}}', '{"files": [1]}', '{"files": [{}]}'),
            '{"files": [{"fileName": 1}]}',
        ],
    )
    def test_a_manifest_of_another_form(self, table, parquet, text):
        (parquet.parent / "manifest_1").write_text(text)
        with pytest.raises(TableError, match="manifest_1") as error:
            read(table)
        assert error.value.code == "ETC208"

    def test_a_version_that_is_cut_short_names_no_manifest(self, table, parquet):
        (parquet.parent / "_version_").write_text("")
        with pytest.raises(TableError, match="manifest_"):
            read(table)

    @pytest.mark.parametrize("name", ["manifest_1", None])
    def test_because_a_newer_one_took_its_place_it_is_read_again(self, table, parquet, name, monkeypatch):
        """The archive rewrites its files: first the new ones, then `_version_`, and then the old ones go."""
        old, renewed = parquet.parent / name if name else parquet, []
        real = Archive._version

        def version(archive):
            found = real(archive)
            if not renewed:
                renewed.append(found)
                rows = archived(at("08:00:00"), at("08:00:01")), archived(at("09:00:00"), at("09:00:01"), log("f1", 20))
                table.archive(*rows, manifest=2)
                old.unlink()
            return found

        monkeypatch.setattr(Archive, "_version", version)
        assert [e for _, _, e, _ in slices(table)["f1"][1]] == [20, 40]


@pytest.mark.parametrize(("rows", "text"), [(1_000_000, "x"), (20_000, "x" * 100_000)])
def test_rows_that_take_no_bytes_are_not_read(table, rows, text):
    """A few bytes of Parquet may say that a value comes a million times."""
    import pyarrow
    import pyarrow.parquet

    path = table.archive(archived(at("09:00:00"), at("09:00:01"), log("f1")))
    column = pyarrow.DictionaryArray.from_arrays(
        pyarrow.repeat(pyarrow.scalar(0, pyarrow.int8()), rows), pyarrow.array([text])
    )
    names = ("instantTime", "completionTime", "action", "metadata", "plan")
    pyarrow.parquet.write_table(pyarrow.table(dict.fromkeys(names, column)), path, store_schema=False)
    before = pyarrow.default_memory_pool().max_memory()
    archive = Archive(open_storage(str(table.base)), OF_LAYOUT_2)
    with pytest.raises(TableError) as error:
        archive.writes(("x", text), 5)
    assert error.value.code == "ETC208"
    assert pyarrow.default_memory_pool().max_memory() - before < 64 << 20


def test_rows_that_are_in_a_file_once_are_not_decoded_again_and_again(table, monkeypatch):
    """5,000 rows of one megabyte are 116 KB, and each was a commit of its own."""
    one = archived(at("09:00:00"), at("09:00:01"), log("f1"), extra={"x": "y" * 100_000})
    table.archive(*({**one, "instantTime": at(f"09:00:{n:02}")} for n in range(50)))
    monkeypatch.setattr("etc_policy.hudi.archive.INFLATED_BYTES", 100_000)
    with pytest.raises(TableError) as error:
        Archive(open_storage(str(table.base)), OF_LAYOUT_2).writes(("deltacommit",), 50)
    assert (error.value.code, error.value.cause) == ("ETC208", "its rows have the same values again and again")


@pytest.mark.parametrize("column", ["instantTime", "metadata"])
def test_a_page_that_becomes_far_larger_is_not_read(table, column):
    """The footer says that it does not."""
    import pyarrow
    import pyarrow.parquet

    path = table.archive(archived(at("09:00:00"), at("09:00:01"), log("f1")))
    names = ("instantTime", "completionTime", "action", "metadata", "plan")
    texts = {name: [at("09:00:00")] for name in names} | {column: ["x" * 100_000_000]}
    options = {"compression": "zstd", "use_dictionary": False, "write_statistics": False, "store_schema": False}
    pyarrow.parquet.write_table(pyarrow.table(texts), path, **options)
    path.write_bytes(with_small_footer(path.read_bytes()))
    archive = Archive(open_storage(str(table.base)), OF_LAYOUT_2)
    with pytest.raises(TableError) as error:
        archive.writes((at("09:00:00"),), 5)
    assert (error.value.code, "far larger" in str(error.value.cause)) == ("ETC208", True)


def test_equal_metadata_is_in_memory_once(table):
    row = archived(at("09:00:00"), at("09:00:01"), log("f1"))
    table.archive(*({**row, "instantTime": at(f"09:{n // 60:02}:{n % 60:02}")} for n in range(300)))
    archive = Archive(open_storage(str(table.base)), OF_LAYOUT_2)
    found = list(archive._rows(("metadata",)))
    assert len(found) == 300
    assert len({id(one["metadata"]) for one in found}) == 1


def test_of_two_times_that_are_none_the_first_is_named(table):
    """Not the one that a set of column names begins with, which is another in each process."""
    table.archive(archived("99999999999999999", "20261301000000000", log("f1")))
    with pytest.raises(ValueError, match="99999999999999999"):
        list(Archive(open_storage(str(table.base)), OF_LAYOUT_2)._rows(("completionTime", "instantTime")))
