"""Run as a process of its own under a bundle of Hudi: writes a table of a version as that release does.

python -m tests.integration.mixed_lake 1.0.2 8 FOLDER
"""

import sys
from pathlib import Path

from etc_policy.spark.session import start_spark
from tests.integration.history import HISTORY, Oracle, write_history
from tests.integration.release_matrix import writer_options

#: Before its deletes by key, of which Hudi 1.0 compacts none. The last one comes after the threshold.
WRITTEN, SECOND = HISTORY[:3], 150
ORACLE = Oracle.of(WRITTEN)


def main(release: str, version: str, base: Path) -> None:
    spark = start_spark({"spark.sql.shuffle.partitions": "2"}, base.with_name(f"{base.name}.log"))
    write_history(spark, base, WRITTEN, writer_options(release, int(version)))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:3], Path(sys.argv[3]))
