"""What the commands hand to other tools: results of apply and freshness, versioned JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Self

from pydantic import Field, PrivateAttr

from etc_policy.errors import EtcError, ExitCode, SeveralErrors, VerdictError, worst
from etc_policy.errors.codes import Code
from etc_policy.policy.manifest import Freshness, Frozen, GitState
from etc_policy.policy.selection import FreshnessStatus
from etc_policy.run.results import SyncResult, TableResult
from etc_policy.table.apply_state import Proof
from etc_policy.table.partitions import PartitionsFreshness
from etc_policy.verify.late_data import LateData
from etc_policy.verify.latency import LatencyVerdict
from etc_policy.verify.ports import Verification

RESULTS_SCHEMA_VERSION = 1


class Report(Frozen):
    """What a verb found and did, table by table; `errors` are what went wrong besides, which its JSON does not have."""

    schema_version: int = RESULTS_SCHEMA_VERSION
    _errors: tuple[EtcError, ...] = PrivateAttr(())
    _unwritten: tuple[EtcError, ...] = PrivateAttr(())

    @property
    def errors(self) -> tuple[EtcError, ...]:
        """Those of tables, in their order, then those of files that could not be written."""
        return (*self._errors, *self._unwritten)

    @property
    def unwritten(self) -> tuple[EtcError, ...]:
        """Those of files that could not be written."""
        return self._unwritten

    @property
    def verdicts(self) -> tuple[tuple[str, Verification], ...]:
        """The verification of each policy's table that has one."""
        return ()

    @property
    def exit_code(self) -> ExitCode:
        """The code that says most of the verdicts and of the errors."""
        return worst((verdict.exit_code for _, verdict in self.verdicts), self._errors, self._unwritten)

    def with_errors(self, errors: Iterable[EtcError] = (), unwritten: Iterable[EtcError] = ()) -> Self:
        """The report, with these errors besides; `unwritten` are those of files that could not be written."""
        found = self.model_copy()
        found._errors, found._unwritten = (*self._errors, *errors), (*self._unwritten, *unwritten)
        return found

    def or_raise(self, *, verdicts: bool = False) -> Self:
        """The report, where there is no error; with `verdicts` each that did not pass is one too.

        Raises:
            SeveralErrors: all of them, with this report.

        """
        failed = [error for one in self.verdicts if verdicts and (error := _verdict_error(*one)) is not None]
        if self.errors or failed:
            raise SeveralErrors((*self._errors, *failed, *self._unwritten), self.exit_code, self)
        return self


def _verdict_error(policy: str, verdict: Verification) -> VerdictError | None:
    if verdict.exit_code == ExitCode.DONE:
        return None
    error = VerdictError(Code.VERIFICATION_FAILED, f"verification of `{policy}`: {verdict.status} ({verdict.failures})")
    error.exit_code = verdict.exit_code
    return error


class RunResults(Report):
    """The results of one `etc apply`."""

    plan_id: str | None = None
    git: GitState | None = None
    tables: tuple[TableResult, ...]

    @property
    def verdicts(self) -> tuple[tuple[str, Verification], ...]:
        """Those of the tables that were verified."""
        return tuple((one.policy, one.verification) for one in self.tables if one.verification is not None)


class SyncReport(Report):
    """The results of one `etc sync`."""

    observed_at: str
    tables: tuple[SyncResult, ...]


class TableVerification(Frozen):
    """One table's verdict; it is an `error` too where the table could not be read."""

    policy: str
    base_path: str
    verification: Verification


class FinishedService(Frozen):
    """A compaction of others that `etc finish` carried out; `instant` is its request."""

    policy: str
    action: str
    instant: str


class FailedTable(Frozen):
    """A table where a verb failed; `policy` is None where the error is of no policy."""

    policy: str | None
    reason: str
    reason_code: str
    hints: tuple[str, ...]

    @classmethod
    def of(cls, error: EtcError) -> Self:
        """The entry of an error."""
        policy = error.where.object_name if error.where else None
        return cls(policy=policy, reason=error.message, reason_code=error.code, hints=error.hints)


