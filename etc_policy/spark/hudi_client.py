"""The stock write client of the bundle that Spark has loaded, opened by py4j as a mirror of its table.

See facts: client-mirrors-table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from etc_policy.errors import EngineError, EtcError, RetryableError
from etc_policy.errors.codes import Code
from etc_policy.hudi.layout import METADATA_TABLE
from etc_policy.hudi.metadata_values import list_of, load_json, mapping_of
from etc_policy.hudi.properties import ordering_fields, parse_properties, properties_of, read_properties, require_own
from etc_policy.hudi.schemas import leaf_columns
from etc_policy.hudi.stable_reading import PERMISSIONS, table_errors
from etc_policy.hudi.writer_options import (
    COLUMN_LIST,
    COLUMN_STATISTICS,
    index_definitions,
    option_of_metadata_commits,
    options_of_base_file,
    options_of_indexes,
    require_encrypting,
)
from etc_policy.run.ports import Job
from etc_policy.spark import metadata_renewal
from etc_policy.spark.client_options import client_options, merge_options
from etc_policy.spark.cluster import raise_if_alone
from etc_policy.spark.commit_zone import commit_zone
from etc_policy.spark.interrupts import raise_if_interrupted
from etc_policy.spark.java_causes import is_caused_by, is_denied, java_causes
from etc_policy.spark.pinned_settings import pinned_in_tasks
from etc_policy.spark.store_outage import raise_store_outage
from etc_policy.storage.open_storage import open_reader

_HELD = "HoodieLockException"


@contextmanager
def hudi_client(spark: Any, job: Job, failure: EngineError) -> Iterator[Any]:
    """A write client for the job's table, closed afterwards; Java's errors come out as `failure` with Java's words.

    So does the end of Java itself, which py4j reports as an OSError once its first call has failed. A lock or a heartbeat
    that somebody else holds is a RetryableError, and so is a store that does not answer.
    """
    from py4j.protocol import Py4JError

    try:
        client = _create(spark, job, client_options(job))
        try:
            with commit_zone(spark._jvm, job), pinned_in_tasks(spark):
                yield client
        finally:
            client.close()
    except EtcError:
        raise
    except (Py4JError, OSError) as error:
        raise_if_interrupted()
        failure.cause = java_causes(error)
        if is_denied(failure.cause):
            failure.hint = f"{PERMISSIONS}. {failure.hint}"
        if is_caused_by(error, _HELD):
            message = f"another process holds the lock of `{job.base_path}`, or works on its instant {job.instant}"
            hint = "run this again; if nobody else is at work, compare `writer.lock` with what the writers use"
            raise RetryableError(Code.LOCK_IS_HELD, message, hint=hint, cause=failure.cause) from error
        raise_if_alone(spark, failure.cause)
        raise_store_outage(job.base_path, error)
        raise failure from error


def hudi_table(spark: Any, client: Any) -> Any:
    """The client's table as it is now."""
    return spark._jvm.org.apache.hudi.table.HoodieSparkTable.create(client.getConfig(), client.getEngineContext())


def method_names(java_object: Any) -> set[str]:
    """The names of its public methods: they differ between bundles."""
    return {method.getName() for method in java_object.getClass().getMethods()}


def makes_instants(jvm: Any) -> bool:
    """Whether the bundle makes instants by the layout of a table's timeline (from 1.0)."""
    from py4j.java_gateway import JavaClass

    return isinstance(jvm.org.apache.hudi.common.table.timeline.InstantGenerator, JavaClass)


def compaction_instant(jvm: Any, table: Any, job: Job, state: str = "REQUESTED") -> Any:
    """The job's instant on the table's timeline, in a state."""
    timeline = jvm.org.apache.hudi.common.table.timeline
    of_state = getattr(getattr(timeline, "HoodieInstant$State"), state)
    if makes_instants(jvm):
        return table.getMetaClient().getInstantGenerator().createNewInstant(of_state, "compaction", job.instant)
    return timeline.HoodieInstant(of_state, "compaction", job.instant)


def takes_write_metadata(client: Any) -> bool:
    """Whether `commitCompaction` takes the write metadata (from 1.1) or only the commit metadata (1.0, 0.x)."""
    methods = (m for m in client.getClass().getMethods() if m.getName() == "commitCompaction")
    return any(m.getParameterTypes()[1].getSimpleName() == "HoodieWriteMetadata" for m in methods)


def streams_metadata(client: Any, table: Any) -> bool:
    """Whether the client opens its commits to the metadata table before its work, and leaves those of others alone there."""
    config = client.getConfig()
    if "isMetadataStreamingWritesEnabled" not in method_names(config):  # before 1.1
        return False
    return bool(config.isMetadataStreamingWritesEnabled(table.getMetaClient().getTableConfig().getTableVersion()))


def heartbeats(client: Any) -> Any:
    """What beats for a compaction: its table services do, by a client of their own (from 1.1)."""
    if "getTableServiceClient" in method_names(client):
        client = client.getTableServiceClient()
    return client.getHeartbeatClient()


