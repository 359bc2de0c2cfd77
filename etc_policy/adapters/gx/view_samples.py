"""Which keys a comparison of both views found wrong: a few of each kind, with what helps to find their rows."""

from __future__ import annotations

from typing import Any


def samples_of(joined: Any, facts: dict[str, Any], wanted: list[str], size: int) -> dict[str, list[dict[str, Any]]]:  # noqa: ANN401
    """Up to `size` keys of each wanted kind, in the order of their keys; different rows name the columns."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    kinds = F.array_compact(F.array(*[F.when(facts[name], F.lit(name)) for name in wanted]))
    rows = joined.withColumn("kind", F.explode(kinds)).select("kind", "partition", "key", _columns_that_differ(joined))
    order = Window.partitionBy("kind").orderBy("partition", "key")
    chosen = rows.withColumn("place", F.row_number().over(order)).where(F.col("place") <= size)
    samples: dict[str, list[dict[str, Any]]] = {name: [] for name in wanted}
    for row in chosen.orderBy("kind", "place").collect():
        sample = {"partition": row["partition"], "key": row["key"]}
        samples[row["kind"]].append({**sample, "columns": row["columns"]} if row["kind"] == "different" else sample)
    return samples


def _columns_that_differ(joined: Any) -> Any:  # noqa: ANN401
    from pyspark.sql import functions as F  # noqa: N812

    rt_type, ro_type = joined.schema["rt_values"].dataType, joined.schema["ro_values"].dataType
    rt, ro = F.col("rt_values"), F.col("ro_values")
    common = [name for name in rt_type.names if name in ro_type.names]
    unequal = [F.when(~rt.getField(n).eqNullSafe(ro.getField(n)), F.lit(n)) for n in common]
    return F.array_compact(F.array(*unequal)).alias("columns")


def with_file_groups(rt: Any, samples: list[dict[str, Any]]) -> list[dict[str, Any]]:  # noqa: ANN401
    """The samples, each with all file groups that have a row of its key."""
    from pyspark.sql import functions as F  # noqa: N812

    keys = [sample["key"] for sample in samples]
    rows = rt.where(F.col("key").isin(keys)).select("partition", "key", "rt_group").distinct().collect()
    across = "rt_place" in rt.columns
    return [
        {
            **sample,
            "file_groups": sorted(
                row["rt_group"]
                for row in rows
                if row["key"] == sample["key"] and (across or row["partition"] == sample["partition"])
            ),
        }
        for sample in samples
    ]
