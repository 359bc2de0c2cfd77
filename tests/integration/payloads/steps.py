"""The steps of the payload matrix, each a process of its own under a bundle: its tables are written, compacted, read."""

from __future__ import annotations

import json
import shutil
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from etc_policy.hudi.properties import read_properties
from etc_policy.hudi.table import FileTableReader
from etc_policy.policy.manifest import EventTime, Policy
from etc_policy.run.ports import Job
from etc_policy.spark.compactor import HudiCompactor
from etc_policy.spark.session import start_spark
from etc_policy.storage.open_storage import open_reader
from tests.integration.flink import Flink, flink, table_of
from tests.integration.payloads.tables import (
    BUNDLES,
    COMMITS,
    FLINK,
    FLINK_SCHEMA,
    KINDS,
    OF_FLINK,
    SCHEMA,
    SHOWN,
    Kind,
    commit,
    deletes_keys,
    in_sql,
    is_key_delete,
)

WRITTEN = "written"
FAILED, SEEN = "failed", "seen.json"
VIEWS = {"RT": {"hoodie.datasource.query.type": "snapshot"}, "RO": {"hoodie.datasource.query.type": "read_optimized"}}
WRITERS = (FLINK, *BUNDLES)
_AT_ONCE = {"hoodie.compact.inline.max.delta.commits": "1"}

#: Nothing is asked between the work and the commit.
_OPEN = SimpleNamespace(before_lock=lambda: None, under_lock=lambda: None)


class Cell(NamedTuple):
    """A table of the matrix: which bundle wrote it in which version, and how it merges."""

    writer: str
    version: int
    kind: Kind

    def base(self, root: Path, place: str) -> Path:
        """Its folder: as it was `written`, or as a bundle has compacted it."""
        return root / place / self.writer / str(self.version) / self.kind.name.replace(" ", "_").replace(",", "")


def cells(writers: Sequence[str] = WRITERS, kinds: Sequence[str] = ()) -> Iterator[Cell]:
    """The tables of some writers, and of some kinds, where any are named."""
    yield from (Cell(FLINK, 6, kind) for kind in OF_FLINK if FLINK in writers and (not kinds or kind.name in kinds))
    for bundle in (one for one in writers if one != FLINK):
        for version in BUNDLES[bundle]:
            for kind in KINDS:
                if kind.since <= bundle < kind.before and (not kinds or kind.name in kinds):
                    yield Cell(bundle, version, kind)


def write(spark: Any, root: Path, bundle: str, chosen: Sequence[Cell]) -> None:
    """Each table of this bundle with its commits."""
    _each(_own(chosen, bundle), lambda cell: _write(spark, cell, cell.base(root, WRITTEN)))


