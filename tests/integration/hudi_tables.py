"""Small real tables by the stock writer, and their timeline as the files tell it."""

from dataclasses import dataclass, field
from pathlib import Path

EPOCH_MS = 1_700_000_000_000

WRITER = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.compact.inline": "false",
    "hoodie.upsert.shuffle.parallelism": "2",
    "hoodie.delete.shuffle.parallelism": "2",
    "hoodie.metadata.enable": "false",
}


@dataclass
class StockTable:
    """A table at `base`; each call is one commit by the stock writer and returns its requested instant."""

    spark: object
    base: str
    schema: str
    ordering: str = "ts"
    options: dict = field(default_factory=dict)

    def write(self, rows, operation="upsert", **options):
        frame = self.spark.createDataFrame(rows, self.schema).coalesce(1)
        return self.write_frame(frame, operation, **options)

    def write_frame(self, frame, operation="upsert", **options):
        settings = {
            **WRITER,
            "hoodie.datasource.write.precombine.field": self.ordering,
            "hoodie.datasource.write.operation": operation,
            **self.options,
            **options,
        }
        frame.write.format("hudi").options(**settings).mode("append").save(self.base)
        return self.completed()[-1][1]

    def compact(self):
        """Compacts every log file by a stock full compaction; returns its instant."""
        always = "hoodie.compact.inline.max.delta.commits=1,hoodie.metadata.enable=false"
        for op in ("schedule", "run"):
            self.spark.sql(f"CALL run_compaction(op => '{op}', path => '{self.base}', options => '{always}')").collect()
        done = [requested for _, requested, action in self.completed() if action == "commit"]
        assert done, "the stock compaction did not run"
        return done[-1]

    def completed(self):
        """(completed, requested, action) of the active timeline, in completion order."""
        found = []
        for file in Path(self.base, ".hoodie", "timeline").glob("[0-9]*_*.*"):
            instants, action = file.name.split(".", 1)
            requested, completed = instants.split("_")
            found.append((completed, requested, action))
        return sorted(found)

    @property
    def last_completed(self):
        return self.completed()[-1][0]

    def view(self, *, read_optimized):
        reader = self.spark.read.format("hudi").option("hoodie.query.as.ro.table", str(read_optimized).lower())
        return reader.load(self.base)

    def file_ids(self):
        names = self.view(read_optimized=True).select("_hoodie_file_name").distinct().collect()
        return frozenset(row[0].split("_")[0] for row in names)

    def base_files(self):
        """Every base file on disk, old ones too."""
        return frozenset(file.name for file in Path(self.base).rglob("*.parquet"))
