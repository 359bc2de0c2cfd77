"""A table that Flink writes, with the oracle of the tables that Spark writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from etc_policy.hudi.table import read_shape
from etc_policy.policy.writers import flink_options
from tests.integration.flink import Flink, table_of
from tests.integration.history import EPOCH_MS, Write, partition_of
from tests.integration.version6 import Table6

_COLUMNS = "id INT PRIMARY KEY NOT ENFORCED, p STRING, v STRING, ts BIGINT"
#: One task each, so that a commit is as small as those of the history.
_SINK = {
    "precombine.field": "ts",
    "clean.async.enabled": "false",
    "write.tasks": "1",
    "write.bucket_assign.tasks": "1",
}
INDEXES = {
    "bucket": {"index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"},
    "flink_state": {"index.type": "FLINK_STATE", "index.bootstrap.enabled": "true"},
}


@dataclass
class FlinkTable(Table6):
    """A table of version 6 whose writer, and one of its readers, is Flink."""

    flink: Flink | None = None
    in_changelog_mode: bool = False
    payload: str | None = None

    def write(self, *writes: Write) -> None:
        for write in writes:
            if write.deleted:
                statement = f"DELETE FROM t WHERE id IN ({', '.join(map(str, write.deleted))})"
                self.flink.run(self.named, statement)
            else:
                rows = (f"({k}, '{partition_of(k)}', '{v}', {EPOCH_MS + s * 1000})" for k, v, s in write.rows)
                self.flink.run(self.named, f"INSERT INTO t VALUES {', '.join(rows)}", streaming=self.index != "bucket")
            self.history = (*self.history, write)

    @property
    def named(self) -> str:
        """The statement that names the table, with the options that `etc compile` has for Flink."""
        shape = read_shape(self.location, self.policy.event_time) if self.base.exists() else None
        options = {
            **_SINK,
            **INDEXES[self.index],
            "metadata.enabled": self.views.mdt,
            "changelog.enabled": str(self.in_changelog_mode).lower(),
            **({"payload.class": f"org.apache.hudi.common.model.{self.payload}"} if self.payload else {}),
            **flink_options(self.policy, shape),
        }
        return table_of(self.base, _COLUMNS, "p", options)

    def wrong_views(self, since: int = 0, until: int | None = None) -> Iterator[str]:
        yield from super().wrong_views(since, until)
        yield from self._wrong("Flink's RT", self.rt_of_flink, self.oracle.rt())

    def wrong_reading(self, *, by_spark: bool = True) -> Iterator[str]:
        """RT by Flink, and by Spark."""
        if by_spark:
            yield from self._wrong("RT", self.views.rt_without_mdt, self.oracle.rt())
        yield from self._wrong("Flink's RT", self.rt_of_flink, self.oracle.rt())

    def rt_of_flink(self) -> dict[int, str]:
        rows = self.flink.rows(self.named, "SELECT id, v FROM t")
        assert len({key for key, _ in rows}) == len(rows), f"Flink sees a key twice: {sorted(rows)}"
        return dict(rows)
