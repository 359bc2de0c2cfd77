"""Pending plans of etc that another writer of the table has made or changed: nothing is made or removed by them."""

import json
from io import BytesIO

import fastavro
import pytest

from etc_policy.errors import TableError
from etc_policy.hudi import plan_file
from etc_policy.hudi.pending_plan import _below_table, _leads_out
from etc_policy.policy.manifest import Policy
from etc_policy.run.ports import Job
from etc_policy.run.table_files import HudiFiles, require_own_plan, require_own_services
from tests.unit.hudi.reading import OURS, TS, read
from tests.unit.hudi.table_folder import CLEAN_PLAN, ROLLBACK_PLAN, TableFolder, at, avro, base, log, operation

C = at("10:00:06")
FIRST, LOG = base("f1").name(at("10:00:00")), log("f1").name(at("10:00:02"))
GOOD = operation("f1", FIRST, LOG)
POLICY = Policy(name="orders_ro", table="x", event_time=TS, data_latency_ms=1)


def job_of(table, *operations):
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    table.plan(C, OURS, *operations)
    policy = Policy(name="orders_ro", table=str(table.base), event_time=TS, data_latency_ms=1)
    return HudiFiles().pending_job(policy, read(table))


@pytest.mark.parametrize("partition", ["", "p", "2026/01/01", "a b=c", ".hidden", "..x"])
def test_a_plan_of_etc_is_taken(table, partition):
    planned = operation("f1", FIRST, LOG, partition=partition)
    alone = operation("f2", None, log("f2").name(at("10:00:02")))
    assert job_of(table, planned, alone).operations == (planned, alone)


@pytest.mark.parametrize(
    "hostile",
    [
        operation("f1", FIRST, LOG, partition="../outside"),
        operation("f1", FIRST, LOG, partition="/outside"),
        operation("f1", FIRST, LOG, partition="p/../../outside"),
        operation("f1", FIRST, LOG, partition="p//q"),
        operation("f1", FIRST, LOG, partition=".hoodie/metadata"),
        operation("f1", FIRST, LOG, partition="p\0"),
        operation("f1", f"../../outside/{FIRST}", LOG),
        operation("f1", f"/outside/{FIRST}", LOG),
        operation("f1", f"file:///outside/{FIRST}", LOG),
        operation("f1", FIRST, f"../{LOG}"),
        operation("f1", FIRST, f"/outside/{LOG}"),
        operation("f1", FIRST, LOG + "\0"),
        operation("f1", LOG),
        operation("f1", FIRST, FIRST),
        operation("f2", FIRST, LOG),
        operation("../f1", None, "../.f1_1.log.1_0-1-0"),
        operation("f1", "", LOG),
        operation("f1", FIRST, "canary"),
        GOOD.model_copy(update={"base_instant": "../../x"}),
    ],
)
def test_a_path_that_etc_never_writes_is_refused(table, hostile):
    with pytest.raises(TableError, match=f"pending plan at {C} of .* is not one that etc or Hudi writes") as error:
        job_of(table, GOOD.model_copy(update={"partition": "q"}), hostile)
    assert error.value.code == "ETC245"


def test_a_file_group_twice_is_refused(table):
    with pytest.raises(TableError, match="a file group twice"):
        job_of(table, GOOD, GOOD)


def marker(table, path, name="x"):
    folder = table.meta / ".temp" / C
    folder.mkdir(parents=True)
    if name.startswith("MARKERS"):
        (folder / name).write_text(f"{path}.marker.CREATE\n")
    else:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{path}.marker.CREATE").touch()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (f"../../outside/f1_0-1-0_{C}.parquet", "MARKERS0"),
        ("../../outside/canary", "MARKERS0"),
        (f"file:/lake/other/p/f1_0-1-0_{C}.parquet", "MARKERS0"),
        (f"file:/lake/other/p/f1_0-1-0_{C}.parquet", "x"),
        (f"{base('f1').name(at('10:00:00'))}", "MARKERS0"),
        ("p/canary", "x"),
        (".hoodie/hoodie.properties", "x"),
        (".hidden/canary", "x"),
        (f"../p/.f1_{at('10:00:00')}.log.1_0-1-0", "MARKERS0"),
        (f"p/.f1_{at('10:00:00')}.log.1_0-1-0", "x"),
        (f"/lake/other/p/f1_0-1-0_{C}.parquet", "MARKERS0"),
        (f"../other/canary.marker/f1_0-1-0_{C}.parquet", "MARKERS0"),
        (f"p/canary.marker/f1_0-1-0_{C}.parquet", "x"),
        (f"../other/x\x0bp/f1_0-1-0_{C}.parquet", "MARKERS0"),
        (f"/lake/other/p/f1_0-1-0_{C}.parquet", "MARKERS0.crc"),
    ],
)
def test_a_marker_of_another_file_is_refused(table, path, kind):
    """Hudi's rollback removes what the markers name."""
    marker(table, path, kind)
    with pytest.raises(TableError, match="a marker of it names the file"):
        job_of(table, GOOD)


