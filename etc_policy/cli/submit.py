"""`etc apply --submit`: hands a plan to spark-submit, or prints the command that would."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from etc_policy.cli.ci_forms import places, report_checks
from etc_policy.cli.messages import SETTINGS, show_note
from etc_policy.cli.options import Flags
from etc_policy.cli.printing import say
from etc_policy.cli.terminal import print_data, print_json
from etc_policy.errors import ExitCode

if TYPE_CHECKING:
    from etc_policy.policy.manifest import Policy
    from etc_policy.report.checks import Check, Places
    from etc_policy.wiring import Submission, SubmissionResult

_FOLDER = "submit"


def hand_over(submission: Submission | None, flags: Flags, policies: Iterable[Policy], *, dry_run: bool) -> int:
    """Run the job by spark-submit and return its exit code, or save its files and print the command."""
    if submission is None:
        return ExitCode.DONE
    if dry_run:
        _save(submission, flags)
        return ExitCode.DONE
    outcome = submission.run(*_message_arguments(flags))
    if outcome.report and flags.output == "json":
        print_json(outcome.report)
    elif outcome.report:
        say(outcome.report)
    elif outcome.report is None:
        show_note(f"submitted to {submission.master}; the driver's log there has the report")
    report_checks(_checks(outcome, places(policies)))
    return outcome.exit_code


def _save(submission: Submission, flags: Flags) -> None:
    folder = flags.target_dir / _FOLDER
    command = submission.save(folder)
    SETTINGS.pause()
    if flags.output == "json":
        print_json(json.dumps({"command": command, "left_out": submission.left_out}, indent=2))
    else:
        print_data(shlex.join(command) + "\n")
    if submission.left_out:
        names = ", ".join(submission.left_out)
        show_note(f"left out of {folder}/spark.properties, as they may be secrets: {names}")


def _checks(outcome: SubmissionResult, where: Places) -> Iterator[Check]:
    """What the job did and found; an error that is in no table's result is one check of its own."""
    from etc_policy.report.checks import PROJECT, Check, checks_of_results
    from etc_policy.report.results import RunResults

    results = RunResults.model_validate_json(outcome.results) if outcome.results else None
    found = checks_of_results(results, where) if results else ()
    yield from found
    if outcome.exit_code != ExitCode.DONE and not any(check.status in ("fail", "error") for check in found):
        message = f"the job ended with exit code {outcome.exit_code}; its own messages say why"
        yield Check(PROJECT, "apply", "error", message)


def _message_arguments(flags: Flags) -> list[str]:
    given = {"--json": flags.output == "json", "--quiet": SETTINGS.quiet, "--debug": SETTINGS.debug}
    return [name for name, chosen in given.items() if chosen] + (["--log-format=json"] if SETTINGS.json else [])
