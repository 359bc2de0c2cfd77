"""What must hold of a table whose run was killed and mended: its views for Spark and hudi-rs, and its files."""

from __future__ import annotations

from collections.abc import Mapping

from tests.integration.history import Oracle, Views
from tests.integration.kills import SECOND, Table


def read_views(spark, table: Table, numbers: range) -> dict[str, dict[int, str]]:
    """Views of a table in one pass of Spark: RT with and without the metadata table, RO, and of each numbered commit the
    time travel to it and its increment.
    """
    from functools import reduce

    from pyspark.sql import functions as F

    commits = table.commits()
    options: dict[str, Mapping[str, str]] = {
        "rt": {},
        "rt without the metadata table": {"hoodie.metadata.enable": "false"},
        "ro": {"hoodie.query.as.ro.table": "true"},
    }
    for number in numbers:
        completed = commits[number]
        options[f"as of {number}"] = {"as.of.instant": completed}
        options[f"incremental {number}"] = {
            "hoodie.datasource.query.type": "incremental",
            "hoodie.datasource.read.begin.instanttime": commits[number - 1] if number else "000",
            "hoodie.datasource.read.end.instanttime": completed,
        }
    frames = [
        spark.read.format("hudi").options(**of_view).load(str(table.base)).select(F.lit(name).alias("view"), "id", "v")
        for name, of_view in options.items()
    ]
    found: dict[str, dict[int, str]] = {name: {} for name in options}
    for row in reduce(lambda left, right: left.unionAll(right), frames).collect():
        assert row.id not in found[row.view], f"{row.view}: key {row.id} stands twice"
        found[row.view][row.id] = row.v
    return found


def check_views(spark, table: Table, oracle: Oracle, numbers: range | None = None) -> None:
    """Every view is what the oracle says, for Spark and for hudi-rs; `numbers` are the commits looked at, else all."""
    numbers = numbers or range(len(table.commits()))
    found, rust = read_views(spark, table, numbers), Views(None, table.base)
    ro = found.pop("ro")
    expected = {"rt": oracle.rt(), "rt without the metadata table": oracle.rt()}
    for number in numbers:
        expected |= {f"as of {number}": oracle.as_of(number), f"incremental {number}": oracle.incremental(number)}
    assert found == expected
    assert rust.rust() == oracle.rt()
    assert rust.rust(read_optimized=True) == ro
    promised = oracle.rt_up_to(SECOND)
    assert {key: ro.get(key) for key in promised} == promised


def check_files(table: Table) -> None:
    """One plan, one commit of it, and no file that a view could show unnamed.

    Markers of a completed instant may stay behind when it was killed right after its commit: archiving removes them.
    """
    plans, done = table.timeline("*.compaction.requested"), table.done("commit")
    assert len(plans) == len(done) == 1, [path.name for path in (*plans, *done)]
    assert table.done("commit", plans[0].name.split(".")[0]) == done
    assert table.orphans() == set()
    left = {path.name for path in (table.meta / ".temp").glob("*")}
    assert left <= {plans[0].name.split(".")[0]}, left