def metadata_reader(table: Any) -> Any:
    """The reader of a table's metadata table, under its name of 1.2 or before."""
    newer = "getTableMetadata" in method_names(table)
    return table.getTableMetadata() if newer else table.getMetadataTable()


def _create(spark: Any, job: Job, chosen: Mapping[str, str]) -> Any:
    """A client that writes as the table's writers do; where no index definition says which columns they keep statistics of,
    the statistics of its files do.
    """
    storage = open_reader(job.base_path)
    properties = read_properties(storage)
    with table_errors(job.base_path):
        properties_of(storage, METADATA_TABLE)  # Hudi goes by them too
        with suppress(FileNotFoundError):  # others say so
            require_encrypting(storage, job.model_file, lambda key: spark._jsc.hadoopConfiguration().get(key))
        of_table = (
            *options_of_indexes(index_definitions(storage, properties)),
            *option_of_metadata_commits(storage, properties),
        )
    options = {
        **{one.option: one.value for one in options_of_base_file(storage, job.model_file)},
        **chosen,
        **merge_options(ordering_fields(properties)),
        **{one.option: one.value for one in of_table if one.option not in job.policy.hudi_options},
    }
    asks = COLUMN_LIST not in options and not set(job.metadata_partitions).isdisjoint(COLUMN_STATISTICS)
    if asks and (noted := metadata_renewal.noted_columns(job.base_path)):
        return open_client(spark, job.base_path, {**options, COLUMN_LIST: noted})
    client = open_client(spark, job.base_path, options)
    if not asks or metadata_renewal.is_gone(job.base_path):
        return client
    columns = columns_with_statistics(spark, hudi_table(spark, client), job)
    if not columns:
        return client
    client.close()
    return open_client(spark, job.base_path, {**options, COLUMN_LIST: ",".join(columns)})


def open_client(spark: Any, base_path: str, options: Mapping[str, str]) -> Any:
    """A client as `HoodieCLIUtils.createHoodieWriteClient` makes it, of properties of the table that were checked: that reads
    them by itself, when they may have changed (facts: client-by-properties).

    Raises:
        TableError: they are not the table's alone.

    """
    jvm, hudi = spark._jvm, spark._jvm.org.apache.hudi
    conf = hudi.hadoop.fs.HadoopFSUtils.getStorageConf(spark._jsparkSession.sessionState().newHadoopConf())
    meta_client = hudi.common.table.HoodieTableMetaClient.builder().setBasePath(base_path).setConf(conf).build()
    table = meta_client.getTableConfig()
    properties = pairs_of(jvm, table.getProps())
    require_own(f"hoodie.properties of `{base_path}`, as Hudi reads it,", properties)
    confs = jvm.scala.collection.JavaConverters.mapAsJavaMap(spark._jsparkSession.sqlContext().getAllConfs())
    given = jvm.java.util.HashMap()
    for key, value in {**_of_hudi(properties), **_of_hudi(pairs_of(jvm, confs)), **options}.items():
        given.put(key, value)
    every = hudi.HoodieWriterUtils.parametersWithWriteDefaults(jvm.PythonUtils.toScalaMap(given))
    schema = table_schema(jvm, meta_client, False).toString()
    create = hudi.DataSourceUtils.createHoodieClient
    return create(
        spark.sparkContext._jsc,
        schema,
        base_path,
        table.getTableName(),
        jvm.scala.collection.JavaConverters.mapAsJavaMap(every),
    )


def pairs_of(jvm: Any, properties: Any) -> dict[str, str]:
    """Java's properties, in one call: it writes them in a form that is read in one way alone."""
    plain, writer = jvm.java.util.Properties(), jvm.java.io.StringWriter()
    plain.putAll(properties)
    plain.store(writer, None)
    return parse_properties(writer.toString())


def _of_hudi(pairs: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in pairs.items() if key.startswith("hoodie.")}


def table_schema(jvm: Any, meta_client: Any, *with_meta_columns: bool) -> Any:
    """The table's schema, whose text is Avro's JSON; 1.2 has one of its own in the place of Avro's."""
    resolver = jvm.org.apache.hudi.common.table.TableSchemaResolver(meta_client)
    newer = "getTableSchema" in method_names(resolver)
    return (resolver.getTableSchema if newer else resolver.getTableAvroSchema)(*with_meta_columns)


def columns_with_statistics(spark: Any, table: Any, job: Job) -> tuple[str, ...]:
    """The columns of which the metadata table has statistics for the job's log files, which writers alone make, or else for
    its base files.
    """
    jvm, reader = spark._jvm, metadata_reader(table)
    schema = table_schema(jvm, table.getMetaClient())
    columns = tuple(name for name, _ in leaf_columns(list_of(mapping_of(load_json(schema.toString()))["fields"])))
    for paths in (job.log_paths, job.base_paths):
        pairs = jvm.java.util.ArrayList()
        for path in paths:
            partition, _, name = path.rpartition("/")
            pairs.add(jvm.org.apache.hudi.common.util.collection.Pair.of(partition, name))
        found = tuple(column for column in columns if paths and reader.getColumnStats(pairs, column))
        if found:
            return found
    return ()
