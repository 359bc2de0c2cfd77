"""Kinds of tables of version 6, and what is written to them."""

from __future__ import annotations

import itertools
import os
import re
from dataclasses import dataclass

from tests.integration.history import HISTORY, QUICK, Write

VERSION_6 = {"hoodie.write.table.version": "6", "hoodie.write.auto.upgrade": "false", "hoodie.clean.automatic": "false"}
#: Two late updates lose by event time and win by commit time, both in log files that the first compaction carries.
LATE = Write(((1, "late", 250), (7, "late", 260)))
#: Log files of one slice that the first compaction carries, and the second one again.
MANY = tuple(Write(((10, f"n{number}", 510 + number),)) for number in range(12))
FEW_WRITES = (*HISTORY, LATE)
WRITES = (*FEW_WRITES, *MANY)
#: Written while the plan is pending, and after the compaction; thresholds of two more compactions follow them.
PENDING = Write(((1, "w1", 600), (3, "w1", 601), (9, "w1", 602)))
AFTER = (Write(((4, "w2", 700), (6, "w2", 701))), Write(((1, "w3", 800), (0, "w3", 801))))
#: The second is all that the lowest retention keeps.
LAST = tuple(
    Write(((1, value, second), (3, value, second), (2, value, second))) for value, second in (("x1", 900), ("x2", 910))
)
#: Whether the bundle is one of Hudi 0.x, whose other tables than those that merge by event time are refused.
OF_HUDI_0 = bool(re.search(r"[:-]0\.\d+\.\d+(\.jar)?$", os.environ.get("ETC_HUDI_BUNDLE", "")))
BY_EVENT_TIME, BY_COMMIT_TIME = (
    {"hoodie.datasource.write.payload.class": f"org.apache.hudi.common.model.{payload}"}
    for payload in ("DefaultHoodieRecordPayload", "OverwriteWithLatestAvroPayload")
)


@dataclass(frozen=True)
class Kind:
    """A kind of table, and how log files are carried on it."""

    mdt: bool = True
    carry: str = "auto"
    by_event_time: bool = True

    @property
    def options(self) -> dict[str, str]:
        """What the writers are given."""
        ordering = BY_EVENT_TIME if self.by_event_time else BY_COMMIT_TIME
        return {**QUICK, **VERSION_6, **ordering, "hoodie.metadata.enable": str(self.mdt).lower()}

    def __str__(self) -> str:
        ordering = "event time" if self.by_event_time else "commit time"
        return f"MDT {'on' if self.mdt else 'off'}, {self.carry}, {ordering}"


ORDERINGS = (True,) if OF_HUDI_0 else (True, False)
KINDS = tuple(itertools.starmap(Kind, itertools.product((True, False), ("hard_link", "copy"), ORDERINGS)))
