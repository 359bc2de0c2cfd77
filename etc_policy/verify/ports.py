"""What verification asks of the data engine, and the answer it gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from pydantic import Field

from etc_policy.errors import ExitCode
from etc_policy.errors.codes import WRONG_POLICY
from etc_policy.policy.manifest import Frozen, Policy, VerifyLevel
from etc_policy.table.state import TableState

CheckStatus = Literal["pass", "warn", "fail", "error"]
#: The gravest first.
GRAVEST: tuple[CheckStatus, ...] = ("fail", "error", "warn", "pass")


class ExpectationResult(Frozen):
    """One expectation: `fail` means the data disagrees, `error` that it could not be checked.

    `on` is the view that it was run against, None where it looks at both or at the table's metadata; `columns` are those
    that it was asked about.
    """

    expectation: str
    on: Literal["ro", "rt"] | None = None
    columns: tuple[str, ...] = ()
    status: CheckStatus
    observed: dict[str, Any] = Field(default_factory=dict)
    message: str | None = None
    #: That of the error which `message` is of.
    error_code: str | None = Field(default=None, exclude=True)


class Coverage(Frozen):
    """What of the rows was looked at, where it was not all: file groups chosen by a seed, a window, a condition.

    `share` is of the table's file groups. Whatever lies outside is not proved by rows.
    """

    file_groups: int
    file_groups_read: int
    seed: int | None = None
    since_ms: int | None = None
    where: str | None = None


class RestsOn(Frozen):
    """The earlier comparisons of rows that a verification rests on, as the files are those that were compared then.

    `file_groups` are all of the table, `file_groups_compared` those of this verification; the oldest comparison was made at
    `oldest_ms`, so long before this one.
    """

    file_groups: int
    file_groups_compared: int
    oldest_ms: int
    oldest_ago_ms: int


class UncheckedExpectation(Frozen):
    """An expectation of the suite that was not checked; `arguments` are the names of those that it has."""

    expectation: str
    arguments: tuple[str, ...] = ()


#: What is reported in the place of expectations where they could not be checked.
UNREADABLE, MOVED_ON, UNANSWERED = "data_can_be_read", "table_unchanged_while_read", "table_can_be_reached"
NO_TABLE, UNFIT = "table_can_be_read", "suite_fits_the_table"


class Verification(Frozen):
    """The verdict over one table at the level that was reached: `metadata` wherever no rows were read.

    `late_rows` is None where it was not counted, `coverage` where all rows were read or none. `read_by` is the release of
    Hudi by which rows were read, None where none were: the verdict is true of readers with that release. With `rests_on` rows
    of some partitions alone were read, as those of the others had been.
    `unchecked` are expectations of the suite that need rows, where none were read; `not_checked` are their names, each once.
    `unjudged_lag_ms` is how far RO lags behind now, where no target says how far it may.
    """

    level: VerifyLevel
    status: CheckStatus
    threshold_ms: int | None
    late_rows: int | None = None
    coverage: Coverage | None = None
    read_by: str | None = None
    rests_on: RestsOn | None = None
    expectations: tuple[ExpectationResult, ...] = ()
    not_checked: tuple[str, ...] = ()
    unchecked: tuple[UncheckedExpectation, ...] = ()
    unjudged_lag_ms: int | None = None

    @property
    def failures(self) -> str:
        """What did not pass, with its messages, on one line; the gravest first, as who shows it may cut it off."""
        failed = sorted((e for e in self.expectations if e.status != "pass"), key=lambda e: GRAVEST.index(e.status))
        return "; ".join(f"{e.expectation}: {e.message or e.status}" for e in failed)

    @property
    def exit_code(self) -> ExitCode:
        """DONE where it passed; to be tried again where only busy writers or a silent store were in the way.

        A suite or a policy that does not fit the table is an error of the project's files.
        """
        if self.status in ("fail", "error"):
            failed = {one.expectation for one in self.expectations if one.status != "pass"}
            codes = {one.error_code for one in self.expectations if one.status != "pass"}
            if self.status == "fail" or failed == {UNFIT} or (codes and codes <= WRONG_POLICY):
                return ExitCode.FAILED
            return ExitCode.RETRY if failed and failed <= {MOVED_ON, UNANSWERED} else ExitCode.ENGINE
        return ExitCode.DONE


@dataclass(frozen=True, slots=True)
class DataCheck:
    """Everything a data verification needs, taken from the table's metadata and not from the run.

    `pinned_instant` is the instant as of which both views are read; without one they are read as they are, and whoever asks
    looks whether the table has moved on. `late_commits` are requested instants of commits that completed after the plan was
    made, and whatever was requested after `seen_until` is late too (such commits may be archived by now). `open_groups`
    are file groups (partition, file id) that still have log files: a bucket may have the same id in every partition.
    `base_files` are the names of the base files that RO should show. `last_commit_ms` is when the last commit completed.
    `same_files` are names of base files that both views read alike, so that their rows are not compared;
    `other_partitions` are the paths of partitions that have other file groups, None where that is not known. `base_bytes`
    is the size of all base files. `before_etc` is a time right before the last compaction by etc, None without one, and
    `merged_whole` are file groups that it may have merged whole for their deletes though it splits by record. `waiting` are
    writes (file group and instant, as a path) whose log files are left and hold, as far as it is known, only what is after T.
    With `file_ids` only rows of these file groups are looked at, and with `since_ms` only
    those with a later event time. With `ends` (epoch ms, by partition) only rows of these partitions are, each up to its end, and
    with `partitions` only these are read: whatever else is asked about is about them.
    """

    policy: Policy
    base_path: str
    suite: tuple[dict[str, Any], ...]
    threshold_ms: int
    now_ms: int
    complete_until_ms: int | None
    pinned_instant: str | None
    late_commits: frozenset[str]
    seen_until: str
    open_groups: frozenset[tuple[str, str]]
    partition_fields: tuple[str, ...] = ()
    time_partition_fields: tuple[str, ...] = ()
    base_files: frozenset[str] = frozenset()
    watermark_ms: int | None = None
    last_commit_ms: int | None = None
    event_time_type: str | None = None
    file_ids: frozenset[str] | None = None
    since_ms: int | None = None
    same_files: frozenset[str] = frozenset()
    other_partitions: frozenset[str] | None = None
    base_bytes: int = 0
    before_etc: str | None = None
    merged_whole: frozenset[tuple[str, str]] = frozenset()
    waiting: frozenset[str] = frozenset()
    ends: Mapping[str, int] = field(default_factory=dict)
    partitions: frozenset[str] | None = None


class DataVerifier(Protocol):
    """Checks the table's rows by a suite of expectations, and that readers find them."""

    @property
    def release(self) -> str | None:
        """The release of Hudi that reads the rows; None where it does not say it."""

    def wrongly_listed(self, state: TableState) -> tuple[str, ...]:
        """What the metadata table's listing says wrongly of the latest file slices, a sentence each. Raises EngineError."""

    def wrongly_indexed(self, state: TableState) -> tuple[str, ...]:
        """What the metadata table's statistics say wrongly of the newest base files, a sentence each. Raises EngineError."""

    def missed_by_indexes(self, request: DataCheck, state: TableState) -> tuple[str, ...]:
        """Rows that a reader who asks the metadata table's indexes does not find, a sentence each. Raises EngineError."""

    def finds_partitions(self, request: DataCheck, state: TableState) -> bool:
        """Whether the partitions that are asked for can be read by themselves, with all that is in them. Raises EngineError."""

    def check(self, request: DataCheck) -> tuple[int, tuple[ExpectationResult, ...]]:
        """Late rows counted, and one result per expectation. Raises EngineError when no expectation could run."""
