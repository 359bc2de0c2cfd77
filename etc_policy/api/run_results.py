"""What the last run of `etc apply` did to each table, from its results file."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from etc_policy.errors import EngineError, Where
from etc_policy.publish.results import RESULTS_SCHEMA_VERSION, RunResults, TableResult

RESULTS_FILE = "run_results.json"


def last_results(target_dir: Path) -> dict[str, TableResult]:
    """The latest result of each policy by its name; empty where nothing has run.

    Raises:
        EngineError: the results cannot be read, or are of a newer version of etc.

    """
    path = target_dir / RESULTS_FILE
    try:
        content = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise EngineError("ETC343", "cannot read the results", where=Where(str(path)), cause=str(error)) from error
    version = content.get("schema_version") if isinstance(content, dict) else None
    if isinstance(version, int) and version > RESULTS_SCHEMA_VERSION:
        message = f"the results are of version {version}; this etc reads up to {RESULTS_SCHEMA_VERSION}"
        raise EngineError("ETC343", message, where=Where(str(path)), hint="use the newer etc, or run `etc apply`")
    try:
        results = RunResults.model_validate(content)
    except ValidationError as error:
        message = "these are not the results of a run"
        raise EngineError("ETC343", message, where=Where(str(path)), hint="delete the file") from error
    return {result.policy: result for result in results.tables}
