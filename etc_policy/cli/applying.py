"""Applies plans table by table and verifies each from the table itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from zoneinfo import ZoneInfo

from etc_policy.cli.moments import iso_time
from etc_policy.cli.planning import require_same_table
from etc_policy.compile.manifest import Policy, VerifyLevel
from etc_policy.declare.suites import read_suite
from etc_policy.errors import EngineError, EtcError, ExitCode, StalePlanError
from etc_policy.execute.ports import Outcome, TableStatus
from etc_policy.plan.stages import TablePlan
from etc_policy.plan.table_state import TableState
from etc_policy.plan.watermark import watermark
from etc_policy.publish.results import TableResult, table_result
from etc_policy.verify.ports import ExpectationResult, Verification
from etc_policy.verify.prover import Claim, verify_table
from etc_policy.verify.suites import parse_suite
from etc_policy.wiring import Environment, clock_ms

_EXIT_CODES: dict[str, ExitCode] = {"fail": ExitCode.FAILED, "error": ExitCode.ENGINE}


@dataclass
class Applier:
    """One `etc apply`: results and errors are gathered, and one table's error does not stop the next."""

    environment: Environment
    now_ms: int
    git_sha: str | None = None
    results: list[TableResult] = field(default_factory=list)
    errors: list[EtcError] = field(default_factory=list)

    def finish_pending(self, policy: Policy) -> bool:
        """Finish what a killed run left on a table; false when that failed and the table should be left alone."""
        started = clock_ms()
        try:
            outcome = self.environment.runner().finish_pending(policy, policy.table)
            if outcome is not None:
                self._add(policy, outcome, started)
        except EtcError as error:
            self._fail(policy, error, started)
            return False
        return True

    def apply(self, policy: Policy, table: TablePlan, plan_id: str) -> None:
        """Carry out one table's plan and verify the table."""
        started = clock_ms()
        try:
            require_same_table(table, policy)
            self._add(policy, self.environment.runner().apply(policy, table, plan_id, self.git_sha), started)
        except EtcError as error:
            self._fail(policy, error, started, table)

    def exit_codes(self) -> list[ExitCode]:
        """What the verifications say, as exit codes."""
        verdicts = (result.verification.status for result in self.results if result.verification)
        return [_EXIT_CODES[status] for status in verdicts if status in _EXIT_CODES]

    def _add(self, policy: Policy, outcome: Outcome, started_ms: int) -> None:
        measured, verification = None, None
        compacted_ms = clock_ms()
        if outcome.status != "refused":
            state = self.environment.read_state(policy, read_stats=True)
            measured = _measured(policy, state)
            claim = Claim(outcome.threshold_ms or 0, outcome.seen_until or "")
            level: VerifyLevel = "metadata" if outcome.status == "nothing_due" else policy.verify.level
            self.environment.progress(f"{policy.name}: verifying ({level})")
            verification = verify(self.environment, policy, state, claim, self.now_ms, level)
        self.results.append(
            table_result(
                outcome,
                started_at=iso_time(started_ms),
                completed_at=iso_time(clock_ms()),
                seconds=(compacted_ms - started_ms) / 1000,
                watermark_measured_ms=measured,
                verification=verification,
            )
        )

    def _fail(self, policy: Policy, error: EtcError, started_ms: int, table: TablePlan | None = None) -> None:
        self.errors.append(error)
        status: TableStatus = "stale" if isinstance(error, StalePlanError) else "failed"
        outcome = Outcome(
            policy=policy.name,
            base_path=policy.table,
            status=status,
            threshold_ms=table.threshold_ms if table else None,
            instant=table.instant if table else None,
            reason=error.message,
        )
        now, seconds = iso_time(clock_ms()), (clock_ms() - started_ms) / 1000
        self.results.append(
            table_result(
                outcome,
                started_at=iso_time(started_ms),
                completed_at=now,
                seconds=seconds,
                watermark_measured_ms=None,
                verification=None,
            )
        )


def verify(
    environment: Environment, policy: Policy, state: TableState, claim: Claim, now_ms: int, level: VerifyLevel
) -> Verification:
    """The verdict over one table; an engine that fails is an `error`, neither success nor failed data."""
    path, text = read_suite(policy.verify.suite, environment.project_dir)
    suite = parse_suite(text, path).items
    verifier = environment.data_verifier if level == "data" else None
    try:
        return verify_table(policy, state, claim, now_ms, suite, verifier)
    except EngineError as error:
        message = f"{error.message}: {error.cause}" if error.cause else error.message
        broken = ExpectationResult(expectation="data_can_be_read", status="error", message=message)
        return Verification(level=level, status="error", threshold_ms=claim.threshold_ms, expectations=(broken,))


def _measured(policy: Policy, state: TableState) -> int | None:
    return watermark((f for _, f in state.log_files), policy.data_latency_ms, ZoneInfo(state.timezone)).value_ms
