"""What the reproducers share: a Spark session with the stock Hudi bundle, and a table in a temporary folder.

pip install "pyspark==3.5.*"                 # and a Java 11 or 17
python duplicate_key.py                      # takes the bundle 1.2.0 from Maven Central
HUDI_VERSION=1.1.1 python duplicate_key.py   # another release
HUDI_BUNDLE=/path/to/bundle.jar python duplicate_key.py
"""

import os
import tempfile
from pathlib import Path

WRITER = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.delete.shuffle.parallelism": "1",
    "hoodie.compact.inline": "false",
}


def start_spark():
    """A local session over stock Hudi, as Hudi's quick start sets it up."""
    from pyspark.sql import SparkSession

    version = os.environ.get("HUDI_VERSION", "1.2.0")
    builder = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
        .config("spark.kryo.registrator", "org.apache.spark.HoodieSparkKryoRegistrar")
        .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.hudi.catalog.HoodieCatalog")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.warehouse.dir", tempfile.mkdtemp())
    )
    if jar := os.environ.get("HUDI_BUNDLE"):
        builder = builder.config("spark.jars", jar)
    else:
        builder = builder.config("spark.jars.packages", f"org.apache.hudi:hudi-spark3.5-bundle_2.12:{version}")
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    print(f"Spark {spark.version}, Hudi {Path(jar).stem if jar else version}", flush=True)
    return spark


class Table:
    """A merge-on-read table of (id, v, ts) in a folder of its own; each `write` is one commit."""

    def __init__(self, spark, **options):
        self.spark, self.options, self.path = spark, options, f"{tempfile.mkdtemp()}/t"

    def write(self, *rows, operation="upsert", columns="id int, v string, ts long", **options):
        frame = self.spark.createDataFrame(rows, columns).coalesce(1)
        settings = {**WRITER, "hoodie.datasource.write.operation": operation, **self.options, **options}
        frame.write.format("hudi").options(**settings).mode("append").save(self.path)
        print(f"  {operation} {list(rows)}", flush=True)

    def call(self, procedure):
        """One of Hudi's own Spark SQL procedures."""
        rows = self.spark.sql(f"CALL {procedure}").collect()
        print(f"  CALL {procedure.replace(self.path, 'PATH')}", flush=True)
        return rows

    def compact(self, op="scheduleAndExecute", **options):
        """Schedules a compaction of every log file, runs what is scheduled (`run`), or both."""
        settings = {"hoodie.compact.inline.max.delta.commits": "1", **options}
        given = ",".join(f"{key}={value}" for key, value in settings.items())
        return self.call(f"run_compaction(op => '{op}', path => '{self.path}', options => '{given}')")

    def views(self):
        """Prints the rows of both views, without Hudi's own columns; of an error the first line."""
        for view, read_optimized in (("snapshot", "false"), ("read-optimized", "true")):
            options = {**self.options, "hoodie.query.as.ro.table": read_optimized}
            try:
                frame = self.spark.read.format("hudi").options(**options).load(self.path)
                shown = frame.drop(*(name for name in frame.columns if name.startswith("_hoodie_")))
                found = f"{', '.join(shown.columns)}: {sorted((tuple(row) for row in shown.collect()), key=str)}"
            except Exception as error:
                found = root_cause(error).splitlines()[0]
            print(f"  {view + ':':<15} {found}", flush=True)

    def last_commit(self):
        """The instant of the newest commit that has written a row of the snapshot view."""
        rows = self.spark.read.format("hudi").options(**self.options).load(self.path).collect()
        return max(row._hoodie_commit_time for row in rows)

    def show(self, title):
        """The snapshot view, with the file group that each row comes from."""
        found = self.spark.read.format("hudi").load(self.path).orderBy("id", "ts").collect()
        groups = {}
        print(f"  {title}:")
        for row in found:
            group = groups.setdefault(row._hoodie_file_name.lstrip(".").split("_")[0], len(groups) + 1)
            print(f"    id={row.id} v={row.v} ts={row.ts}  (file group {group})")
        print(flush=True)
        return found

    def metadata_folders(self):
        """The indexes that lie in the metadata table."""
        folder = Path(self.path, ".hoodie", "metadata")
        return sorted(f.name for f in folder.iterdir() if f.name != ".hoodie" and f.is_dir()) if folder.exists() else []

    def metadata_partitions(self):
        """The indexes that the table says it has."""
        lines = Path(self.path, ".hoodie", "hoodie.properties").read_text().splitlines()
        pairs = dict(line.split("=", 1) for line in lines if "=" in line)
        return sorted(filter(None, pairs.get("hoodie.table.metadata.partitions", "").split(",")))


def root_cause(error):
    """The innermost Java exception's first line, and on a second one where it was thrown."""
    cause = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if cause is None:
        return str(error).splitlines()[0]
    while cause.getCause() is not None:
        cause = cause.getCause()
    frames = cause.getStackTrace()
    return f"{cause.toString().splitlines()[0]}\n    at {frames[0].toString()}" if len(frames) else cause.toString()
