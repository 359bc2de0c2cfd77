"""Real tables in which somebody who may write to them has changed what etc and Hudi read: plans, markers, archives."""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
import time
from pathlib import Path

import pytest

from etc_policy.errors import EtcError, TableError
from etc_policy.gx.verifier import GxVerifier
from etc_policy.hudi.blocks import read_headers
from etc_policy.hudi.layout import parse_data_file
from etc_policy.hudi.plan_file import encode_plan
from etc_policy.plan.commit_metadata import extra_metadata
from etc_policy.spark.hudi_client import open_client, pairs_of
from etc_policy.table.history import PLAN_ID, THRESHOLD
from etc_policy.verify.ports import DataCheck
from tests.hostile.avro import damaged
from tests.integration.bench import AT_THE_CUT, ORACLE, SECOND, Bench, check_views
from tests.integration.histories import BUSY
from tests.integration.history import QUICK, Views, write_history
from tests.unit.hudi.log_file import DELETE, INSTANT, SCHEMA, block
from tests.unit.hudi.table_folder import CLEAN_PLAN, avro

pytestmark = pytest.mark.spark


@pytest.fixture
def bench(spark, written_table, tmp_path):
    base = tmp_path / "lake" / "t"
    shutil.copytree(written_table, base)
    return Bench(spark, base)


def everything_below(folder: Path) -> dict[str, bytes]:
    """Every file, but for the notes that etc keeps of its own runs."""
    files = (path for path in folder.rglob("*") if path.is_file() and ".etc" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def publish(bench):
    """A plan of etc that a killed run left; gives it with its file."""
    plan = bench.plan()
    bench.publish(plan)
    (path,) = (bench.base / ".hoodie" / "timeline").glob(f"{plan.tables[0].instant}.compaction.requested")
    return plan, path


def outside(bench):
    """A file of another table that Hudi would read, write or remove."""
    path = bench.base.parent / "other" / "a" / "kept.parquet"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"kept")
    return path


def signed_again(plan, path, operations, **extra):
    """The plan's file with other operations and a plan id of its own, as its form allows."""
    pairs = {**extra_metadata(plan.tables[0], "0" * 64, None), PLAN_ID: "0" * 64, **extra}
    path.write_bytes(encode_plan(operations, pairs))
    (path.parent / f".{path.name}.crc").unlink(missing_ok=True)


def test_a_client_is_as_hudi_makes_it_and_goes_by_the_properties_that_were_looked_at(bench):
    """The file may change after etc has read it, and before Hudi does (facts: client-by-properties)."""
    jvm, base = bench.spark._jvm, str(bench.base)
    none = getattr(getattr(jvm.scala, "None$"), "MODULE$")
    options = jvm.PythonUtils.toScalaMap(jvm.java.util.HashMap())
    stock = jvm.org.apache.hudi.HoodieCLIUtils.createHoodieWriteClient(bench.spark._jsparkSession, base, options, none)
    own = open_client(bench.spark, base, {})
    assert pairs_of(jvm, own.getConfig().getProps()) == pairs_of(jvm, stock.getConfig().getProps())
    with (bench.base / ".hoodie" / "hoodie.properties").open("a") as opened:
        opened.write("as.of.instant=1\n")
    (bench.base / ".hoodie" / ".hoodie.properties.crc").unlink(missing_ok=True)
    assert "as.of.instant" not in pairs_of(jvm, open_client(bench.spark, base, {}).getConfig().getProps())
    with (bench.base / ".hoodie" / "hoodie.properties").open("a") as opened:
        opened.write("hoodie.metrics.on=true\n")
    (bench.base / ".hoodie" / ".hoodie.properties.crc").unlink(missing_ok=True)
    with pytest.raises(TableError, match=r"as Hudi reads it, sets `hoodie\.metrics\.on`"):
        open_client(bench.spark, base, {})


