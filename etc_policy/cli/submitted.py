"""The job that `etc apply --submit` hands to spark-submit, in the driver's process."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from etc_policy.cli.main import end_beside_requests, guarded
from etc_policy.cli.messages import configure
from etc_policy.cli.opening import Progress
from etc_policy.cli.printing import text_width
from etc_policy.cli.terminal import prepare_streams, print_text
from etc_policy.errors import UsageError
from etc_policy.errors.codes import Code

_OUTCOME = "--outcome"


def run() -> NoReturn:
    """Carry out the job of this process's arguments, and end the process."""
    code = main(sys.argv[1:])
    end_beside_requests(code)
    sys.exit(code)


def main(arguments: Sequence[str]) -> int:
    """Carry out the job of a file; returns the exit code of `etc apply`.

    After `--outcome` comes the file in which the one who submitted it looks for what is to be printed, for the
    exit code and for the results of the tables.
    """
    given = list(arguments)
    prepare_streams()
    configure(given, os.environ)
    said: dict[str, str] = {}
    code = guarded(_run, given, said)
    report, outcome = said.get("report", ""), _after(_OUTCOME, given)
    if outcome is not None:
        whole = {"exit_code": code, "report": report, "results": said.get("results")}
        Path(outcome).write_text(json.dumps(whole), "utf-8")
    else:
        print_text(report)
    return code


def _job_of(given: Sequence[str]) -> Path:
    if not given or given[0].startswith("--") or (_OUTCOME in given and _after(_OUTCOME, given) is None):
        hint = "give it the path of etc_job.json, as the printed command does"
        raise UsageError(Code.USAGE, "the job's file is missing, or a file after `--outcome`", hint=hint)
    return Path(given[0])


def _after(flag: str, given: Sequence[str]) -> str | None:
    values = given[given.index(flag) + 1 :] if flag in given else ()
    return values[0] if values else None


def _run(given: Sequence[str], said: dict[str, str]) -> int:
    from etc_policy.api.submitting import run_job
    from etc_policy.report.report import render_results

    job, progress = _job_of(given), Progress()
    try:
        results = run_job(job, progress)
    finally:
        progress.stop()
    said["results"] = results.as_json(indent=2)
    said["report"] = said["results"] if "--json" in given else render_results(results, text_width())
    results.or_raise(verdicts=True)
    return 0


if __name__ == "__main__":
    run()
