"""Record which options a compaction's client reads under each bundle, and say what etc does about each.

python -m dev.compaction_options [--bundle 1.2.0 1.1.1 1.0.2 0.15.0]

It needs a JDK: a Java agent notes each reading of an option while a table with every index is compacted. The list is kept in
`dev/compaction_options/read.json`; the site's page of compaction options is made from it. A new option is judged here before it
has a place on the page: does it change rows or base files?
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from etc_policy.hudi.writer_options import STREAMING, options_of_indexes
from etc_policy.policy.hudi_options import OPERATION_OPTION, option_fault
from etc_policy.policy.manifest import EventTime, Policy
from etc_policy.run.ports import Job
from etc_policy.spark.client_options import client_options
from etc_policy.spark.session import start_spark

HERE = Path(__file__).parent
KEPT = HERE / "read.json"
BUNDLES = ("1.2.0", "1.1.1", "1.0.2", "0.15.0")
#: What is taken from the footers of base files.
_OF_FOOTERS = (
    "hoodie.parquet.compression.codec",
    "hoodie.bloom.index.filter.type",
    "hoodie.index.bloom.num_entries",
    "hoodie.index.bloom.fpp",
)
#: What Hudi takes from `hoodie.properties`, whatever a client says, by how its name begins.
_OF_TABLE = (
    "hoodie.table.",
    "hoodie.archivelog.folder",
    "hoodie.timeline.",
    "hoodie.populate.meta.fields",
    "hoodie.record.merge.",
    "hoodie.database.name",
    "hoodie.datasource.write.drop.partition.columns",
    "hoodie.datasource.write.hive_style_partitioning",
    "hoodie.datasource.write.keygenerator.",
    "hoodie.datasource.write.partitionpath.urlencode",
    "hoodie.datasource.write.recordkey.field",
    "hoodie.datasource.write.slash.separated.date.partitioning",
    "hoodie.partition.metafile.use.base.format",
)
#: What begins like them, and only writers say.
_OF_WRITERS = ("hoodie.table.service", "hoodie.datasource.write.keygenerator.consistent.")
#: What changes how rows are merged or base files are written, and no file of the table shows.
_ASKED = (
    "hoodie.avro.write.support.class",
    "hoodie.bloom.index.filter.dynamic.max.entries",
    "hoodie.client.init.callback.classes",
    "hoodie.datasource.write.record.merger.impls",
    "hoodie.io.factory.class",
    "hoodie.merge.use.record.positions",
    "hoodie.parquet.",
    "hoodie.precommit.validators",
    "hoodie.prewrite.validators",
    "hoodie.storage.class",
    "hoodie.write.record.merge.custom.implementation.classes",
    "hoodie.write.record.positions",
)
#: What changes neither rows nor base files: memory, speed, metrics, files for a while, how writers find keys and make log files,
#: and services that a run does not start. Of the schemas Hudi takes that of the table.
_WITHOUT_EFFECT = (
    "hoodie.allow.empty.commit",
    "hoodie.assume.date.partitioning",
    "hoodie.avro.schema",
    "hoodie.block.writes.on.speculative.execution",
    "hoodie.bloom.index.parallelism",
    "hoodie.bootstrap.index.",
    "hoodie.bucket.index.",
    "hoodie.clean.",
    "hoodie.cleaner.",
    "hoodie.clustering.schedule.inline",
    "hoodie.common.",
    "hoodie.compaction.reverse.log.read",
    "hoodie.consistency.check.",
    "hoodie.copyonwrite.record.size.estimate",
    "hoodie.datasource.write.commitmeta.key.prefix",
    "hoodie.datasource.write.insert.drop.duplicates",
    "hoodie.datasource.write.keygenerator.consistent.",
    "hoodie.embed.timeline.server.",
    "hoodie.errortable.",
    "hoodie.expression.index.",
    "hoodie.fail.job.on.duplicate.data.file.detection",
    "hoodie.file.group.reader.enabled",
    "hoodie.file.listing.parallelism",
    "hoodie.filesystem.",
    "hoodie.finalize.write.parallelism",
    "hoodie.hfile.",
    "hoodie.index.class",
    "hoodie.index.type",
    "hoodie.internal.schema",
    "hoodie.keep.",
    "hoodie.logfile.data.block.",
    "hoodie.markers.",
    "hoodie.memory.",
    "hoodie.merge.data.validation.enabled",
    "hoodie.merge.small.file.group.candidates.limit",
    "hoodie.metadata.table.service.manager.",
    "hoodie.metaserver.enabled",
    "hoodie.metrics.",
    "hoodie.optimized.log.blocks.scan.enable",
    "hoodie.prewrite.cleaner.policy",
    "hoodie.record.size.",
    "hoodie.release.resource.on.completion.enable",
    "hoodie.schema.on.read.enable",
    "hoodie.storage.layout.type",
    "hoodie.time.generator.",
    "hoodie.write.application.id",
    "hoodie.write.commit.callback.on",
    "hoodie.write.concurrency.early.conflict.detection.enable",
    "hoodie.write.executor.type",
    "hoodie.write.markers.type",
    "hoodie.write.merge.handle.fallback",
    "hoodie.write.partial.update.schema",
    "hoodie.write.rolling.metadata.keys",
    "hoodie.write.schema",
    "hoodie.write.status.storage.level",
    "hoodie.write.tagged.record.storage.level",
    "hoodie.writestatus.class",
)
#: What the writers may set and a compaction does not take from anywhere.
_NOTES = {
    **dict.fromkeys(
        (
            "hoodie.parquet.outputtimestamptype",
            "hoodie.parquet.writelegacyformat.enabled",
            "hoodie.parquet.field_id.write.enabled",
            "hoodie.parquet.bloom.filter.enabled",
            "hoodie.write.record.positions",
            "hoodie.merge.use.record.positions",
        ),
        "writers that set it: rows, types of columns and later writes as with their own client (1.2.0, run)",
    ),
    **dict.fromkeys(
        (
            "hoodie.write.record.merge.custom.implementation.classes",
            "hoodie.datasource.write.record.merger.impls",
        ),
        "name the classes of a merger of your own in `hudi_options`",
    ),
    **dict.fromkeys(
        ("hoodie.metadata.table.service.manager.enabled", "hoodie.metadata.table.service.manager.actions"),
        "set both in `hudi_options` where a process of its own runs the services of the metadata table",
    ),
    "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled": "keys are read of meta columns; without these a "
    "table with a time in its key is refused",
    "hoodie.schema.on.read.enable": "the schema is that of the last write before the compaction (facts: schema-of-the-cut)",
}
_SECTIONS = {
    "table": "Properties of the table: Hudi reads them from `hoodie.properties`",
    "indexes": "Taken from the table's index definitions, or where there are none (Hudi 0.x) from the statistics of its files",
    "writes": "Taken from the last writes, by the order in which they made their files; `hudi_options` wins",
    "footers": "Taken from the newest base file that is compacted: they decide sizes alone; `hudi_options` wins",
    "logs": "Seen in the table's log files and base files, whose schema has a column of operations (Flink's changelog mode)",
    "asked": "Asked of the policy: they change how rows are merged or base files are written, and the table shows none of them",
    "fixed": "Set by etc, so that the table stays as it is and two runs cannot harm each other",
    "reserved": "Reserved: a policy may not set them, and Hudi's default is right for a compaction",
    "free": "Without effect on rows and base files: Hudi's defaults, or what `hudi_options` says",
}


def treatment(option: str) -> str:
    """The section of an option.

    Raises:
        KeyError: nobody has said yet what it changes.

    """
    policy = Policy(name="t", table="/t", event_time=EventTime(column="ts"), data_latency_ms=1)
    fixed = client_options(Job(policy, "/t", 9, ("files",), "20260101000000000"))
    if option.startswith(_OF_TABLE) and not option.startswith(_OF_WRITERS):
        return "table"
    if option in _OF_FOOTERS:
        return "footers"
    if option in _of_indexes():
        return "indexes"
    if option == STREAMING:
        return "writes"
    if option in fixed or option in ("hoodie.payload.ordering.field", "hoodie.datasource.write.precombine.field"):
        return "fixed"
    if option == OPERATION_OPTION:
        return "logs"
    if option_fault(option) is not None:
        return "reserved"
    known = {"asked": _ASKED, "free": _WITHOUT_EFFECT}
    found = next((section for section, names in known.items() if option.startswith(names)), None)
    if found is None:
        raise KeyError(f"{option}: does it change rows or base files?")
    return found


def kept() -> dict[str, Any]:
    """What is kept: the options that a compaction `read` under each bundle, and all others that these declare, `unread`."""
    found: dict[str, Any] = json.loads(KEPT.read_text("utf-8"))
    return found


def unread(read: Mapping[str, list[str]]) -> list[str]:
    """The options that the bundles declare and no compaction reads."""
    from tests.bundle_classes import bundle

    declared = {option for release in read for option in bundle(release).options()}
    return sorted(declared.difference(*read.values()))


def _of_indexes() -> set[str]:
    from etc_policy.hudi.writer_options import IndexDefinition

    defined = {
        "column_stats": IndexDefinition(("c",), {}),
        "record_index": IndexDefinition((), {"isPartitioned": "true"}),
    }
    return {one.option for one in options_of_indexes(defined)}


def render_compaction_options() -> str:
    """Each option that is read once, with the bundles that read it where not all do."""
    return "\n".join(_lines(kept()["read"]))


def _lines(read: Mapping[str, list[str]]) -> Iterator[str]:
    options = sorted({option for found in read.values() for option in found})
    for section, title in _SECTIONS.items():
        yield f"## {title}\n"
        for option in options:
            if treatment(option) == section:
                by = [bundle for bundle, found in read.items() if option in found]
                note = f": {_NOTES[option]}" if option in _NOTES else ""
                yield f"- `{option}`" + ("" if len(by) == len(read) else f" ({', '.join(by)})") + note
        yield ""


def record(bundle: str) -> list[str]:
    """The options that a compaction of a table with every index reads, under the bundle that Spark is started with."""
    from tests.integration.index_play import SQL_INDEXES, IndexedTable
    from tests.integration.session import stop_spark

    root = Path(tempfile.mkdtemp(prefix="options-"))
    confs = {"spark.driver.extraJavaOptions": f"-javaagent:{_agent(root)}", "spark.sql.shuffle.partitions": "2"}
    spark = start_spark(confs, root / "spark.log")
    try:
        version = 6 if bundle.startswith("0.") else 8 if bundle.startswith("1.0") else 9
        table = IndexedTable(spark, root / "t", version, SQL_INDEXES if bundle >= "1.1" else ())
        table.make()
        recorder: Any = spark._jvm.OptionRecorder
        recorder.start()
        table.compact()
        return str(recorder.stop()).split("\n")
    finally:
        stop_spark(spark)
        shutil.rmtree(root, ignore_errors=True)


def _agent(root: Path) -> Path:
    """The Java agent as a jar."""
    import pyspark

    asm = next(Path(pyspark.__file__).parent.glob("jars/xbean-asm9-shaded-*.jar"))
    (root / "manifest").write_text("Premain-Class: OptionRecorder\n")
    subprocess.run(
        ["javac", "-cp", str(asm), "-d", str(root / "classes"), str(HERE / "OptionRecorder.java")], check=True
    )
    subprocess.run(["jar", "cfm", "agent.jar", "manifest", "-C", "classes", "."], cwd=root, check=True)
    return root / "agent.jar"


def main() -> None:
    """Record under each bundle, in a process of its own, then judge what is read."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", nargs="*", default=BUNDLES, help="none: only judge what is kept")
    parser.add_argument("--record", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.record:
        print(json.dumps(record(given.record)))
        return
    read = kept()["read"]
    for bundle in given.bundle:
        coordinates = f"org.apache.hudi:hudi-spark3.5-bundle_2.12:{bundle}"
        command = [sys.executable, "-m", "dev.compaction_options", "--record", bundle]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, check=True, env={**os.environ, "ETC_HUDI_BUNDLE": coordinates}
        )
        read[bundle] = json.loads(done.stdout.splitlines()[-1])
        print(f"{bundle}: {len(read[bundle])} options")
    KEPT.write_text(json.dumps({"read": read, "unread": unread(read)}, indent=1) + "\n")
    render_compaction_options()  # raises for what nobody has judged


if __name__ == "__main__":
    main()
