"""`hoodie.properties` that is cut short, being changed, or says what the table does not bear out."""

import re
import threading

import pytest

from etc_policy.errors import TableError
from etc_policy.hudi import properties as hudi_properties
from etc_policy.hudi.completion_times import metadata_timeline
from etc_policy.hudi.properties import read_properties, require_own
from etc_policy.storage.local import LocalStorage
from tests.bundle_classes import bundle
from tests.unit.hudi.table_folder import TableFolder, at, base

RELEASES = ("1.2.0", "1.1.1", "1.0.2", "0.15.0")


@pytest.fixture(autouse=True)
def _short_pause(monkeypatch):
    monkeypatch.setattr(hudi_properties, "PAUSE_SECONDS", 0.02)


def properties_file(table):
    return table.meta / "hoodie.properties"


def error_of(table):
    with pytest.raises(TableError) as error:
        read_properties(LocalStorage(table.base))
    assert str(table.base) in error.value.message
    return error.value


def test_a_glob_that_is_no_folder_is_told_the_key_for_globs(tmp_path):
    """A folder may have such a name, so only a table that is not there is taken for a glob."""
    folder = tmp_path / "lake" / "*"
    with pytest.raises(TableError, match="the folder does not exist") as error:
        read_properties(LocalStorage(folder))
    assert "write `tables` in the place of `table`" in error.value.hint
    table = TableFolder(folder)
    assert read_properties(LocalStorage(table.base))["hoodie.table.type"] == "MERGE_ON_READ"


class TestCutShort:
    def test_in_the_middle_of_a_line(self, table):
        path = properties_file(table)
        path.write_text(path.read_text()[:-3])
        error = error_of(table)
        assert (error.code, error.exit_code) == ("ETC215", 3)
        assert "ends in the middle of a line" in error.hint

    @pytest.mark.parametrize("key", ["hoodie.table.name", "hoodie.record.merge.mode", "hoodie.timeline.layout.version"])
    def test_between_two_lines(self, tmp_path, key):
        table = TableFolder(tmp_path / "t", properties={key: None})
        error = error_of(table)
        assert (error.code, f"it lacks {key}" in error.message) == ("ETC215", True)

    def test_tables_before_version_8_have_fewer_lines(self, tmp_path):
        table = TableFolder(tmp_path / "t", version=6, properties={"hoodie.record.merge.mode": None})
        assert read_properties(LocalStorage(table.base))["hoodie.table.version"] == "6"

    def test_empty(self, table):
        properties_file(table).write_text("")
        error = error_of(table)
        assert (error.code, error.hint) == ("ETC215", "restore it from a copy")
        assert error.message.endswith("` is empty")


class TestBeingChanged:
    """Hudi writes a backup, deletes the file, writes it anew, and deletes the backup."""

    def test_is_waited_for(self, table):
        path = properties_file(table)
        backup = path.rename(path.with_name("hoodie.properties.backup"))
        writer = threading.Timer(0.03, lambda: backup.rename(path))
        writer.start()
        assert read_properties(LocalStorage(table.base))["hoodie.table.name"] == "orders"
        writer.join()

    def test_but_not_for_ever(self, table):
        path = properties_file(table)
        path.rename(path.with_name("hoodie.properties.backup"))
        error = error_of(table)
        assert (error.code, "backup" in error.hint) == ("ETC215", True)

    def test_without_a_backup_there_is_no_table(self, table):
        properties_file(table).unlink()
        assert error_of(table).code == "ETC202"


class TestLies:
    @pytest.mark.parametrize(("version", "layout"), [("9", "1"), ("8", "1"), ("6", "2"), ("7", "2")])
    def test_version_and_layout_disagree(self, tmp_path, version, layout):
        said = {"hoodie.table.version": version, "hoodie.timeline.layout.version": layout}
        table = TableFolder(tmp_path / "t", version=9 if layout == "2" else 6, properties=said)
        error = error_of(table)
        assert error.code == "ETC215"
        assert f"table version {version} with timeline layout {layout}" in error.message

    def test_a_later_version_than_the_commits_are_of(self, tmp_path):
        said = {"hoodie.table.version": "9", "hoodie.timeline.layout.version": "2"}
        table = TableFolder(tmp_path / "t", version=6, properties=said)
        table.commit(at("10:00:00"), at("10:00:00"), base("f1"))
        error = error_of(table)
        assert (error.code, "those of an older one" in error.message) == ("ETC215", True)

    def test_an_older_version_than_the_commits_are_of(self, tmp_path):
        said = {"hoodie.table.version": "6", "hoodie.timeline.layout.version": "1"}
        table = TableFolder(tmp_path / "t", version=9, properties=said)
        table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
        error = error_of(table)
        assert (error.code, "those of a later one" in error.message) == ("ETC215", True)
        assert f"{at('10:00:00')}.deltacommit" in error.message

    @pytest.mark.parametrize("version", ["٩", "-9", "9.0", ""])
    def test_a_version_that_is_no_number(self, tmp_path, version):
        table = TableFolder(tmp_path / "t", properties={"hoodie.table.version": version})
        assert error_of(table).code == "ETC205"

    def test_names_that_look_like_instants_are_none(self, table):
        (table.meta / "2026").mkdir()
        assert read_properties(LocalStorage(table.base))["hoodie.table.version"] == "9"


