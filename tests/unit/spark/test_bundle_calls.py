"""Every call into Hudi's bundle by py4j, looked up in the classes of each supported release: py4j itself does not look before."""

import ast
import re
from operator import itemgetter
from pathlib import Path

import pytest

import etc_policy
from tests.bundle_classes import bundle
from tests.unit.hudi.table_folder import (
    CLEAN_PLAN,
    CLEAN_SCHEMA,
    COMMIT_SCHEMA,
    REPLACE_SCHEMA,
    ROLLBACK_PLAN,
    ROLLBACK_SCHEMA,
)

pytestmark = pytest.mark.extended

_CLIENT, _COMMON, _TABLE = "org.apache.hudi.client", "org.apache.hudi.common", "org.apache.hudi.table"
_TIMELINE, _MODEL = f"{_COMMON}.table.timeline", f"{_COMMON}.model"
_STAT, _SET = (
    f"{_MODEL}.HoodieDeltaWriteStat",
    ("FileId", "PartitionPath", "Path", "PrevCommit", "BaseFile", "LogFiles"),
)
#: The classes of the bundle with the methods that are called on them.
CALLS = {
    f"{_CLIENT}.SparkRDDWriteClient": "close commitCompaction compact getConfig getEngineContext getHeartbeatClient",
    f"{_CLIENT}.BaseHoodieTableServiceClient": "getHeartbeatClient",
    f"{_CLIENT}.WriteStatus": "getErrors getGlobalError getStat hasErrors setFileId setPartitionPath setStat",
    f"{_CLIENT}.heartbeat.HoodieHeartbeatClient": "stop",
    f"{_CLIENT}.transaction.TransactionManager": "close",
    f"{_COMMON}.config.HoodieMetadataConfig": "newBuilder",
    f"{_COMMON}.config.HoodieMetadataConfig$Builder": "build enable",
    f"{_COMMON}.engine.HoodieLocalEngineContext": "",
    f"{_COMMON}.table.HoodieTableConfig": "getProps getTableName getTableVersion",
    f"{_COMMON}.table.HoodieTableMetaClient": "builder getActiveTimeline getTableConfig",
    f"{_COMMON}.table.HoodieTableMetaClient$Builder": "build setBasePath setConf",
    f"{_COMMON}.table.TableSchemaResolver": "",
    f"{_COMMON}.util.Option": "empty get of",
    f"{_COMMON}.util.collection.Pair": "getLeft getRight of",
    f"{_MODEL}.HoodieCommitMetadata": "addMetadata addWriteStat getWriteStats setOperationType",
    f"{_MODEL}.HoodieRecord": "",
    f"{_MODEL}.HoodieTimelineTimeZone": "getZoneId",
    f"{_MODEL}.WriteOperationType": "",
    _STAT: " ".join(
        (*(f"set{name}" for name in _SET), "getPath getTotalWriteErrors setFileSizeInBytes setLogOffset setLogVersion")
    ),
    f"{_TIMELINE}.HoodieActiveTimeline": "transitionCompactionRequestedToInflight",
    f"{_TIMELINE}.HoodieInstant": "",
    f"{_TIMELINE}.HoodieInstant$State": "",
    f"{_TIMELINE}.HoodieInstantTimeGenerator": "",
    "org.apache.hudi.DataSourceUtils": "createHoodieClient",
    "org.apache.hudi.HoodieWriterUtils": "parametersWithWriteDefaults",
    "org.apache.hudi.avro.model.HoodieMetadataColumnStats": "getMaxValue getMinValue getNullCount",
    "org.apache.hudi.config.HoodieWriteConfig": "getProps getSchema newBuilder",
    "org.apache.hudi.config.HoodieWriteConfig$Builder": "build withProperties",
    "org.apache.hudi.hadoop.fs.HadoopFSUtils": "getStorageConf",
    "org.apache.hudi.metadata.HoodieBackedTableMetadata": "close getAllFilesInPartitions getAllPartitionPaths getColumnStats",
    "org.apache.hudi.metadata.HoodieMetadataPayload": "",
    "org.apache.hudi.metadata.HoodieTableMetadataUtil": "deleteMetadataTable",
    "org.apache.hudi.metadata.SparkHoodieBackedTableMetadataWriter": "create",
    "org.apache.hudi.storage.HoodieStorageUtils": "getStorage",
    f"{_TABLE}.HoodieSparkTable": "create getActiveTimeline getMetaClient getStorage getStorageConf rollbackInflightCompaction",
    f"{_TABLE}.action.HoodieWriteMetadata": "getCommitMetadata getWriteStatuses setCommitMetadata setWriteStatuses",
}
_OLD, _NEW = ("0.15.0", "1.0.1", "1.0.2"), ("1.1.1", "1.2.0")
_LAYOUTS = ("1.0.1", "1.0.2", *_NEW)
RELEASES = (*_OLD, *_NEW)
#: What some releases alone have; etc asks before it calls.
IN_SOME = {
    (f"{_CLIENT}.SparkRDDWriteClient", "getTableServiceClient"): RELEASES,
    (f"{_CLIENT}.transaction.TransactionManager", "beginStateChange"): _NEW,
    (f"{_CLIENT}.transaction.TransactionManager", "endStateChange"): _NEW,
    (f"{_CLIENT}.transaction.TransactionManager", "beginTransaction"): _OLD,
    (f"{_CLIENT}.transaction.TransactionManager", "endTransaction"): _OLD,
    (f"{_COMMON}.table.HoodieTableMetaClient", "getInstantGenerator"): _LAYOUTS,
    (f"{_COMMON}.table.TableSchemaResolver", "getTableAvroSchema"): RELEASES[:-1],
    (f"{_COMMON}.table.TableSchemaResolver", "getTableSchema"): RELEASES[-1:],
    ("org.apache.hudi.config.HoodieWriteConfig", "isMetadataStreamingWritesEnabled"): _NEW,
    (f"{_TABLE}.HoodieSparkTable", "getTableMetadata"): RELEASES[-1:],
    (f"{_TABLE}.HoodieSparkTable", "getMetadataTable"): RELEASES[:-1],
    (f"{_TIMELINE}.InstantGenerator", "createNewInstant"): _LAYOUTS,
    (f"{_TIMELINE}.HoodieInstantTimeGenerator", "formatDateBasedOnTimeZone"): _NEW,
    (f"{_TIMELINE}.HoodieInstantTimeGenerator", "getInstantFromTemporalAccessor"): RELEASES,
}
#: Methods of Java, Spark, Scala, py4j and Python itself that etc calls in the rooms that reach the bundle.
_OF_OTHERS = """
addHandler alterPartitions asDict asMap bitwiseOR cancelAllJobs countAsync createDataFrame createTime currentThread dataType
elementType eqNullSafe externalCatalog forName getActiveJobsIds getActiveStageIds getAll getAllConfs getAuthority getCause
getChannel getClass
getClazz getContextClassLoader getDeclaredField getDeclaredFields getDeclaredMethods getDefaultUri getExecutorInfos getField getId
getImplementationVersion getLogger getMethods getName getOrCreate getPackage getParameterTypes getPartitionOption getProperty
getScheme getSimpleName getStageInfo getStringCollection getTable getTime getValue groupBy hadoopConfiguration isDone isEmpty
isInCollection isNotNull isNull keyType lastAccessTime mapAsJavaMap newHadoopConf newInstance numActiveTasks orderBy partitionBy
partitionColumnNames putAll sessionState setAccessible setAll setImplementedInterfaces setLocalProperty setLogLevel
setParentClassLoader sharedState simpleString singletonList sparkContext sqlContext statusTracker stringifyException
systemDefault tableExists toEpochDay toEpochMilli toLocalDate toLocalIterator toScalaMap toSeq toString tryLock typeName
unionAll unionByName valueOf valueType withColumn withColumns
"""
_ROOMS = ("spark", "gx", "demo")


