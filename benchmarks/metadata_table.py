"""Makes a table of `benchmarks.metadata_verification` with a metadata table by stock Hudi, which lists its files.

    python -m benchmarks.metadata_table FOLDER --commits 1000 --file-groups 100

The metadata table is made over all commits but the last nine, as by a writer that turns it on; then each of those is written to
it. So it is as it may be shortly before its next compaction: a base file and nine log files. It has no column statistics, as
the data files hold nothing.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.metadata_verification import PARTITIONS, write_commit, write_table

#: Delta commits after the metadata table's base file: Hudi compacts it after ten.
LATEST = 9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--commits", type=int, default=100)
    parser.add_argument("--file-groups", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    given = parser.parse_args()
    write_listed_table(given.folder, given.commits, given.file_groups, given.partitions)


def write_listed_table(base: Path, commits: int, file_groups: int, partitions: int) -> None:
    """The table in a folder that is not there yet."""
    from etc_policy.adapters.spark.session import start_spark

    write_table(base, commits - LATEST, file_groups, partitions)
    spark = start_spark({"spark.driver.memory": "2g"}, base.with_name("spark.log"))
    table = _Table(spark, base)
    table.writer().close()
    for number in range(commits - LATEST + 1, commits + 1):
        write_commit(base, base / ".hoodie" / "timeline", number, file_groups, partitions)
        table.write_last_commit()
    spark.stop()


class _Table:
    """A table as stock Hudi sees it, by its classes in Java."""

    def __init__(self, spark: Any, base: Path) -> None:  # noqa: ANN401 - a Spark session
        self._base, self._hudi = str(base), spark._jvm.org.apache.hudi
        self._conf = self._hudi.hadoop.fs.HadoopFSUtils.getStorageConf(spark._jsc.hadoopConfiguration())
        self._context = self._hudi.client.common.HoodieSparkEngineContext(spark._jsc)
        metadata = self._hudi.common.config.HoodieMetadataConfig.newBuilder().enable(True)
        options = self._hudi.config.HoodieWriteConfig.newBuilder().withPath(self._base).forTable("t")
        without_statistics = metadata.withMetadataIndexColumnStats(False).build()
        self._config = options.withEmbeddedTimelineServerEnabled(False).withMetadataConfig(without_statistics).build()

    def writer(self) -> Any:  # noqa: ANN401 - a Java object
        """A writer of the metadata table, which makes one where there is none."""
        factory = self._hudi.metadata.SparkMetadataWriterFactory
        return factory.create(self._conf, self._config, self._context, self._client().getTableConfig())

    def write_last_commit(self) -> None:
        """Write the table's last commit to its metadata table."""
        timeline, writer = self._client().reloadActiveTimeline(), self.writer()
        last = timeline.lastInstant().get()
        writer.update(timeline.readCommitMetadata(last), last.requestedTime())
        writer.close()

    def _client(self) -> Any:  # noqa: ANN401 - a Java object
        return (
            self._hudi.common.table.HoodieTableMetaClient.builder().setConf(self._conf).setBasePath(self._base).build()
        )


if __name__ == "__main__":
    main()
