"""What a lie about a table is, and how a table's files are changed to say it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import fastavro

from tests.lies.honest import Honest, LogTruth
from tests.unit.hudi.table_folder import avro

#: Why a kind of lie that is neither caught here nor harmless is not missed: `rows` says that level `data` is needed.
ROWS = "rows"


@dataclass(frozen=True)
class Told:
    """What was done; `harm` says that it hurts whatever etc claims: a damaged file, rows gone from both views.

    `mended_by` is what sets it right without a verification.
    """

    said: str
    harm: bool = False
    mended_by: str = ""


@dataclass(frozen=True)
class Lie:
    """A kind of lie. `tell` does it, and returns None where the table gives no occasion.

    `needs` is what only another level can see, or why no check can; empty where levels `metadata` and `logs` must catch
    every one that does harm. `needs_in_version_6` is that for tables before version 8 alone.
    """

    target: str
    name: str
    tell: Callable[[Honest, Random], Told | None]
    needs: str = ""
    needs_in_version_6: str = ""


def rewrite(found: Honest, path, change) -> None:
    """Change the one record of a file on the timeline: Avro, or JSON before table version 8."""
    if found.table.layout == 1:
        record = json.loads(path.read_bytes())
        change(record)
        path.write_text(json.dumps(record))
        return
    rewrite_record(path, change)


def rewrite_record(path, change) -> None:
    """Change the one record of an Avro file."""
    with path.open("rb") as stream:
        reader = fastavro.reader(stream)
        schema, record = reader.writer_schema, next(iter(reader))
    change(record)
    path.write_bytes(avro(schema, record))
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def any_log(found: Honest, random: Random) -> LogTruth | None:
    return random.choice(found.logs) if found.logs else None


def recorded_log(found: Honest, random: Random) -> LogTruth | None:
    """A log file of which its commit records an event time that counts."""
    if found.kind.version < 8 or found.kind.column != "ms":
        return None
    return log_of([one for one in found.logs if not one.deletes], random)


def log_of(files, random: Random) -> LogTruth | None:
    return random.choice(files) if files else None