class FinishReport(Report):
    """The results of one `etc finish`."""

    finished: tuple[FinishedService, ...]
    failed: tuple[FailedTable, ...]


class WithdrawnPlan(Frozen):
    """A pending plan of etc that `etc undo` withdrew."""

    policy: str
    instant: str


class UndoReport(Report):
    """The results of one `etc undo`."""

    withdrawn: tuple[WithdrawnPlan, ...]
    failed: tuple[FailedTable, ...]


class VerificationReport(Report):
    """The verdicts of one `etc verify`."""

    observed_at: str
    tables: tuple[TableVerification, ...]

    @property
    def verdicts(self) -> tuple[tuple[str, Verification], ...]:
        """Those of all tables."""
        return tuple((one.policy, one.verification) for one in self.tables)


class HeldBack(Frozen):
    """A file slice that holds RO back at its earliest event (an assumed one where it is not known), and since when that waits."""

    partition: str
    file_id: str
    earliest_event_ms: int
    waits_since_ms: int


class TableFreshness(Frozen):
    """How far one table's RO view is complete, from its metadata alone.

    `limits` are the policy's; without any the `status` is `no_target`. `left_out_file_slices` were due in the last compaction
    by etc, which left them out, as writers were adding to them or as the policy says; None where it left out none.
    `unknown_because` says in words why the event times of `unknown_log_files` are not known, and what helps. `late_data` is
    what came in below the threshold of the last compaction by etc after its plan was made, `data_latency` the judgement over
    the policy's; both are None where the table's past was not read. `complete_until_proof` is what proves `complete_until_ms`,
    `proofs` are all verifications of the last compaction that passed and are kept. `partitions` is None where nobody asked for
    them, or where it is not known how far the table is complete. `runs_without_progress` counts the last runs of `etc apply` in
    a row that brought RO no further though something was due, the first at `no_progress_since_ms`; `runs_of_day` and
    `runs_of_day_without_progress` count those of the last 24 hours. `held_back` names file slices that the last compaction, or
    the runs in a row, left out and that hold RO back now, `held_back_file_slices` counts them. `warnings` say what makes RO
    fall back again and again.
    """

    policy: str
    policy_fingerprint: str | None = None
    base_path: str
    status: FreshnessStatus
    reason: str | None = None
    limits: Freshness | None = None
    complete_until_ms: int | None = None
    complete_until_proof: Proof | None = None
    proofs: tuple[Proof, ...] = ()
    lag_seconds: float | None = None
    watermark_ms: int | None = None
    watermark_assumed: bool = False
    threshold_ms: int | None = None
    held_back_by: str | None = None
    last_commit_age_seconds: float | None = None
    remaining_log_files: int | None = None
    remaining_log_bytes: int | None = None
    remaining_file_slices: int | None = None
    unknown_log_files: int | None = None
    unknown_because: str | None = None
    left_out_file_slices: int | None = None
    held_back_file_slices: int = 0
    held_back: tuple[HeldBack, ...] = ()
    runs_without_progress: int = 0
    no_progress_since_ms: int | None = None
    runs_of_day: int = 0
    runs_of_day_without_progress: int = 0
    late_data: LateData | None = None
    data_latency: LatencyVerdict | None = None
    partitions: PartitionsFreshness | None = None
    warnings: tuple[str, ...] = ()
    #: That of the error which `reason` is of.
    error_code: str | None = Field(default=None, exclude=True)


class FreshnessReport(Report):
    """The freshness of all selected tables at one moment."""

    observed_at: str
    git: GitState | None = None
    tables: tuple[TableFreshness, ...]

    @property
    def exit_code(self) -> ExitCode:
        """The code that says most: FAILED where a table is beyond its limit, or nothing is known of it."""
        return self.exit_code_from("error")

    def exit_code_from(self, status: Literal["warn", "error"]) -> ExitCode:
        """The same, where tables fail from this status on; what is not known is a verdict here, and no failure of the engine."""
        failing = ("error", "unknown", *(("warn",) if status == "warn" else ()))
        return worst((ExitCode.FAILED for table in self.tables if table.status in failing), (), self.errors)