def test_a_schema_that_names_classes_makes_none(spark, tmp_path):
    """Hudi's reader made a stream to the file that each key names, which empties it (facts: classes-of-a-schema)."""
    victim = tmp_path / "victim"
    victim.write_text("kept")
    jvm, hudi, path = spark._jvm, spark._jvm.org.apache.hudi, str(tmp_path / "a.parquet")
    of_keys = {"type": "map", "values": "string", "java-key-class": "java.io.FileOutputStream"}
    schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": "m", "type": of_keys}]})
    parsed = getattr(jvm.org.apache.avro, "Schema$Parser")().parse(schema)
    row, pairs = getattr(jvm.org.apache.avro.generic, "GenericData$Record")(parsed), jvm.java.util.HashMap()
    pairs.put(str(victim), "x")
    row.put("m", pairs)
    builder = jvm.org.apache.parquet.avro.AvroParquetWriter.builder(jvm.org.apache.hadoop.fs.Path(path))
    writer = builder.withSchema(parsed).withDataModel(jvm.org.apache.avro.generic.GenericData.get()).build()
    writer.write(row)
    writer.close()
    conf = hudi.hadoop.fs.HadoopFSUtils.getStorageConf(spark._jsc.hadoopConfiguration())
    storage = hudi.storage.HoodieStorageUtils.getStorage(path, conf)
    reader = hudi.io.storage.hadoop.HoodieAvroParquetReader(storage, hudi.storage.StoragePath(path))
    rows = reader.getRecordIterator(hudi.common.schema.HoodieSchema.parse(schema))
    assert str(victim) in str(rows.next().getData())
    assert victim.read_text() == "kept"


def objects_that_make(jvm, folder):
    """A serialized object: whoever reads it opens a database in the folder, which is made, to sort by its connection."""
    source = jvm.com.zaxxer.hikari.HikariDataSource()
    source.setJdbcUrl(f"jdbc:derby:{folder};create=true")
    comparator = jvm.org.apache.hadoop.shaded.org.apache.commons.beanutils.BeanComparator("jdbcUrl")
    pairs = jvm.java.util.TreeMap(comparator)
    pairs.put(source, "x")
    comparator.setProperty("connection")
    return bytes(jvm.org.apache.hudi.common.util.SerializationUtils.serialize(pairs))


def add_objects(path, payload):
    """Add a delete block of Hudi before 0.14 to a log file, of its own write."""
    with path.open("rb") as opened:
        (header, *_) = read_headers(opened, path.stat().st_size)
    instant = parse_data_file(path.name).instant
    pairs = {INSTANT: instant, SCHEMA: header[SCHEMA].decode()}
    with path.open("ab") as opened:
        opened.write(block(DELETE, struct.pack(">ii", 2, len(payload)) + payload, pairs))
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


@pytest.mark.extended
@pytest.mark.parametrize("place", ["table", "metadata table"])
def test_a_log_file_runs_nothing_of_its_writer(bench, tmp_path, place):
    """Reading it by Spark alone does (facts: objects-of-a-delete-block)."""
    from py4j.protocol import Py4JJavaError

    plan = bench.plan()
    operation = next(one for one in plan.tables[0].operations if one.log_files_compacted)
    log = Path(operation.partition) / operation.log_files_compacted[0]
    if place == "metadata table":
        log = max((bench.base / ".hoodie/metadata/files").glob(".files-*.log.*")).relative_to(bench.base)
    stock = tmp_path / "stock"
    shutil.copytree(bench.base, stock)
    add_objects(stock / log, objects_that_make(bench.spark._jvm, tmp_path / "made by Spark"))
    with pytest.raises(Py4JJavaError):
        bench.spark.read.format("hudi").load(str(stock)).collect()
    assert (tmp_path / "made by Spark").exists()
    add_objects(bench.base / log, objects_that_make(bench.spark._jvm, tmp_path / "made by etc"))
    before = everything_below(bench.base)
    with pytest.raises(TableError) as error:
        bench.apply(plan)
    assert error.value.code == "ETC230"
    assert everything_below(bench.base) == before
    policy, state = bench.policy, bench.state()
    request = DataCheck(policy, bench.location, (), 0, 0, None, None, frozenset(), "", frozenset())
    verifier = GxVerifier(bench.spark)
    for look in (
        lambda: verifier.check(request),
        lambda: verifier.missed_by_indexes(request, state),
        lambda: verifier.wrongly_listed(state),
    ):
        with pytest.raises(TableError) as error:
            look()
        assert error.value.code == "ETC230"
    assert not (tmp_path / "made by etc").exists()


