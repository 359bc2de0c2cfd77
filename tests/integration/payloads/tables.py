"""The tables of the payload matrix: a kind for each payload and merge mode that Hudi ships, and rows that tell merges apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

#: The bundles that etc supports, and the table versions that each of them writes and compacts.
BUNDLES: Mapping[str, tuple[int, ...]] = {
    "0.15.0": (6,),
    "1.0.1": (6, 8),
    "1.0.2": (6, 8),
    "1.1.1": (6, 8, 9),
    "1.2.0": (6, 8, 9),
}
#: A writer that compacts nothing here: Flink with the bundle that `tests/integration/flink` fetches, of table version 6.
FLINK = "Flink 0.14.0"
_MODELS = "org.apache.hudi.common.model"
#: What Debezium sends for a TOAST column that did not change.
UNCHANGED = "__debezium_unavailable_value"
SCHEMA = (
    "id string, p string, ts long, seq long, big string, small string, n int, Op string, _change_operation_type string, "
    "_event_lsn long, _event_bin_file string, _event_pos long, _event_seq string, _hoodie_is_deleted boolean"
)
_POSITION = "_event_bin_file,_event_pos"
#: What is compared of a row.
SHOWN = ("id", "seq", "big", "small", "n", "Op")


@dataclass(frozen=True)
class Kind:
    """Tables that merge rows in one way; `options` are those of their writers. Releases `since` one, `before` another know it.

    Flink writes a `changelog` or not.
    """

    name: str
    payload: str | None = None
    ordering: str | None = "seq"
    options: Mapping[str, str] = field(default_factory=dict)
    since: str = "0"
    before: str = "9"
    changelog: bool = False

    def flink(self, *, is_first: bool) -> dict[str, str]:
        """The options of Flink; the first commit makes base files."""
        given = {
            "precombine.field": self.ordering or "no_precombine",
            "index.type": "BUCKET",
            "hoodie.bucket.index.num.buckets": "1",
            "write.operation": "bulk_insert" if is_first else "upsert",
            "write.bulk_insert.sort_input": "false",
            "write.bulk_insert.shuffle_input": "false",
            "write.tasks": "1",
            "write.bucket_assign.tasks": "1",
            "metadata.enabled": "false",
            "clean.async.enabled": "false",
            "compaction.schedule.enabled": "false",
            "compaction.async.enabled": "false",
            "changelog.enabled": str(self.changelog).lower(),
        }
        return {**given, "payload.class": self.payload} if self.payload else given

    def writer(self, bundle: str, version: int) -> dict[str, str]:
        """The writer's options."""
        given = {
            "hoodie.table.name": "t",
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "p",
            "hoodie.index.type": "SIMPLE",
            "hoodie.metadata.enable": "false",
            "hoodie.compact.inline": "false",
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            "hoodie.embed.timeline.server": "false",
            "hoodie.parquet.small.file.limit": "0",
            "hoodie.upsert.shuffle.parallelism": "1",
            "hoodie.delete.shuffle.parallelism": "1",
            "hoodie.simple.index.parallelism": "1",
            "hoodie.finalize.write.parallelism": "1",
            **self.options,
        }
        # of this payload table version 9 takes other ordering fields by itself, and fails where a writer names one
        ordering = _POSITION if version > 8 and self.ordering == "_event_seq" else self.ordering
        if ordering:
            given["hoodie.datasource.write.precombine.field"] = ordering
            given["hoodie.payload.ordering.field"] = ordering
        if self.payload:
            given["hoodie.datasource.write.payload.class"] = self.payload
            given["hoodie.compaction.payload.class"] = self.payload
        if not bundle.startswith("0."):
            given |= {"hoodie.write.table.version": str(version), "hoodie.write.auto.upgrade": "false"}
        return given


def _of_payload(name: str, ordering: str | None = "seq", since: str = "0", before: str = "9") -> Kind:
    return Kind(name.rpartition(".")[2], f"{_MODELS}.{name}", ordering, since=since, before=before)


KINDS = (
    Kind("nothing said"),
    Kind("nothing said, no ordering field", ordering=None),
    Kind("two ordering fields", ordering=_POSITION, since="1.1"),
    Kind("EVENT_TIME_ORDERING", options={"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"}, since="1"),
    Kind(
        "COMMIT_TIME_ORDERING",
        ordering=None,
        options={"hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING"},
        since="1",
    ),
    Kind(
        "EVENT_TIME_ORDERING, no ordering field",
        ordering=None,
        options={"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"},
        since="1",
    ),
    _of_payload("OverwriteWithLatestAvroPayload"),
    _of_payload("DefaultHoodieRecordPayload"),
    _of_payload("EventTimeAvroPayload"),
    _of_payload("OverwriteNonDefaultsWithLatestAvroPayload"),
    _of_payload("PartialUpdateAvroPayload"),
    _of_payload("FirstValueAvroPayload", before="1.1"),
    _of_payload("ReverseOrderHoodieRecordPayload", since="1.2"),
    _of_payload("debezium.PostgresDebeziumAvroPayload", "_event_lsn"),
    _of_payload("debezium.MySqlDebeziumAvroPayload", "_event_seq"),
    _of_payload("AWSDmsAvroPayload"),
    Kind(
        "delete marker",
        f"{_MODELS}.DefaultHoodieRecordPayload",
        options={"hoodie.payload.delete.field": "Op", "hoodie.payload.delete.marker": "D"},
        since="1.1",  # before, no table records them
    ),
)


