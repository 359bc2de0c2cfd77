"""Stock Hudi: a compaction in a Java process of another time zone completes hours before or after it was requested."""

import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

from stock import Table, start_spark

#: A metadata table that has been compacted lately, as most have been: this one is after each commit.
UTC = {"hoodie.table.timeline.timezone": "UTC", "hoodie.metadata.compact.max.delta.commits": "1"}


def in_zone(zone, *arguments):
    """This script once more, as a process of its own with another TZ."""
    print(f"TZ={zone} {' '.join(arguments[:1])}", flush=True)
    subprocess.run([sys.executable, __file__, *arguments], env={**os.environ, "TZ": zone}, check=True)


def write(spark, path):
    """Two commits on a table whose timeline is in UTC, and a compaction that is scheduled and left to another job."""
    table = Table(spark, **UTC)
    table.path = path
    table.write((1, "first", 1), (2, "first", 1))
    table.write((1, "second", 2))
    options = "hoodie.compact.inline.max.delta.commits=1"
    table.call(f"run_compaction(op => 'schedule', path => '{path}', options => '{options}')")


def compact(spark, path):
    """What a job does that compacts only."""
    table = Table(spark)
    table.path = path
    table.call(f"run_compaction(op => 'run', path => '{path}')")


def show(spark, path):
    """The compaction's file on the timeline, and both views."""
    (done,) = Path(path, ".hoodie", "timeline").glob("*.commit")
    requested, completed = (_time(instant) for instant in done.stem.split("_"))
    print(f"  {done.name}: completed {(completed - requested).total_seconds() / 3600:+.1f} h after it was requested")
    for view, read_optimized in (("snapshot", "false"), ("read-optimized", "true")):
        rows = spark.read.format("hudi").option("hoodie.query.as.ro.table", read_optimized).load(path).collect()
        print(f"  {view}: {sorted((row.id, row.v) for row in rows)}", flush=True)


def _time(instant):
    return datetime.strptime(f"{instant}+0000", "%Y%m%d%H%M%S%f%z")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        {"write": write, "compact": compact, "show": show}[sys.argv[1]](start_spark(), sys.argv[2])
    else:
        import tempfile

        for zone in ("UTC", "America/Los_Angeles", "Asia/Tokyo"):
            path = f"{tempfile.mkdtemp()}/t"
            in_zone("UTC", "write", path)
            in_zone(zone, "compact", path)
            in_zone("UTC", "show", path)
            print()
