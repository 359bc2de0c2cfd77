"""What is counted over the rows of RO alone: one aggregation, which needs no shuffle, and one look for double keys."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from etc_policy.adapters.gx.event_time_sql import event_time_ms
from etc_policy.adapters.gx.view_rows import FILE_NAME, KEY, inside, is_global, is_one_of
from etc_policy.verify.ports import DataCheck


@dataclass(frozen=True, slots=True)
class RoCounts:
    """Counts of RO's rows; those that begin with `same` are of files that both views read alike, and so are RT's too."""

    ro_rows: int
    rows_of_other_files: int
    rows_without_key: int
    same_files: int
    same_rows: int
    same_promised: int
    same_null_event_times: int
    same_unreadable_event_times: int
    unreadable_sample: str | None = None
    earliest_event_ms: int | None = None
    latest_event_ms: int | None = None

    @classmethod
    def from_json(cls, text: str) -> RoCounts:
        """The counts of an aggregation by `ro_counts`."""
        return cls(**json.loads(text))

    def added_to(self, counts: dict[str, Any]) -> dict[str, Any]:
        """The counts of the rows that were compared, with all others added."""
        earliest = [one for one in (self.earliest_event_ms, counts["earliest_event_ms"]) if one is not None]
        latest = [one for one in (self.latest_event_ms, counts["latest_event_ms"]) if one is not None]
        return {
            **counts,
            "ro_rows": self.ro_rows,
            "rt_rows": counts["rt_rows"] + self.same_rows,
            "promised_rows": counts["promised_rows"] + self.same_promised,
            "null_event_times": counts["null_event_times"] + self.same_null_event_times,
            "unreadable_event_times": counts["unreadable_event_times"] + self.same_unreadable_event_times,
            "unreadable_sample": counts["unreadable_sample"] or self.unreadable_sample,
            "rows_without_key": counts["rows_without_key"] + self.rows_without_key,
            "earliest_event_ms": min(earliest, default=None),
            "latest_event_ms": max(latest, default=None),
        }


def ro_counts(spark: Any, ro: Any, check: DataCheck, threshold_ms: int) -> Any:  # noqa: ANN401 - a Column
    """The counts of `RoCounts` as one aggregate over RO, in JSON, so that the number of rows can be asked in the same pass."""
    from pyspark.sql import functions as F  # noqa: N812

    source, event_ms = event_time_ms(ro.schema, check.policy.event_time)
    same = is_one_of(spark, F.col(FILE_NAME), check.same_files)
    unreadable = source.isNotNull() & event_ms.isNull()
    facts = {
        "rows_of_other_files": ~is_one_of(spark, F.col(FILE_NAME), check.base_files),
        "rows_without_key": F.col(KEY[0]).isNull() | F.col(KEY[1]).isNull(),
        "same_rows": same,
        "same_promised": same & (event_ms <= threshold_ms) & inside(event_ms, check),
        "same_null_event_times": same & source.isNull(),
        "same_unreadable_event_times": same & unreadable,
    }
    return F.to_json(
        F.struct(
            F.count(F.lit(1)).alias("ro_rows"),
            *[F.count(F.when(fact, 1)).alias(name) for name, fact in facts.items()],
            F.count_distinct(F.when(same, F.col(FILE_NAME))).alias("same_files"),
            F.max(F.when(same & unreadable, source.cast("string"))).alias("unreadable_sample"),
            F.min(event_ms).alias("earliest_event_ms"),
            F.max(event_ms).alias("latest_event_ms"),
        )
    )


def files_of(ro: Any) -> frozenset[str]:  # noqa: ANN401 - a DataFrame
    """The base files that rows of RO say they are of."""
    return frozenset(row[0] for row in ro.select(FILE_NAME).distinct().collect() if row[0] is not None)


def has_double_keys(spark: Any, ro: Any, rt: Any, check: DataCheck) -> bool:  # noqa: ANN401
    """Whether a key may be in a view twice; `rt` are the rows of RT that are not of files that both views read alike.

    Keys travel as 96 bits of hash: equal keys have equal ones, and that others have costs no more than a closer look.
    """
    from pyspark.sql import functions as F  # noqa: N812

    same = is_one_of(spark, F.col(FILE_NAME), check.same_files)
    key_in_rt = KEY[1:] if is_global(check) else KEY
    keys = _hashes(rt, key_in_rt, in_ro=F.lit(0), in_rt=F.lit(1))
    if key_in_rt == KEY:
        keys = keys.unionAll(_hashes(ro, KEY, in_ro=F.lit(1), in_rt=same.cast("int")))
    else:
        keys = keys.unionAll(_hashes(ro, KEY, in_ro=F.lit(1), in_rt=F.lit(0)))
        keys = keys.unionAll(_hashes(ro.where(same), key_in_rt, in_ro=F.lit(0), in_rt=F.lit(1)))
    found = keys.groupBy("hash", "other_hash").agg(F.sum("in_ro").alias("in_ro"), F.sum("in_rt").alias("in_rt"))
    return not found.where("in_ro > 1 OR in_rt > 1").isEmpty()


def _hashes(frame: Any, columns: tuple[str, ...], *, in_ro: Any, in_rt: Any) -> Any:  # noqa: ANN401
    from pyspark.sql import functions as F  # noqa: N812

    hashes = F.xxhash64(*columns).alias("hash"), F.hash(*columns).alias("other_hash")
    return frame.select(*hashes, in_ro.alias("in_ro"), in_rt.alias("in_rt"))
