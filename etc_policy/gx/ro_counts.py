"""What is counted over the rows of RO alone, in one pass over a few of its columns, and a closer look for double keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from etc_policy.gx.comparable_sql import hashes
from etc_policy.gx.event_time_sql import event_time_ms
from etc_policy.gx.view_rows import FILE_NAME, KEY, inside, is_global, is_one_of
from etc_policy.verify.ports import DataCheck

#: The hashes of keys are held against each other within a bucket: so many bytes of base files for each, and no fewer.
BUCKET_BYTES, LEAST_BUCKETS = 8 * 2**20, 64
#: Of a table that is not small so many buckets show which files have rows.
BUCKETS_WITH_NAMES, SMALL_BYTES = 8, LEAST_BUCKETS * 2**20
#: A task takes as many buckets as one of Spark's splits has bytes, so that what it holds in memory does not grow.
BUCKETS_OF_A_TASK = 16


@dataclass(frozen=True, slots=True)
class RoCounts:
    """Counts of RO's rows; those that begin with `same` are of files that both views read alike, and so are RT's too.

    `same_files` are those of which a row was seen, in some of the buckets where there are many. `buckets_with_doubles` are
    those in which two keys have one hash: a key that is there twice, or, once in a long time, two keys. `odd_rows` are of
    files that nobody knows, without a key, or with an event time that cannot be read: a comparison of all rows says which.
    """

    ro_rows: int
    odd_rows: int
    buckets_with_doubles: int
    same_files: int
    same_rows: int
    same_promised: int
    same_null_event_times: int
    earliest_event_ms: int | None = None
    latest_event_ms: int | None = None

    @classmethod
    def from_row(cls, row: Any) -> RoCounts:
        """The counts of the row that an aggregation gives."""
        return cls(**row.asDict())

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
            "earliest_event_ms": min(earliest, default=None),
            "latest_event_ms": max(latest, default=None),
        }


def buckets_for(check: DataCheck) -> int:
    """How many buckets the keys of the table go into."""
    return max(LEAST_BUCKETS, -(-check.base_bytes // BUCKET_BYTES))


def _buckets_with_names(check: DataCheck) -> int:
    """In how many of the buckets the names of files are looked at: a large file has rows in each."""
    return LEAST_BUCKETS if check.base_bytes < SMALL_BYTES else BUCKETS_WITH_NAMES


def count_ro(spark: Any, ro: Any, check: DataCheck, threshold_ms: int) -> RoCounts:
    """The counts over RO. Of each row the 64 bits that its key is hashed to travel, in one list for each bucket."""
    from pyspark.sql import functions as F  # noqa: N812

    facts = _facts(spark, ro, check, threshold_ms)
    key = KEY[1:] if is_global(check) else KEY
    bucket = F.pmod("hash", F.lit(buckets_for(check))).alias("bucket")
    rows = ro.select(*[column.alias(name) for name, column in facts.items()], F.xxhash64(*key).alias("hash"), FILE_NAME)
    # A name that went on as a text would cost as much as all counts together.
    seen = F.col("same_rows") & (bucket < _buckets_with_names(check))
    rows = rows.select(*facts, "hash", bucket, F.when(seen, F.xxhash64(FILE_NAME)).alias("name"))
    of_buckets = rows.groupBy("bucket").agg(
        F.count(F.lit(1)).alias("ro_rows"),
        *[F.count(F.when(F.col(name), 1)).alias(name) for name in facts if name != "event_ms"],
        F.min("event_ms").alias("earliest_event_ms"),
        F.max("event_ms").alias("latest_event_ms"),
        F.collect_set("name").alias("names"),
        F.collect_list("hash").alias("hashes"),
    )
    doubled = F.size(F.array_distinct("hashes")) < F.size("hashes")
    row = of_buckets.agg(
        *[F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("ro_rows", *facts) if name != "event_ms"],
        F.min("earliest_event_ms").alias("earliest_event_ms"),
        F.max("latest_event_ms").alias("latest_event_ms"),
        F.size(F.array_distinct(F.flatten(F.collect_list("names")))).alias("same_files"),
        F.count(F.when(doubled, 1)).alias("buckets_with_doubles"),
    ).first()
    return RoCounts.from_row(row)


def _facts(spark: Any, ro: Any, check: DataCheck, threshold_ms: int) -> dict[str, Any]:
    """What may hold of a row of RO, by the name of its count, and its event time."""
    from pyspark.sql import functions as F  # noqa: N812

    source, event_ms = event_time_ms(ro.schema, check.policy.event_time)
    name = F.col(FILE_NAME)
    same = is_one_of(spark, name, check.same_files)
    is_of_another = ~same & ~is_one_of(spark, name, check.base_files)
    has_no_key = F.col(KEY[0]).isNull() | F.col(KEY[1]).isNull()
    return {
        "event_ms": event_ms,
        "odd_rows": is_of_another | has_no_key | (same & source.isNotNull() & event_ms.isNull()),
        "same_rows": same,
        "same_promised": same & (event_ms <= threshold_ms) & inside(event_ms, check),
        "same_null_event_times": same & source.isNull(),
    }


def files_of(ro: Any) -> frozenset[str]:
    """The base files that rows of RO say they are of."""
    return frozenset(row[0] for row in ro.select(FILE_NAME).distinct().collect() if row[0] is not None)


def has_double_keys(spark: Any, ro: Any, rt: Any, check: DataCheck) -> bool:
    """Whether a key may be in a view twice; `rt` are the rows of RT that are not of files that both views read alike.

    Keys travel as 128 bits of hash: equal keys have equal ones, and that others have costs no more than a closer look.
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


def _hashes(frame: Any, columns: tuple[str, ...], *, in_ro: Any, in_rt: Any) -> Any:
    return frame.select(*hashes(*columns), in_ro.alias("in_ro"), in_rt.alias("in_rt"))
