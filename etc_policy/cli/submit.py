"""`etc apply --submit`: hands a plan to spark-submit, or prints the command that would."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

from etc_policy.cli.messages import SETTINGS, show_note
from etc_policy.cli.options import Flags
from etc_policy.cli.printing import say
from etc_policy.cli.terminal import print_data, print_json
from etc_policy.errors import ExitCode

if TYPE_CHECKING:
    from etc_policy.wiring import Submission

_FOLDER = "submit"


def hand_over(submission: Submission | None, flags: Flags, *, dry_run: bool) -> int:
    """Run the job by spark-submit and return its exit code, or save its files and print the command."""
    if submission is None:
        return ExitCode.DONE
    if dry_run:
        command = submission.save(flags.target_dir / _FOLDER)
        SETTINGS.pause()
        if flags.output == "json":
            print_json(json.dumps({"command": command, "left_out": submission.left_out}, indent=2))
        else:
            print_data(shlex.join(command) + "\n")
        if submission.left_out:
            names = ", ".join(submission.left_out)
            show_note(f"left out of {flags.target_dir / _FOLDER}/spark.properties, as they may be secrets: {names}")
        return ExitCode.DONE
    outcome = submission.run(*_message_arguments(flags))
    if outcome.report and flags.output == "json":
        print_json(outcome.report)
    elif outcome.report:
        say(outcome.report)
    elif outcome.report is None:
        show_note(f"submitted to {submission.master}; the driver's log there has the report")
    return outcome.exit_code


def _message_arguments(flags: Flags) -> list[str]:
    given = {"--json": flags.output == "json", "--quiet": SETTINGS.quiet, "--debug": SETTINGS.debug}
    return [name for name, chosen in given.items() if chosen] + (["--log-format=json"] if SETTINGS.json else [])
