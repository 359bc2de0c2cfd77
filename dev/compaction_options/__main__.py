"""Record which options a compaction's client reads under each bundle, and make the page that says what etc does about each.

python -m dev.compaction_options [--bundle 1.2.0 1.1.1 1.0.2 0.15.0]

It needs a JDK: a Java agent notes each reading of an option while a table with every index is compacted. The list is kept in
`dev/compaction_options/read.json`; `docs/reference/compaction-options.md` is made from it.
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

from etc_policy.hudi.writer_form import STREAMING, options_of_indexes
from etc_policy.policy.hudi_options import option_fault
from etc_policy.policy.manifest import EventTime, Policy
from etc_policy.run.ports import Job
from etc_policy.spark.client_options import client_options
from etc_policy.spark.session import start_spark

HERE = Path(__file__).parent
KEPT = HERE / "read.json"
PAGE = HERE.parents[1] / "docs" / "reference" / "compaction-options.md"
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
    "hoodie.schema.on.read.enable": "the schema is that of the last write before the compaction (facts: schema-of-the-cut)",
}
_HEAD = """# Options that a compaction reads

Made by `python -m dev.compaction_options` from runs of a compaction under each bundle, with every index that it has. What the
table's writers decide and a compaction writes is taken from the table; `etc debug` shows what it took, and from where.
"""
_SECTIONS = {
    "table": "Properties of the table: Hudi reads them from `hoodie.properties`",
    "indexes": "Taken from the table's index definitions, or where there are none (Hudi 0.x) from the statistics of its files",
    "writes": "Taken from the last writes, by the order in which they made their files; `hudi_options` wins",
    "footers": "Taken from the newest base file that is compacted: they decide sizes alone; `hudi_options` wins",
    "fixed": "Set by etc, so that the table stays as it is and two runs cannot harm each other",
    "reserved": "Reserved: a policy may not set them, and Hudi's default is right for a compaction",
    "free": "Hudi's defaults, or what `hudi_options` says: memory, speed, metrics, paths of temporary files",
}


def treatment(option: str) -> str:
    """The section of an option."""
    policy = Policy(name="t", table="/t", event_time=EventTime(column="ts"), data_latency_ms=1)
    fixed = client_options(Job(policy, "/t", 9, ("files",), "20260101000000000"))
    if option.startswith(_OF_TABLE):
        return "table"
    if option in _OF_FOOTERS:
        return "footers"
    if option in _of_indexes():
        return "indexes"
    if option == STREAMING:
        return "writes"
    if option in fixed or option in ("hoodie.payload.ordering.field", "hoodie.datasource.write.precombine.field"):
        return "fixed"
    return "free" if option_fault(option) is None else "reserved"


def _of_indexes() -> set[str]:
    from etc_policy.hudi.writer_form import IndexDefinition

    defined = {
        "column_stats": IndexDefinition(("c",), {}),
        "record_index": IndexDefinition((), {"isPartitioned": "true"}),
    }
    return {one.option for one in options_of_indexes(defined)}


def page(read: Mapping[str, list[str]]) -> str:
    """The page: each option once, with the bundles that read it where not all do; then what else etc does."""
    return "\n".join([_HEAD, *_lines(read), (HERE / "acts.md").read_text("utf-8")])


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
    """Record under each bundle, in a process of its own, then make the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", nargs="*", default=BUNDLES, help="none: only make the page")
    parser.add_argument("--record", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.record:
        print(json.dumps(record(given.record)))
        return
    read = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for bundle in given.bundle:
        coordinates = f"org.apache.hudi:hudi-spark3.5-bundle_2.12:{bundle}"
        command = [sys.executable, "-m", "dev.compaction_options", "--record", bundle]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, check=True, env={**os.environ, "ETC_HUDI_BUNDLE": coordinates}
        )
        read[bundle] = json.loads(done.stdout.splitlines()[-1])
        print(f"{bundle}: {len(read[bundle])} options")
        KEPT.write_text(json.dumps(read, indent=1) + "\n")
    PAGE.write_text(page(read))


if __name__ == "__main__":
    main()
