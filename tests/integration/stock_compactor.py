"""Stock Hudi's own compaction in a process of its own: schedules and runs one after the other until a line comes on stdin.

Prints a word for each: `compacted`, `nothing`, or the class of the error. The table's lock is given, as its writers have it.
"""

from __future__ import annotations

import json
import select
import sys
import time
from pathlib import Path

from tests.integration.soak_places import start_spark_at
from tests.integration.soak_writer import SHARED
from tests.integration.stock_writer import reason

CONFS = {"spark.master": "local[2]", "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
EVERY = {"hoodie.compact.inline.max.delta.commits": "1"}
#: From the end of one to the next.
REST_SECONDS = 5.0


def compact(spark, location: str, options: str) -> str:
    """One compaction of all that is there."""
    try:
        spark.sql(f"CALL run_compaction(op => 'schedule', path => '{location}', options => '{options}')").collect()
        done = spark.sql(f"CALL run_compaction(op => 'run', path => '{location}', options => '{options}')").collect()
    except Exception as error:  # whatever stock Hudi ends with
        return reason(error).split(":")[0].rpartition(".")[2].replace(" ", "-")
    return "compacted" if done else "nothing"


def main() -> None:
    location, log, lock = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    options = ",".join(f"{key}={value}" for key, value in {**SHARED, **EVERY, **lock}.items())
    spark = start_spark_at(location, CONFS, log)
    while not select.select([sys.stdin], [], [], 0)[0]:
        print(compact(spark, location, options), flush=True)
        time.sleep(REST_SECONDS)


if __name__ == "__main__":
    main()