def test_a_marker_at_the_root_of_a_table_is_its_own(table):
    """Hudi 0.x begins it with a slash."""
    marker(table, f"/f1_0-1-0_{C}.parquet", "MARKERS0")
    assert job_of(table, GOOD).operations == (GOOD,)


def test_a_plan_that_names_a_file_of_bootstrap_is_of_an_unknown_form(table):
    """Hudi merges the rows of that file, which may be of another table."""
    plan = fastavro_record(table.plan(C, OURS, GOOD).read_bytes())
    plan["operations"][0]["bootstrapFilePath"] = "file:/lake/other/a.parquet"
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    table.file(C, ".compaction.requested", avro(plan_file._schema(), plan))
    with pytest.raises(TableError, match="not in a form"):
        HudiFiles().pending_job(POLICY, read(table))


def fastavro_record(content):
    (record,) = fastavro.reader(BytesIO(content))
    return record


def test_a_plan_that_somebody_changed_since_is_not_the_one_that_hudi_reads(table):
    job = job_of(table, GOOD)
    require_own_plan(job)
    table.plan(C, OURS, GOOD.model_copy(update={"partition": "../other"}))
    with pytest.raises(TableError, match="not one that etc or Hudi writes"):
        require_own_plan(job)


@pytest.mark.parametrize("kind", ["MARKERS0", "x"])
def test_markers_of_the_plan_are_its_own(table, kind):
    marker(table, f"p/f1_0-1-0_{C}.parquet", kind)
    for path in (table.meta / ".temp" / C).rglob("*.*"):  # as Hadoop's local file system leaves them
        path.with_name(f".{path.name}.crc").touch()
    assert job_of(table, GOOD).operations == (GOOD,)


def rollback(table, path, of=C, **request):
    plan = {"instantToRollback": {"commitTime": of}, "RollbackRequests": [{"filesToBeDeleted": [path], **request}]}
    table.file(at("10:00:08"), ".rollback.requested", avro(ROLLBACK_PLAN, plan))


@pytest.mark.parametrize(
    "path",
    [
        "/outside/canary",
        "file:///o/canary",
        "../outside/canary",
        "s3://b/canary",
        "{table}/../canary",
        "{table}-2/{own}",
        "{table}/q/link/../../../other/{own}",
    ],
)
def test_a_rollback_that_would_remove_another_file_is_refused(table, path):
    """Hudi takes up a rollback that pends."""
    (table.base / "q" / "x" / "y" / "z").mkdir(parents=True)
    rollback(table, path.format(table=table.base, own=f"p/f1_0-1-0_{C}.parquet"))
    with pytest.raises(TableError, match="a rollback of it would remove"):
        job_of(table, GOOD)


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
@pytest.mark.parametrize("version", [9, 6])
def test_a_rollback_of_hudi_is_its_own(tmp_path, scheme, version):
    table = TableFolder(tmp_path / "t", version=version)
    for partition in ("p/", ""):
        rollback(table, f"{scheme}{table.base}/{partition}f1_0-1-0_{C}.parquet")
        if partition:
            assert job_of(table, GOOD).operations == (GOOD,)


def test_a_rollback_of_another_instant_is_not_looked_at(table):
    rollback(table, "/outside/canary", of=at("10:00:03"))
    assert job_of(table, GOOD).operations == (GOOD,)


@pytest.mark.parametrize(
    ("path", "below"),
    [
        ("s3a://b/t/p/f", "p/f"),
        ("s3://b/t/p/f", "p/f"),
        ("s3a://b/t-2/p/f", "s3://b/t-2/p/f"),
        ("s3a://c/t/p/f", "s3://c/t/p/f"),
        ("/etc/p/f", "/etc/p/f"),
    ],
)
def test_paths_in_a_bucket_are_those_of_every_client_of_s3(path, below):
    assert _below_table(path, "s3a://b/t") == below


@pytest.mark.parametrize(
    ("path", "below"),
    [
        ("hdfs://n/t/p/f", "p/f"),
        ("hdfs://n:8020/t/p/f", "p/f"),
        ("hdfs://n:9000/t/p/f", "hdfs://n:9000/t/p/f"),
        ("hdfs://other/t/p/f", "hdfs://other/t/p/f"),
        ("/t/p/f", "/t/p/f"),
    ],
)
def test_on_hdfs_hadoop_may_add_its_own_port(path, below):
    assert _below_table(path, "hdfs://n/t") == below


OWN = {
    "partitionPath": "p",
    "fileId": "f1",
    "latestBaseInstant": C,
    "logBlocksToBeDeleted": {f"p/{log('f1').name(C)}": 7},
}


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({}, None),
        ({"partitionPath": "../other"}, "names the partition `../other`"),
        ({"partitionPath": "../other", "logBlocksToBeDeleted": None}, "names the partition `../other`"),
        ({"partitionPath": "q"}, "write to the file group `f1`"),
        ({"fileId": "../f1"}, "write to the file group `../f1`"),
        ({"fileId": "f2"}, "write to the file group `f2`"),
        ({"latestBaseInstant": at("10:00:00")}, "write to the file group `f1`"),
        ({"logBlocksToBeDeleted": {"/outside/canary": 7}}, "remove `/outside/canary`"),
    ],
)
@pytest.mark.parametrize("version", [9, 6])
def test_a_rollback_that_would_write_elsewhere_is_refused(tmp_path, version, other, why):
    """Before table version 8 Hudi writes a block to the group that a request names; nobody but it says which."""
    table = TableFolder(tmp_path / "t", version=version)
    rollback(table, f"{table.base}/p/f1_0-1-0_{C}.parquet", **{**OWN, **other})
    if why is None:
        assert job_of(table, GOOD).operations == (GOOD,)
    else:
        with pytest.raises(TableError, match=f"a rollback of it (would )?{why}"):
            job_of(table, GOOD)


