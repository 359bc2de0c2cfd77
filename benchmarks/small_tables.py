"""What it takes to compact many small tables that are due: by `etc run`, by one `etc apply`, by one each, and by stock Hudi.

    python -m benchmarks.small_tables [--tables 20] [--in-one-session 20] [--alone 3]

Each table has two file groups with two log files each, all due; stock Hudi schedules and runs by `run_compaction`, for
`--in-one-session` tables in one Spark session, and for `--alone` tables in a session each. etc verifies by metadata. Seconds of
the processor are those of the whole tree of processes. Seconds are a table's part: where tables have a process each they are the
same however many these are, and elsewhere more tables share the start.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from benchmarks.execution import STOCK
from benchmarks.figures import add_json, environment_in, write_figures
from benchmarks.large_table import EPOCH_MS, WRITER
from benchmarks.start_up import etc, measured

_ROWS = 2_000
POLICY = """  - name: {name}
    table: lake/{name}
    event_time_column: {{column: ts, unit: ms}}
    data_latency: 1h
    verify: {{level: metadata}}
    writer: {{index: simple, compaction: none}}
"""


def write(base: Path) -> None:
    """The table that all others are copies of."""
    with environment_in(base.parent) as environment:
        frame = environment.spark.range(0, _ROWS).selectExpr(
            "id", "concat('p', id % 2) AS p", f"{EPOCH_MS} + id AS ts", "sha2(cast(id AS string), 512) AS v"
        )
        for operation, part in (("bulk_insert", 1), ("upsert", 10), ("upsert", 20)):
            options = {**WRITER, "hoodie.datasource.write.operation": operation}
            chosen = frame.where(f"(id - id % 2) % {part} = 0").coalesce(1)
            chosen.write.format("hudi").options(**options).mode("append").save(str(base))


def by_stock(tables: list[Path]) -> None:
    """Stock Hudi's procedure for each of the tables, in one session."""
    folder = tables[0].parent
    with environment_in(folder) as environment:
        for base in tables:
            for step in ("schedule", "run"):
                text = f"CALL run_compaction(op => '{step}', path => '{base}', options => '{STOCK}')"
                environment.spark.sql(text).collect()


def project_of(folder: Path, table: Path, count: int) -> list[Path]:
    """A project over so many copies of the table; the copies."""
    names = [f"t{number:03}" for number in range(count)]
    (folder / "policies").mkdir(parents=True)
    text = "version: 1\npolicies:\n" + "".join(POLICY.format(name=name) for name in names)
    (folder / "policies" / "all.yml").write_text(text)
    for name in names:
        shutil.copytree(table, folder / "lake" / name)
    return [folder / "lake" / name for name in names]


def require_compacted(tables: list[Path]) -> None:
    """Raise unless each table has a base file that a compaction wrote in both of its groups."""
    for base in tables:
        if len({path.name for path in base.rglob("*.parquet")}) < 4:
            raise SystemExit(f"{base} was not compacted")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=20)
    parser.add_argument(
        "--in-one-session", type=int, help="so many by stock Hudi in one session (default: as --tables)"
    )
    parser.add_argument("--alone", type=int, default=3, help="so many tables each in a process of their own")
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--stock", type=Path, nargs="+", help=argparse.SUPPRESS)
    add_json(parser)
    given = parser.parse_args()
    if given.write or given.stock:
        write(given.write) if given.write else by_stock(given.stock)
        return 0
    own, found = ["-m", "benchmarks.small_tables"], {}
    with tempfile.TemporaryDirectory(prefix="etc-small-") as name:
        root = Path(name)
        seconds, _ = measured([*own, "--write", str(root / "t")])
        print(f"{seconds:.0f} s to write the table that all others are copies of", flush=True)

        def run(way: str, count: int) -> tuple[float, float]:
            tables = project_of(root / way, root / "t", count)
            if way == "etc run":
                taken = etc(root / way, "run", "--rounds", "1")
            elif way == "one etc apply":
                taken = etc(root / way, "apply", "--yes")
            elif way == "an etc apply each":
                each = [etc(root / way, "apply", "--yes", "--select", table.name) for table in tables]
                taken = sum(wall for wall, _ in each), sum(used for _, used in each)
            elif way == "stock, one session":
                taken = measured([*own, "--stock", *map(str, tables)])
            else:
                each = [measured([*own, "--stock", str(table)]) for table in tables]
                taken = sum(wall for wall, _ in each), sum(used for _, used in each)
            require_compacted(tables)
            return taken[0] / count, taken[1] / count

        for way, count in (
            ("etc run", given.tables),
            ("one etc apply", given.tables),
            ("stock, one session", given.in_one_session or given.tables),
            ("an etc apply each", given.alone),
            ("stock, a session each", given.alone),
        ):
            wall, used = run(way, count)
            total = f"{count} tables in {wall * count:.0f} s"
            print(f"{way:24}{wall:7.2f} s wall{used:8.2f} s CPU a table: {total}", flush=True)
            found[way] = {"tables": count, "wall_seconds": wall, "cpu_seconds": used}
        write_figures(given.json, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
