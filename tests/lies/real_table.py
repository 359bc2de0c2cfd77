"""A real table that stock Hudi wrote and etc compacted, to tell a lie about, and what is true of its rows."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from random import Random
from unittest.mock import patch

import pyarrow.parquet  # noqa: TID253

from etc_policy.errors import TableError
from etc_policy.gx.verifier import GxVerifier
from etc_policy.hudi.log_times import fill_from_logs, read_all_logs
from etc_policy.hudi.table import FileTableReader
from etc_policy.policy.files import read_suite
from etc_policy.policy.manifest import Policy, Verify
from etc_policy.storage.object_cache import MemoryCache
from etc_policy.verify import compared_rows
from etc_policy.verify.evidence import Evidence
from etc_policy.verify.prover import claim_of, verify_table
from etc_policy.verify.suites import parse_suite
from tests.integration.bench import Bench
from tests.integration.compared import remember, resting
from tests.integration.history import EPOCH_MS, HISTORY, Oracle, write_history
from tests.lies.judging import Seen, caught_by

LEVELS = ("metadata", "logs", "data")
#: After every event of the history.
NOW = EPOCH_MS + 600_000
#: Writers of these tables: other file groups, and other places for new rows.
WRITERS = (
    {},
    {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"},
    {"hoodie.parquet.small.file.limit": "0", "hoodie.index.type": "SIMPLE"},
)
SECONDS = (210, 110, 350)


@dataclass
class RealTable:
    """A table with the whole of `HISTORY`; `cache` is where an earlier run has kept event times of log files.

    With `rests` all rows are compared before the table is changed, and the next proof rests on that comparison.
    """

    bench: Bench
    cache: MemoryCache | None = None
    full: bool = False
    rests: bool = False

    def base_files(self) -> list[Path]:
        """The base files of the latest slices."""
        slices = self.bench.state().slices
        return sorted(self.bench.base / one.partition / one.base_file for one in slices if one.base_file)

    def commit_files(self) -> list[Path]:
        """The delta commits."""
        return sorted((self.bench.base / ".hoodie" / "timeline").glob("[0-9]*_*.deltacommit"))

    def promises(self) -> list[Path]:
        """The commit and the plan of etc's compaction."""
        timeline = self.bench.base / ".hoodie" / "timeline"
        return [*timeline.glob("[0-9]*_*.commit"), *timeline.glob("*.compaction.requested")]

    def forge_cache(self, later_ms: int) -> None:
        """Later event times in the user's own cache."""
        assert self.cache
        for key, content in self.cache.items():
            files = json.loads(content)
            for entry in files.values():
                entry[1] = entry[1] and later_ms
            self.cache[key] = json.dumps(files).encode()

    @property
    def policy(self) -> Policy:
        """The policy that it is verified by."""
        return self.bench.policy.model_copy(update={"verify": Verify(full=self.full)})

    def look(self, level: str) -> Seen:
        """The verdict of a level; at `data` it reads rows by Spark."""
        try:
            policy = self.policy
            state, history = FileTableReader().read_with_history(str(self.bench.base), policy.event_time)[:2]
            state = (fill_from_logs if level == "metadata" else read_all_logs)(state, policy, self.cache)
            claim = claim_of(policy, state, NOW)
            evidence = Evidence(policy, state, history, claim, NOW)
            evidence = resting(evidence) if self.rests else evidence
            path, text = read_suite("ro_complete", Path("no-such-project"))
            with patch.object(compared_rows, "LEAST_SHARE", 0):  # however small the table is
                found = verify_table(evidence, parse_suite(text, path), level, lambda: GxVerifier(self.bench.spark))
        except TableError as error:
            return Seen(f"{error.code}: {error.message}")
        return Seen(caught_by(found), claim)

    def is_false(self, seen: Seen) -> bool:
        """Whether RO, read without Spark, is not what the history says it must be up to the claimed threshold."""
        if seen.claim is None:
            return False
        tables = [pyarrow.parquet.read_table(path, partitioning=None) for path in self.base_files()]
        rows = [row for table in tables for row in table.to_pylist()]
        shown = {row["id"]: row["v"] for row in rows if row["_hoodie_record_key"] == str(row["id"])}
        promised = Oracle.of(HISTORY).rt_up_to((seen.claim.threshold_ms - EPOCH_MS) // 1000)
        wrong = any(shown.get(key) != value for key, value in promised.items())
        return wrong or len(rows) != len(shown)


class RealTables:
    """Honest tables of every kind, each written once; each lie changes a copy."""

    def __init__(self, spark, folder: Path, written: Path | None = None) -> None:
        """With `written`, a table of the first kind that has not been compacted, there is no other kind."""
        self._spark, self._folder = spark, folder
        self._written = {} if written is None else {0: written}
        self._kinds = (len(WRITERS), len(SECONDS)) if written is None else (1, 1)

    def copy(self, number: int, random: Random, *, rests: bool = False) -> RealTable:
        """A copy of one of them; with `rests` all its rows were compared."""
        kind = random.randrange(self._kinds[0]), random.randrange(self._kinds[1])
        place = self._folder / f"copy{number}"
        shutil.copytree(self._honest(*kind), place / "t")
        found = RealTable(Bench(self._spark, place / "t"), rests=rests)
        if rests:
            remember(self._spark, found.policy, found.bench.state(), latest_ms=0)
        return found

    def _honest(self, writer: int, second: int) -> Path:
        """Compacted by a plan of etc up to that second."""
        base = self._folder / f"honest{writer}{second}"
        if not base.exists():
            if writer not in self._written:
                written = self._written[writer] = self._folder / f"written{writer}"
                write_history(self._spark, written, options={"hoodie.metadata.enable": "false", **WRITERS[writer]})
            shutil.copytree(self._written[writer], base)
            bench = Bench(self._spark, base)
            assert bench.apply(bench.plan(SECONDS[second])).status == "compacted"
        return base