def test_a_rollback_of_what_is_no_text_is_of_an_unknown_form(table):
    """Hudi reads bytes as a text, and would take it for a rollback of the plan."""
    schema = json.loads(json.dumps(ROLLBACK_PLAN))
    schema["fields"][0]["type"]["values"] = "bytes"
    plan = {"instantToRollback": {"commitTime": C.encode()}, "RollbackRequests": []}
    table.file(at("10:00:08"), ".rollback.requested", avro(schema, plan))
    with pytest.raises(TableError, match="not in a form"):
        job_of(table, GOOD)


DONE = {"policy": "", "filePathsToBeDeletedPerPartition": {}, "partitionsToBeDeleted": []}


class TestServicesOfTheMetadataTable:
    """Hudi's client takes up what pends there, as the user of etc."""

    def clean(self, table, path, partition="files", state="requested"):
        metadata = TableFolder(table.meta / "metadata", version=9 if table.layout == 2 else 6)
        removed = {"files": [{"filePath": path}]}
        plan = {
            "policy": "KEEP_LATEST_COMMITS",
            "filePathsToBeDeletedPerPartition": removed,
            "partitionsToBeDeleted": [partition],
        }
        return metadata.file(at("10:00:09"), f".clean.{state}", avro(CLEAN_PLAN, plan))

    def require(self, table):
        require_own_services(Job(POLICY, str(table.base), 9 if table.layout == 2 else 6, ("files",), C))

    @pytest.mark.parametrize("version", [9, 6])
    @pytest.mark.parametrize("state", ["requested", "inflight"])
    @pytest.mark.parametrize(
        "path",
        [
            "/outside/canary",
            "file:///outside/canary",
            "s3://bucket/canary",
            "{table}/p/canary",
            "{table}/.hoodie/metadata/../hoodie.properties",
            "{table}/.hoodie/metadata-2/canary",
            "../canary",
        ],
    )
    def test_a_clean_of_other_files_is_refused(self, tmp_path, version, state, path):
        table = TableFolder(tmp_path / "t", version=version)
        self.clean(table, path.format(table=table.base), state=state)
        with pytest.raises(TableError, match="the clean that pends at") as error:
            self.require(table)
        assert error.value.code == "ETC245"

    @pytest.mark.parametrize("partition", ["..", "../../p", "/", "files/../../../p"])
    def test_so_is_one_of_other_folders(self, table, partition):
        self.clean(table, f"{table.base}/.hoodie/metadata/files/x.hfile", partition)
        with pytest.raises(TableError, match="the clean that pends"):
            self.require(table)

    def test_so_is_one_that_names_them_in_bytes(self, table):
        self.clean(table, b"/outside/canary")
        with pytest.raises(TableError, match="the clean that pends"):
            self.require(table)

    @pytest.mark.parametrize("scheme", ["", "file:", "file://"])
    @pytest.mark.parametrize("version", [9, 6])
    def test_those_of_hudi_are_left_to_it(self, tmp_path, version, scheme):
        table = TableFolder(tmp_path / "t", version=version)
        self.clean(table, f"{scheme}{table.base}/.hoodie/metadata/files/files-0000-0_0-1-0_001.hfile")
        self.require(table)

    def test_so_is_what_has_ended(self, table):
        pending = self.clean(table, "/outside/canary")
        with pytest.raises(TableError):
            self.require(table)
        pending.with_name(f"{at('10:00:09')}_{at('10:00:10')}.clean").write_bytes(avro(CLEAN_PLAN, DONE))
        self.require(table)

    def test_without_a_metadata_table_nothing_pends(self, table):
        self.require(table)

    @pytest.mark.parametrize(
        ("location", "text", "does"),
        [
            ("s3://bucket/t", "s3a://bucket/t/files/x.hfile", False),
            ("hdfs://node/t", "hdfs://node:8020/t/files/x.hfile", False),
            ("s3://bucket/t", "s3a://bucket/other/x.hfile", True),
            ("s3a://bucket/t", "s3a://bucket/t-2/x.hfile/", True),
            ("hdfs://node/t", "hdfs://evil:8020/t/files/x.hfile", True),
            ("hdfs://node/t", "/other/x.hfile", True),
            ("gs://bucket/t", "gs://bucket/t/../x.hfile", True),
        ],
    )
    def test_so_it_is_in_a_store(self, location, text, does):
        """A path of another place that is written in another way than the table's was taken for one below it."""
        assert _leads_out(text, location) == does