_LATEST = _of_payload("OverwriteWithLatestAvroPayload", None)
_BY_FLINK = (
    "nothing said",
    *(kind.name for kind in KINDS if kind.payload and kind.before == "9" and kind.since == "0"),
)
#: What Flink writes, in changelog mode and not.
OF_FLINK = tuple(
    replace(kind, name=f"{kind.name}, {mode}", changelog=changelog)
    for mode, changelog in (("changelog mode", True), ("by Flink", False))
    for kind in (replace(_LATEST, name=f"{_LATEST.name}, no ordering field"), *KINDS)
    if kind.name in _BY_FLINK or (kind.ordering is None and kind.payload)
)


class Row(NamedTuple):
    """A version of a key, as its source sends it."""

    seq: int
    big: str | None = "text"
    small: str | None = "s"
    n: int | None = 1
    op: str = "u"
    deleted: bool = False

    def written(self, key: str) -> tuple[object, ...]:
        """The row by the schema."""
        of_op = ("D", "d") if self.op == "d" else ("U", self.op)
        return (
            *(key, "x", 1_600_000_000_000 + self.seq, self.seq, self.big, self.small, self.n),
            *(*of_op, self.seq, "mysql-bin.000001", self.seq, f"000001.{self.seq:04d}", self.deleted),
        )


KEY_DELETE = "key delete"
_OLD, _NEW = Row(1, "old", "old", 1), Row(2, "new", "new", 2)
#: For each key what four commits bring: rows, a delete by key in the third, or nothing. Later ordering values are greater.
HISTORIES: Mapping[str, tuple[Row | str | None, ...]] = {
    "untouched": (_OLD,),
    "newer": (_OLD, _NEW, None, Row(3, "newest")),
    "late in the log": (_OLD, Row(10, "winner"), None, Row(5, "late")),
    "late behind the base": (Row(10, "winner"), Row(5, "late")),
    "late twice": (Row(10, "winner"), Row(3, "late"), None, Row(7, "later")),
    "late then newer": (Row(10, "base"), Row(3, "late"), None, Row(12, "winner")),
    "tie": (Row(5, "first"), Row(5, "second"), None, Row(5, "third")),
    "tie with the base": (Row(5, "first"), Row(5, "second")),
    "nulls": (_OLD, Row(2, "new", None, None)),
    "nulls twice": (_OLD, Row(2, "new", None, 2), None, Row(3, "newest", "newest", None)),
    "null is filled by a late row": (Row(10, "winner", None, 1), Row(5, "late", "late", 5)),
    "nulls and a late row": (
        Row(10, "base", None, None),
        Row(12, "winner", None, 12),
        None,
        Row(11, "late", "late", 11),
    ),
    "toast": (_OLD, Row(2, UNCHANGED, "new")),
    "toast twice": (_OLD, Row(2, UNCHANGED, "new"), None, Row(3, UNCHANGED, "newest")),
    "toast comes late": (Row(10, "base"), Row(5, UNCHANGED, "late")),
    "toast, then a late row": (Row(10, "base"), Row(12, UNCHANGED, "new"), None, Row(11, "late", "late")),
    "toast in the base": (Row(1, UNCHANGED, "old"), Row(2, "new", "new")),
    "row is deleted": (_OLD, Row(2, deleted=True)),
    "row is deleted late": (Row(10, "winner"), Row(5, deleted=True)),
    "row is deleted by a tie": (Row(5, "first"), Row(5, deleted=True)),
    "row is deleted and comes back": (_OLD, Row(5, deleted=True), None, Row(6, "back")),
    "row is deleted, then a late one": (_OLD, Row(5, deleted=True), None, Row(3, "late")),
    "key is deleted": (_OLD, None, KEY_DELETE),
    "key is deleted after an update": (_OLD, _NEW, KEY_DELETE),
    "key is deleted and comes back": (_OLD, Row(5, "new"), KEY_DELETE, Row(6, "back")),
    "key is deleted, then a late row": (_OLD, Row(5, "new"), KEY_DELETE, Row(3, "late")),
    "source deletes": (_OLD, Row(2, op="d")),
    "source deletes late": (Row(10, "winner"), Row(5, op="d")),
    "source deletes and inserts": (_OLD, Row(5, op="d"), None, Row(6, "back", op="c")),
    "source deletes, then a late row": (_OLD, Row(5, op="d"), None, Row(3, "late")),
}
COMMITS = 4


def commit(number: int) -> list[tuple[object, ...]]:
    """The rows of a commit; of a delete by key those that name the keys."""
    found = ((key, told[number]) for key, told in HISTORIES.items() if len(told) > number and told[number] is not None)
    return [(one if isinstance(one, Row) else _OLD).written(key) for key, one in found]


_FLINK_TYPES = {"long": "BIGINT"}
_COLUMNS = [(name, _FLINK_TYPES.get(kind, kind.upper())) for name, kind in (one.split() for one in SCHEMA.split(", "))]
#: The columns as Flink's SQL declares them.
FLINK_SCHEMA = ", ".join(f"`{name}` {kind}{' PRIMARY KEY NOT ENFORCED' * (name == 'id')}" for name, kind in _COLUMNS)


def in_sql(row: tuple[object, ...]) -> str:
    """A row of a commit as Flink's SQL has it."""
    values = ("NULL" if one is None else f"'{one}'" if isinstance(one, str) else str(one).upper() for one in row)
    return f"({', '.join(f'CAST({one} AS {kind})' for one, (_, kind) in zip(values, _COLUMNS, strict=True))})"


def is_key_delete(number: int) -> bool:
    """Whether a commit deletes by key."""
    return number == 2


def deletes_keys(bundle: str) -> bool:
    """Whether a bundle can read what it writes then: Hudi 1.0 compares the delete's 0 with a long, and fails.

    See facts: deletes-fail-1-0.
    """
    return not bundle.startswith("1.0.")
