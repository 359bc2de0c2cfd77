"""A stock writer in a process of its own: commits until it is told to stop. Prints the number of each commit that stands."""

import argparse
import time
from pathlib import Path

from etc_policy.spark.session import start_spark
from tests.integration.history import HISTORY, Write, write_history

#: A lock in the table's own folder, which never expires.
LOCKED = {"hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"}
#: What writers that share a table have besides a lock.
SHARED = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
}


def lock(folder: Path) -> dict[str, str]:
    """The options of writers that share a table: a lock in the file system."""
    return {
        **LOCKED,
        "hoodie.write.lock.filesystem.path": str(folder),
        "hoodie.write.lock.filesystem.expire": "1",
        "hoodie.write.lock.wait_time_ms_between_retry": "200",
        "hoodie.write.lock.num_retries": "100",
    }


CLEANER = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "6",
    "hoodie.keep.max.commits": "8",
    "hoodie.metadata.compact.max.delta.commits": "2",
}
INLINE = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "100"}


def options(kind: str, table: Path) -> dict[str, str]:
    """The writer's options by the words in its kind: `shared` or `locked` lock, `cleaner`, `inline` compaction."""
    chosen: dict[str, str] = {}
    if "shared" in kind:
        chosen |= lock(table.parent / "locks") | SHARED
    if "locked" in kind:
        chosen |= LOCKED | SHARED
    if "cleaner" in kind:
        chosen |= CLEANER
    if "inline" in kind:
        chosen |= INLINE
    return chosen


def write_of(number: int) -> Write:
    """A commit with newer rows in every partition and a late one at or below the threshold."""
    return Write(
        (
            (number % 12, f"w{number}", 1000 + number),
            ((number + 1) % 12, f"w{number}", 1000 + number),
            (12 + number % 3, f"late{number}", 10 + number % 190),
        )
    )


def newest_commit(table: Path) -> str:
    """The last delta commit that completed: nobody else makes any."""
    return max(path.name for path in (table / ".hoodie" / "timeline").glob("*_*.deltacommit"))


def reason(error: Exception) -> str:
    """What Hudi said first."""
    lines = [line for line in str(error).splitlines() if "hudi" in line and "Exception" in line]
    return (lines or str(error).splitlines())[0].removeprefix(": ")[:200]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("table", type=Path)
    parser.add_argument("kind")
    parser.add_argument("--pause", type=float, default=0.5)
    arguments = parser.parse_args()
    table, stop = arguments.table, arguments.table.parent / "stop"
    spark = start_spark({"spark.sql.shuffle.partitions": "2"}, table.parent / "writer.log")
    number = len(HISTORY)
    while not stop.exists():
        before = newest_commit(table)
        try:
            write_history(spark, table, (write_of(number),), options(arguments.kind, table), first=number)
        except Exception as error:
            stands = newest_commit(table) != before  # what fails after a commit is its inline compaction
            print(f"failed {'after the commit of ' if stands else ''}{number} {reason(error)}", flush=True)
        if newest_commit(table) != before:
            print(number, flush=True)
        number += 1
        time.sleep(arguments.pause)
    spark.stop()


if __name__ == "__main__":
    main()
