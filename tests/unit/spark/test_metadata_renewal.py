"""A metadata table that forbids to take a killed run back; the dropping itself is run under the older bundle."""

from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest

from etc_policy.errors import EngineError
from etc_policy.spark import compactor as hudi_compactor
from etc_policy.spark import metadata_renewal
from etc_policy.spark.compactor import HudiCompactor
from tests.unit.hudi.table_folder import at
from tests.unit.spark.test_compactor import job_of

REFUSED = EngineError(
    "ETC304", "Hudi could not compact", cause="Commit being rolled back 1 is earlier than the latest compaction 2"
)
NOTE = ".hoodie/.etc/metadata_partitions"


@pytest.fixture
def compactor(table, monkeypatch):
    """A compactor whose steps raise what stands in `errors`, and tell with which partitions they were tried."""
    found = HudiCompactor(SimpleNamespace(_jvm=None))
    found.errors, found.tried, found.dropped, found.ended = [], [], [], []

    @contextmanager
    def client(job):
        yield None

    def step(job, *_):
        found.tried.append(job.metadata_partitions)
        if found.errors:
            raise found.errors.pop(0)

    def drop(jvm, client, hudi_table, job):
        found.dropped.append(job.metadata_partitions)
        (table.base / NOTE).parent.mkdir(exist_ok=True)
        (table.base / NOTE).write_text("\n".join(job.metadata_partitions))

    monkeypatch.setattr(hudi_compactor, "require_bundle", lambda *_: None)
    monkeypatch.setattr(found, "_client", client)
    monkeypatch.setattr(found, "_lock", lambda *_: nullcontext(lambda: None))
    monkeypatch.setattr(hudi_compactor, "streams_metadata", lambda *_: False)
    monkeypatch.setattr(found, "_run", step)
    monkeypatch.setattr(found, "_roll_back", step)
    monkeypatch.setattr(hudi_compactor, "compaction_instant", lambda *_: None)
    monkeypatch.setattr(hudi_compactor, "hudi_table", lambda *_: None)
    monkeypatch.setattr(
        hudi_compactor, "commit_nothing", lambda _spark, _client, job, _: found.ended.append(job.instant)
    )
    monkeypatch.setattr(metadata_renewal, "drop", drop)
    return found


def job(table, *partitions):
    from dataclasses import replace

    return replace(job_of(table), metadata_partitions=partitions)


def run(compactor, of):
    compactor.run(of, lambda: None, lambda: None)


def test_it_is_dropped_and_built_anew_with_all_that_it_had(table, compactor):
    compactor.errors = [REFUSED]
    run(compactor, job(table, "files", "record_index"))
    assert compactor.dropped == [("files", "record_index")]
    assert compactor.tried == [("files", "record_index")] * 2
    assert not (table.base / NOTE).exists()


def test_once_only_and_for_no_other_reason(table, compactor):
    compactor.errors = [REFUSED, REFUSED]
    with pytest.raises(EngineError, match="could not compact"):
        run(compactor, job(table, "files"))
    assert len(compactor.dropped) == 1
    compactor.errors = [EngineError("ETC304", "Hudi could not compact", cause="no space left")]
    with pytest.raises(EngineError, match="could not compact"):
        run(compactor, job(table, "files"))
    assert len(compactor.dropped) == 1


def test_what_a_run_dropped_that_died_then_is_built_by_the_next(table, compactor):
    """The table itself says by then that it has no metadata table."""
    compactor.errors = [REFUSED, EngineError("ETC304", "killed")]
    with pytest.raises(EngineError, match="killed"):
        run(compactor, job(table, "files", "record_index"))
    run(compactor, job(table))
    run(compactor, job(table, "files"))
    assert compactor.tried[2:] == [("files", "record_index"), ("files",)]


def test_a_plan_is_withdrawn_the_same_way(table, compactor):
    table.file(at("10:00:06"), ".compaction.inflight")
    compactor.errors = [REFUSED]
    compactor.withdraw(job(table, "files"))
    assert (len(compactor.tried), len(compactor.dropped), compactor.ended) == (2, 1, [at("10:00:06")])


def test_the_columns_of_its_statistics_are_noted_before_it_is_dropped(table, monkeypatch):
    """By the default of a client that is not told, other columns would have statistics, and readers miss rows."""
    column_list = "hoodie.metadata.index.column.stats.column.list"
    properties = SimpleNamespace(getProperty={column_list: "v,s.x"}.get)
    client = SimpleNamespace(
        getConfig=lambda: SimpleNamespace(getProps=lambda: properties), getEngineContext=lambda: None
    )
    found = SimpleNamespace(getMetaClient=lambda: None)
    (table.base / NOTE).parent.mkdir()
    dropped = []
    utility = SimpleNamespace(deleteMetadataTable=lambda *_: dropped.append((table.base / NOTE).exists()))
    hudi = SimpleNamespace(metadata=SimpleNamespace(HoodieTableMetadataUtil=utility))
    jvm = SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(hudi=hudi)))
    of, base = job(table, "files", "column_stats", "record_index"), str(table.base)
    assert (metadata_renewal.is_gone(base), metadata_renewal.noted_columns(base)) == (False, None)
    metadata_renewal.drop(jvm, client, found, of)
    assert dropped == [True]
    assert metadata_renewal.owed(base, ("files",)) == ("column_stats", "record_index")
    assert (metadata_renewal.is_gone(base), metadata_renewal.noted_columns(base)) == (True, "v,s.x")
    metadata_renewal.settle(of)
    assert (metadata_renewal.is_gone(base), metadata_renewal.noted_columns(base)) == (False, None)
    properties.getProperty = lambda _: None
    metadata_renewal.drop(jvm, client, found, of)
    assert (metadata_renewal.is_gone(base), metadata_renewal.noted_columns(base)) == (True, None)