def test_a_file_that_may_not_be_read(table, monkeypatch):
    def denied(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("etc_policy.storage.local.os.open", denied)
    error = error_of(table)
    assert (error.code, error.cause) == ("ETC213", "[Errno 13] Permission denied")


def test_a_table_of_a_later_version_names_the_version_its_cause_and_both_ways_out(tmp_path):
    table = TableFolder(tmp_path / "t", properties={"hoodie.table.version": "10"})
    with pytest.raises(TableError) as error:
        read_properties(LocalStorage(table.base))
    assert error.value.code == "ETC205"
    assert "table version 10" in error.value.message
    assert "which reads up to 9: a writer of a later Hudi has upgraded the table" in error.value.message
    assert "use an etc that reads it; or downgrade it" in error.value.hint
    assert "the options of `etc compile`, which forbid the upgrade" in error.value.hint


class TestOfATableAlone:
    """Hudi's client merges all properties of a table into its own options."""

    @pytest.mark.parametrize(
        "key",
        [
            "hoodie.metrics.on",
            "hoodie.metrics.reporter.class",
            "hoodie.base.path",
            "hoodie.write.lock.provider",
            "hoodie.table.service.manager.uris",
            "hoodie.table.services.enabled",
            "hoodie.record.merge.property.hoodie.metrics.on",
            "hoodie.new.option",
        ],
    )
    def test_an_option_of_a_client_is_refused(self, tmp_path, key):
        error = error_of(TableFolder(tmp_path / "t", properties={key: "file:/lake/other"}))
        assert (error.code, f"sets `{key}`" in error.message) == ("ETC215", True)

    @pytest.mark.parametrize("version", [6, 9])
    @pytest.mark.parametrize(
        "key", ["timeline.path", "timeline.history.path", "archivelog.folder", "table.index.defs.path"]
    )
    @pytest.mark.parametrize("value", ["file:/lake/other", "s3://other/t", "/lake/other", "../other", "x:/y"])
    def test_a_path_that_leads_elsewhere_is_refused(self, tmp_path, version, key, value):
        table = TableFolder(tmp_path / "t", version=version, properties={})
        with properties_file(table).open("a") as opened:
            opened.write(f"hoodie.{key}={value}\n")
        assert error_of(table).code == "ETC215"

    def test_a_line_that_goes_on_is_refused(self, table):
        """Java 17 takes what follows an empty one for a comment, and the last line for a property; Java 11 does not."""
        with properties_file(table).open("a") as opened:
            opened.write("\\\n#c\\\nhoodie.metrics.on=true\n")
        error = error_of(table)
        assert (error.code, "goes on in the next" in error.message) == ("ETC215", True)

    @pytest.mark.parametrize("end", ["\n", ""])
    def test_so_is_an_option_in_the_backup(self, table, end):
        """Hudi goes by it where a checksum of the file is wrong."""
        backup = properties_file(table).with_name("hoodie.properties.backup")
        backup.write_text(f"{properties_file(table).read_text()}hoodie.metrics.on=true{end}")
        error = error_of(table)
        assert (error.code, "hoodie.properties.backup of" in error.message) == ("ETC215", True)

    @pytest.mark.parametrize("text", ["", "hoodie.table.name=orders\nhoodie.tab"])
    def test_a_backup_whose_writer_has_died_is_none(self, table, text):
        properties_file(table).with_name("hoodie.properties.backup").write_text(text)
        assert read_properties(LocalStorage(table.base))["hoodie.table.name"] == "orders"

    @pytest.mark.parametrize("name", ["hoodie.properties", "hoodie.properties.backup"])
    def test_so_are_those_of_its_metadata_table(self, table, name):
        folder = table.meta / "metadata" / ".hoodie"
        folder.mkdir(parents=True)
        (folder / "hoodie.properties").write_text("hoodie.table.name=m\n")
        (folder / name).write_text("hoodie.table.name=m\nhoodie.timeline.path=file:/lake/other\n")
        with pytest.raises(TableError, match=r"metadata` sets `hoodie\.timeline\.path` to `file:/lake/other`"):
            metadata_timeline(LocalStorage(table.base))

    @pytest.mark.extended
    @pytest.mark.parametrize("release", RELEASES)
    def test_what_a_release_keeps_in_a_table_is_taken(self, release):
        """But for names of files, a prefix, the path of bootstrap, and classes of a merger, which readers have from options."""
        texts = bundle(release).read("org.apache.hudi.common.table.HoodieTableConfig").texts
        kept = {text for text in texts if re.fullmatch(r"hoodie(\.[a-z0-9_]+)+", text)}
        kept -= {
            "hoodie.properties",
            "hoodie.properties.backup",
            "hoodie.record.merge.property",
            "hoodie.bootstrap.base.path",
        }
        kept -= {
            "hoodie.datasource.write.record.merger.impls",
            "hoodie.write.record.merge.custom.implementation.classes",
        }
        require_own("t", dict.fromkeys(kept, "x"))
