"""The zone of a table's writers by the times of its timeline's files."""

import os
import shutil
from datetime import UTC, datetime, timedelta

import pytest

from etc_policy.hudi.properties import read_properties
from etc_policy.hudi.timeline import read_timeline
from etc_policy.hudi.zones import read_zone
from etc_policy.storage.open_storage import open_storage
from etc_policy.table.instants import instant_from_ms
from tests.unit.hudi.reading import read
from tests.unit.hudi.table_folder import TableFolder, base, log

START = datetime(2026, 7, 1, 12, tzinfo=UTC)


def written(folder, *offsets_hours, version=9, zone="LOCAL"):
    """A table, each of whose commits came a minute after the one before, by writers whose clocks are so far ahead of UTC."""
    table = TableFolder(folder / "t", version=version, properties={"hoodie.table.timeline.timezone": zone})
    for number, hours in enumerate(offsets_hours):
        moment = START + timedelta(minutes=number)
        name = instant_from_ms(int((moment + timedelta(hours=hours)).timestamp() * 1000), UTC)
        done = instant_from_ms(int((moment + timedelta(hours=hours, seconds=2)).timestamp() * 1000), UTC)
        table.commit(name, done if version > 6 else name, base("f1") if not number else log("f1", number))
        for path in table.timeline.glob(f"{name}*"):
            late = 2.2 if path.suffix == ".deltacommit" else 0.1
            os.utime(path, (moment.timestamp() + late,) * 2)
    return table


@pytest.fixture(autouse=True)
def utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")


@pytest.mark.parametrize("version", [6, 8, 9])
class TestEveryVersion:
    def test_confirmed(self, tmp_path, version):
        assert read(written(tmp_path, 0, 0, 0, version=version)).zone.certainty == "confirmed"

    def test_another_zone(self, tmp_path, version):
        zone = read(written(tmp_path, 9, 9, 9, version=version)).zone
        assert (zone.certainty, "(UTC+09:00)" in zone.evidence) == ("contradicted", True)

    def test_two_zones(self, tmp_path, version):
        zone = read(written(tmp_path, 0, -7, 0, -7, version=version)).zone
        assert (zone.certainty, "back and forth" in zone.evidence) == ("contradicted", True)


@pytest.mark.parametrize(
    ("hours", "certainty"), [(-13, "unsure"), (-12, "contradicted"), (14, "contradicted"), (15, "unsure")]
)
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_no_zone_is_so_far_from_utc(tmp_path, monkeypatch, hours, certainty, zone):
    """Such as the instants of a writer whose clock is set for a replay."""
    monkeypatch.setenv("TZ", zone)
    assert read(written(tmp_path, hours, hours, hours)).zone.certainty == certainty


def test_read_in_the_writers_zone(tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert read(written(tmp_path, 9, 9, 9)).zone.certainty == "confirmed"


def test_what_the_table_declares_needs_no_evidence(tmp_path):
    assert read(written(tmp_path, 9, 9, 9, zone="UTC")).zone.certainty == "declared"


def test_a_copy_says_nothing(tmp_path):
    table = written(tmp_path, 9, 9, 9)
    shutil.copytree(table.base, tmp_path / "copy", copy_function=shutil.copyfile)
    table.base = tmp_path / "copy"
    assert read(table).zone.certainty == "unsure"


def test_a_compaction_in_the_past_is_no_evidence(tmp_path):
    table = written(tmp_path, 0, 0, 0)
    for path in (table.timeline / f"20260701110000{n}00.compaction.requested" for n in range(9)):
        path.write_bytes(b"")
        os.utime(path, (START.timestamp(),) * 2)
    assert (
        read_zone(
            {}, read_timeline(open_storage(str(table.base)), read_properties(open_storage(str(table.base))))
        ).certainty
        == "confirmed"
    )