def called():
    """The names of Java's form that are asked of objects in the rooms that reach the bundle."""
    root = Path(etc_policy.__file__).parent
    trees = (ast.parse(file.read_text("utf-8")) for room in _ROOMS for file in (root / room).rglob("*.py"))
    names = (node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return {name for name in names if re.match(r"[a-z]+[A-Z]", name)}


def test_every_call_is_listed():
    """Also that nothing is listed that nobody calls any more."""
    listed = {name for methods in CALLS.values() for name in methods.split()} | {name for _, name in IN_SOME}
    plain = {name for name in listed if not re.match(r"[a-z]+[A-Z]", name)}
    of_setters = {f"set{name}" for name in _SET}
    assert called() - set(_OF_OTHERS.split()) == listed - plain - (of_setters - called())


@pytest.mark.parametrize("release", RELEASES)
def test_each_release_has_what_is_called(release):
    jar = bundle(release)
    lacking = [name for name in CALLS if name not in jar.names]
    lacking += [
        f"{name}.{one}" for name, methods in CALLS.items() for one in set(methods.split()) - set(jar.methods(name))
    ]
    assert lacking == []
    has = {key for key in IN_SOME if key[1] in set(jar.methods(key[0]))}
    assert has == {key for key, releases in IN_SOME.items() if release in releases}


def names_in(schema):
    """The names of the fields of an Avro schema and of the records in it."""
    if isinstance(schema, dict):
        for field in schema.get("fields", ()):
            yield field["name"]
        for one in schema.values():
            yield from names_in(one)
    elif isinstance(schema, list):
        for one in schema:
            yield from names_in(one)


@pytest.mark.parametrize(
    "schema",
    [COMMIT_SCHEMA, REPLACE_SCHEMA, ROLLBACK_SCHEMA, ROLLBACK_PLAN, CLEAN_SCHEMA, CLEAN_PLAN],
    ids=itemgetter("name"),
)
def test_the_fields_that_tests_write_are_those_of_hudi(schema):
    """Case by case: a rollback's requests were read, and written by tests, under a name that no release knows."""
    classes = (bundle(release).read(f"org.apache.hudi.avro.model.{schema['name']}") for release in RELEASES)
    texts = "".join(text for found in classes for text in found.texts)
    assert set(names_in(schema)) - set(re.findall(r'"name":"(\w+)"', texts)) == set()
