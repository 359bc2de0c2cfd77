"""The job that `etc apply --submit` hands to spark-submit, in the driver's process."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from etc_policy.cli.main import guarded
from etc_policy.cli.messages import configure
from etc_policy.cli.printing import text_width
from etc_policy.cli.progress import Progress
from etc_policy.cli.terminal import prepare_streams, print_text

_OUTCOME = "--outcome"


def main(arguments: Sequence[str]) -> int:
    """Carry out the job of a file; returns the exit code of `etc apply`.

    After `--outcome` comes the file in which the one who submitted it looks for what is to be printed, and for the exit code.
    """
    given = list(arguments)
    prepare_streams()
    configure(given, os.environ)
    report: list[str] = []
    code = guarded(lambda: _run(Path(given[0]), as_json="--json" in given, report=report))
    if _OUTCOME in given:
        outcome = Path(given[given.index(_OUTCOME) + 1])
        outcome.write_text(json.dumps({"exit_code": code, "report": "".join(report)}), "utf-8")
    else:
        print_text("".join(report))
    return code


def _run(job: Path, *, as_json: bool, report: list[str]) -> int:
    from etc_policy.api.submitting import run_job
    from etc_policy.publish.report import render_results

    progress = Progress()
    try:
        results, raise_errors = run_job(job, progress)
    finally:
        progress.stop()
    report.append(results.as_json(indent=2) if as_json else render_results(results, text_width()))
    raise_errors()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