def _write(spark: Any, cell: Cell, base: Path) -> None:
    if base.exists():
        return
    draft = base.with_name(f"{base.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    options = cell.kind.writer(cell.writer, cell.version)
    for number in range(COMMITS):
        if is_key_delete(number) and not deletes_keys(cell.writer):
            continue
        operation = "delete" if is_key_delete(number) else "upsert"
        frame = spark.createDataFrame(commit(number), SCHEMA).coalesce(1)
        told = {**options, "hoodie.datasource.write.operation": operation}
        frame.write.format("hudi").options(**told).mode("append").save(str(draft))
    draft.rename(base)


def write_by_flink(flink: Flink, root: Path, chosen: Sequence[Cell]) -> None:
    """Each table of Flink with its commits, the first of which makes base files."""
    for cell in _own(chosen, FLINK):
        base = cell.base(root, WRITTEN)
        if not base.exists():
            draft = base.with_name(f"{base.name}.draft")
            shutil.rmtree(draft, ignore_errors=True)
            for number in range(COMMITS):
                named = table_of(draft, FLINK_SCHEMA, "p", cell.kind.flink(is_first=number == 0))
                flink.run(named, _statement(number))
            draft.rename(base)
            print(base.name, flush=True)


def _statement(number: int) -> str:
    rows = commit(number)
    if is_key_delete(number):
        return f"DELETE FROM t WHERE id IN ({', '.join(repr(row[0]) for row in rows)})"
    return f"INSERT INTO t VALUES {', '.join(map(in_sql, rows))}"


def compact(spark: Any, root: Path, bundle: str, chosen: Sequence[Cell]) -> None:
    """A copy of each table of each writer, by etc's client of this bundle."""
    of_all = (cell for cell in chosen if cell.version in BUNDLES[bundle])
    _each(of_all, lambda cell: _copied(root, cell, bundle, lambda base: _compact(spark, cell, base)))


def _copied(root: Path, cell: Cell, place: str, step: Callable[[Path], None]) -> None:
    written, base = cell.base(root, WRITTEN), cell.base(root, place)
    if base.exists() or not written.exists():
        return
    draft = base.with_name(f"{base.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(written, draft, ignore=shutil.ignore_patterns(SEEN))
    try:
        step(draft)
    except Exception as error:
        base.mkdir(parents=True)
        (base / FAILED).write_text(f"{type(error).__name__}: {getattr(error, 'cause', None) or error}"[:4000])
        return
    draft.rename(base)


def _compact(spark: Any, cell: Cell, base: Path) -> None:
    """As `etc apply` does it, but for its rules."""
    time_column = EventTime(column="ts", unit="ms")
    mode = FileTableReader().read(str(base), time_column).in_changelog_mode
    assert mode == cell.kind.changelog, mode
    policy = Policy(name="t", table=str(base), event_time=time_column, data_latency_ms=0, hudi_options=_AT_ONCE)
    compactor = HudiCompactor(spark)
    job = Job(policy, str(base), cell.version, (), "", in_changelog_mode=mode)
    with compactor._client(job) as client:
        instant = client.scheduleCompaction(spark._jvm.org.apache.hudi.common.util.Option.empty()).get()
    compactor._run(replace(job, instant=instant), lambda: None, _OPEN)


def read(spark: Any, root: Path, bundle: str, chosen: Sequence[Cell]) -> None:
    """Both views of each table of this bundle, as it shows them: as written, and as each bundle has compacted it."""
    for cell in _own(chosen, bundle):
        bases = [cell.base(root, place) for place in (WRITTEN, *BUNDLES)]
        unseen = [base for base in bases if base.exists() and not any((base / one).exists() for one in (FAILED, SEEN))]
        for base, views in zip(unseen, _views(spark, unseen), strict=True):
            _keep(base, views)


def read_by_flink(flink: Flink, root: Path, chosen: Sequence[Cell]) -> None:
    """Both views of each table of Flink, as Flink shows them."""
    for cell in _own(chosen, FLINK):
        for base in (cell.base(root, place) for place in (WRITTEN, *BUNDLES)):
            if base.exists() and not any((base / one).exists() for one in (FAILED, SEEN)):
                _keep(base, _views_of_flink(flink, base, cell))


def _views_of_flink(flink: Flink, base: Path, cell: Cell) -> dict[str, Any]:
    """Both in one job."""
    tables = [
        table_of(base, FLINK_SCHEMA, "p", {**cell.kind.flink(is_first=False), **options}).replace(" t ", f" {view} ", 1)
        for view, options in VIEWS.items()
    ]
    shown = ", ".join(f"`{name}`" for name in SHOWN)
    try:
        rows = flink.rows(*tables, " UNION ALL ".join(f"SELECT '{view}', {shown} FROM {view}" for view in VIEWS))
    except Exception as error:
        return dict.fromkeys(VIEWS, str(error)[:1000])
    return {view: _by_key(row[1:] for row in rows if row[0] == view) for view in VIEWS}


def _keep(base: Path, views: Mapping[str, Any]) -> None:
    (base / SEEN).write_text(json.dumps({**views, "properties": read_properties(open_reader(str(base)))}, indent=1))


def _views(spark: Any, bases: Sequence[Path]) -> list[dict[str, Any]]:
    """Both views of these tables, in one job; where one of them cannot be read each by itself, with the error in its place."""
    try:
        return _read(spark, bases)
    except Exception as error:
        return (
            [_views(spark, [base])[0] for base in bases]
            if len(bases) > 1
            else [dict.fromkeys(VIEWS, str(error)[:1000])]
        )


def _read(spark: Any, bases: Sequence[Path]) -> list[dict[str, Any]]:
    frames = [
        spark.read.format("hudi")
        .options(**options)
        .load(str(base))
        .selectExpr(f"{place} place", f"'{view}' view", *SHOWN)
        for place, base in enumerate(bases)
        for view, options in VIEWS.items()
    ]
    rows = reduce(lambda left, right: left.unionAll(right), frames).collect() if frames else []
    return [
        {view: _by_key(tuple(row)[2:] for row in rows if (row.place, row.view) == (place, view)) for view in VIEWS}
        for place, _ in enumerate(bases)
    ]


def _by_key(rows: Iterable[Sequence[Any]]) -> dict[str, list[Any]]:
    shown: dict[str, list[Any]] = {}
    for key, *values in rows:
        shown[f"{key}, once more" if key in shown else key] = values
    return shown


def _own(chosen: Iterable[Cell], bundle: str) -> list[Cell]:
    return [cell for cell in chosen if cell.writer == bundle]


def _each(chosen: Iterable[Cell], step: Callable[[Cell], None]) -> None:
    def guarded(cell: Cell) -> None:
        try:
            step(cell)
        except Exception:
            print(cell.writer, cell.version, cell.kind.name, traceback.format_exc()[-1500:], flush=True)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(guarded, list(chosen)))


def main(step: str, bundle: str, root: Path, writers: str = ",".join(WRITERS), *kinds: str) -> None:
    """One step under the bundle that the process was started with."""
    root.mkdir(parents=True, exist_ok=True)
    if bundle == FLINK:
        by_flink = {"write": write_by_flink, "read": read_by_flink}
        with flink() as engine:
            by_flink[step](engine, root, tuple(cells([FLINK], kinds)))
        return
    spark = start_spark(
        {"spark.sql.shuffle.partitions": "1", "spark.default.parallelism": "1"}, root / "spark.log", is_brief=True
    )
    steps = {"write": write, "compact": compact, "read": read}
    steps[step](spark, root, bundle, tuple(cells(writers.split(","), kinds)))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), *sys.argv[4:])