@pytest.mark.extended
@pytest.mark.parametrize("does", ["finish", "undo"])
@pytest.mark.parametrize(
    "changed",
    [
        {"log_files_compacted": ("../../other/a/kept.parquet",)},
        {"partition": "../other/a"},
        {"base_file": "../../other/a/kept.parquet"},
        {"base_instant": "../../../other"},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_a_pending_plan_that_leads_out_of_the_table_is_neither_run_nor_withdrawn(bench, changed, does):
    kept = outside(bench)
    plan, path = publish(bench)
    honest = path.read_bytes()
    first, *others = plan.tables[0].operations
    signed_again(plan, path, (first.model_copy(update=changed), *others))
    before = everything_below(bench.base.parent)
    with pytest.raises(EtcError) as refused:
        (bench.runner.finish_pending if does == "finish" else bench.runner.undo)(bench.policy, str(bench.base))
    assert refused.value.code == "ETC245"
    assert everything_below(bench.base.parent) == before
    assert kept.read_bytes() == b"kept"

    path.write_bytes(honest)
    assert bench.runner.finish_pending(bench.policy, str(bench.base)).status == "resumed"
    check_views(Views(bench.spark, bench.base), Views(bench.spark, bench.base).delta_commits(), since=AT_THE_CUT)


def partition(bench):
    """The folder of a partition, behind a link to a folder of another table's."""
    found = next(path.parent for path in sorted(bench.base.rglob("*.parquet")) if ".hoodie" not in path.parts)
    return behind_a_link(bench, found)


def metadata_table(bench):
    return behind_a_link(bench, bench.base / ".hoodie" / "metadata")


def index_of_the_metadata_table(bench):
    return behind_a_link(bench, bench.base / ".hoodie" / "metadata" / "files")


def markers(bench):
    folder = bench.base / ".hoodie" / ".temp"
    folder.mkdir(exist_ok=True)
    return behind_a_link(bench, folder)


def behind_a_link(bench, folder):
    elsewhere = bench.base.parent / "elsewhere"
    shutil.move(folder, elsewhere)
    folder.symlink_to(elsewhere)
    return elsewhere


def base_file(bench):
    """A base file of another table, which only the user of etc may read: its rows would be written into this one."""
    found = next(path for path in sorted(bench.base.rglob("*.parquet")) if ".hoodie" not in path.parts)
    return behind_a_link(bench, found)


@pytest.mark.extended
@pytest.mark.parametrize("linked", [partition, metadata_table, index_of_the_metadata_table, markers, base_file])
def test_nothing_is_written_where_a_folder_of_the_table_is_a_link(bench, linked):
    """Hudi writes through it, with the rights of the user of etc, and removes markers there."""
    elsewhere = linked(bench)
    before = everything_below(elsewhere)
    with pytest.raises(EtcError) as refused:
        bench.apply(bench.plan())
    assert everything_below(elsewhere) == before
    assert refused.value.code == "ETC442"


@pytest.mark.extended
@pytest.mark.parametrize("removed", ["file", "folder"])
def test_a_clean_in_the_metadata_table_of_what_lies_elsewhere_is_not_carried_out(bench, removed):
    """No client of Hudi is begun (facts: metadata-services-pending)."""
    kept, plan = outside(bench), bench.plan()
    files = {"files": [{"filePath": str(kept)}]} if removed == "file" else {}
    clean = {
        "policy": "KEEP_LATEST_COMMITS",
        "filePathsToBeDeletedPerPartition": files,
        "partitionsToBeDeleted": ["../../../other"] if removed == "folder" else [],
    }
    timeline = bench.base / ".hoodie" / "metadata" / ".hoodie" / "timeline"
    at = max(path.name for path in timeline.glob("*.deltacommit"))[:17]
    pending = timeline / f"{int(at) + 1}.clean.requested"
    pending.write_bytes(avro(CLEAN_PLAN, clean))
    with pytest.raises(EtcError) as refused:
        bench.apply(plan)
    assert refused.value.code == "ETC245"
    assert kept.read_bytes() == b"kept"
    pending.unlink()
    assert bench.apply(bench.plan()).status == "compacted"


@pytest.mark.extended
def test_one_that_leaves_out_a_log_file_is_withdrawn_and_planned_again(bench):
    """Stock Hudi runs it: the log file lies before C, so no view reads it any more, and its rows are lost."""
    plan, path = publish(bench)
    operations = plan.tables[0].operations
    longest = max(operations, key=lambda operation: len(operation.log_files_compacted))
    assert len(longest.log_files_compacted) > 1
    shorter = longest.model_copy(update={"log_files_compacted": longest.log_files_compacted[1:]})
    signed_again(plan, path, tuple(shorter if one is longest else one for one in operations))
    commits = Views(bench.spark, bench.base).delta_commits()
    assert bench.runner.finish_pending(bench.policy, str(bench.base)) is None
    assert list(path.parent.glob(f"{plan.tables[0].instant}_*.commit"))
    assert bench.state().last_compaction is None
    check_views(Views(bench.spark, bench.base), commits, since=AT_THE_CUT)
    assert bench.apply(bench.plan()).status == "compacted"
    check_views(Views(bench.spark, bench.base), commits, since=AT_THE_CUT)


@pytest.mark.extended
def test_a_threshold_that_somebody_raised_is_not_believed(bench):
    """It is committed with the data, as the plan says; what is not compacted shows that it is not kept."""
    plan, path = publish(bench)
    signed_again(plan, path, plan.tables[0].operations, **{THRESHOLD: str(253_402_300_799_000)})
    bench.runner.finish_pending(bench.policy, str(bench.base))
    commits = Views(bench.spark, bench.base).delta_commits()
    check_views(Views(bench.spark, bench.base), commits, since=AT_THE_CUT)
    table = bench.plan().tables[0]
    assert table.watermark_before_ms == plan.tables[0].watermark_after_ms


def withdrawn_with_markers(bench, marked):
    """A run that was killed while it wrote, with a marker that somebody added; what undoing it gives."""
    plan, path = publish(bench)
    instant = plan.tables[0].instant
    (path.parent / f"{instant}.compaction.inflight").touch()
    folder = bench.base / ".hoodie" / ".temp" / instant
    folder.mkdir(parents=True)
    (folder / "MARKERS.type").write_text("TIMELINE_SERVER_BASED")
    (folder / "MARKERS0").write_text("".join(f"{name}.marker.CREATE\n" for name in marked(instant)))
    long_ago = time.time() - 3_600
    for trace in (*path.parent.glob(f"{instant}.*"), *folder.iterdir()):  # else a stock writer may be at it
        os.utime(trace, (long_ago, long_ago))
    return plan, instant


@pytest.mark.extended
def test_a_marker_of_a_file_elsewhere_removes_nothing(bench):
    kept = outside(bench)
    withdrawn_with_markers(bench, lambda _: ["../other/a/kept.parquet"])
    with pytest.raises(EtcError) as refused:
        bench.runner.undo(bench.policy, str(bench.base))
    assert refused.value.code == "ETC245"
    assert kept.read_bytes() == b"kept"
    check_views(Views(bench.spark, bench.base), Views(bench.spark, bench.base).delta_commits(), since=AT_THE_CUT)


@pytest.mark.extended
def test_a_marker_of_a_file_of_the_table_removes_nothing(bench):
    """By a marker of another instant's base file, Hudi's rollback would remove that file."""
    base_file = next(path for path in (bench.base / "a").glob("*.parquet"))
    withdrawn_with_markers(bench, lambda _: [f"a/{base_file.name}"])
    with pytest.raises(EtcError) as refused:
        bench.runner.undo(bench.policy, str(bench.base))
    assert refused.value.code == "ETC245"
    assert base_file.exists()
    check_views(Views(bench.spark, bench.base), Views(bench.spark, bench.base).delta_commits(), since=AT_THE_CUT)


@pytest.fixture(scope="module")
def archived_table(spark, tmp_path_factory):
    """A table whose first commits are archived, with more to compact."""
    base = tmp_path_factory.mktemp("archived") / "t"
    write_history(spark, base, options={**QUICK, **BUSY})
    assert list((base / ".hoodie" / "timeline" / "history").glob("*.parquet"))
    return base


@pytest.mark.extended
@pytest.mark.parametrize("seed", range(6))
def test_an_archive_that_somebody_changed_gives_an_error_or_the_same_table(spark, archived_table, tmp_path, seed):
    """Whatever is planned with it and carried out leaves RT right; with the archive as it was, all is right."""
    base, dice = tmp_path / "t", random.Random(seed)
    shutil.copytree(archived_table, base)
    bench, rt = Bench(spark, base), ORACLE.rt()
    files = sorted(path for path in (base / ".hoodie" / "timeline" / "history").rglob("*") if path.is_file())
    files = [path for path in files if not path.name.endswith(".crc")]
    changed = files[seed % len(files)]
    honest = changed.read_bytes()
    changed.write_bytes(damaged(dice, honest))
    try:
        plan = bench.plan()
        if plan.tables[0].action == "compact":
            bench.apply(plan)
    except EtcError as error:
        assert error.code
    changed.write_bytes(honest)
    bench.runner.finish_pending(bench.policy, str(base))  # of a run that the archive has stopped
    views = Views(spark, base)
    assert views.rt() == views.rt_without_mdt() == views.rust() == rt
    plan = bench.plan()
    assert plan.tables[0].action in ("compact", "nothing_due")
    bench.apply(plan)
    assert views.rt() == views.rt_without_mdt() == views.rust() == rt
    expected, ro = ORACLE.rt_up_to(SECOND), views.ro()
    assert {key: ro.get(key) for key in expected} == expected
