"""Great Expectations' results in etc's own form: data that disagrees is kept apart from checks that did not run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from etc_policy.spark.java_causes import causes_in
from etc_policy.verify.catalog import source_of
from etc_policy.verify.ports import CheckStatus, ExpectationResult
from etc_policy.verify.suites import SuiteExpectation

_SAMPLE_SIZE = 20
_IF_ON_PURPOSE = (
    "if writers keep copies of a key on purpose, declare `writer.keys: repeated`, else `etc explain deletes` "
    "removes them"
)
_REPORTED = ("observed_value", "element_count", "unexpected_count", "unexpected_percent", "partial_unexpected_list")


def read_result(expectation: SuiteExpectation, result: Mapping[str, Any]) -> ExpectationResult:
    """The result of one expectation from the JSON form of Great Expectations' own."""
    view = None if source_of(expectation.type) == "rows" else expectation.view
    problem = exception_message(result.get("exception_info") or {})
    build = partial(ExpectationResult, expectation=expectation.type, on=view, columns=_columns(expectation))
    if problem is not None:
        return build(status="error", message=problem)
    outcome = result.get("result") or {}
    observed = outcome.get("details") or _observed(outcome)
    status = _status(expectation, bool(result["success"]))
    return build(status=status, observed=observed, message=_message(status, observed))


def _columns(expectation: SuiteExpectation) -> tuple[str, ...]:
    """The columns that the expectation names."""
    given = [expectation.kwargs.get(name) for name in ("column", "column_A", "column_B")]
    listed = expectation.kwargs.get("column_list")
    given += listed if isinstance(listed, list) else []
    return tuple(name for name in given if isinstance(name, str))


def exception_message(info: Mapping[str, Any]) -> str | None:
    """The message of the exception in an `exception_info`, None if it is missing.

    It has two shapes: the exception itself, or one entry for each metric that raised.
    """
    if info.get("raised_exception"):
        return _first_line(info)
    nested = [entry for entry in info.values() if isinstance(entry, Mapping) and entry.get("raised_exception")]
    return _first_line(nested[0]) if nested else None


def _first_line(info: Mapping[str, Any]) -> str:
    text = str(info.get("exception_message") or "")
    causes = causes_in(text)
    if causes:
        return " ".join(causes.split())
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else "the check raised an exception without a message"


def _status(expectation: SuiteExpectation, success: bool) -> CheckStatus:
    if success:
        return "pass"
    return "fail" if expectation.severity == "critical" else "warn"


def _observed(outcome: Mapping[str, Any]) -> dict[str, Any]:
    reported = {name: outcome[name] for name in _REPORTED if outcome.get(name) is not None}
    if "partial_unexpected_list" in reported:
        reported["partial_unexpected_list"] = reported["partial_unexpected_list"][:_SAMPLE_SIZE]
    return reported


def _message(status: CheckStatus, observed: Mapping[str, Any]) -> str | None:
    """A sentence for what did not pass; None for what did."""
    if status == "pass":
        return None
    samples = observed.get("samples") or {}
    if "fault" in observed:
        return str(observed["fault"])
    counts = [f"{observed[kind]:,} {kind.replace('_', ' ')}" for kind in samples]
    first = next((keys[0] for keys in samples.values() if keys), None)
    if first is not None:
        groups = next((keys[0]["file_groups"] for keys in samples.values() if keys and "file_groups" in keys[0]), ())
        where = f", in the file group{'s' if len(groups) > 1 else ''} {' and '.join(groups)}" if groups else ""
        example = f"for example key `{first['key']}` in partition `{first['partition']}`{where}"
        advice = f"; {_IF_ON_PURPOSE}" if any(kind.startswith("duplicate_keys") for kind in samples) else ""
        return f"{', '.join(counts)}; {example}{advice}"
    unexpected = observed.get("unexpected_count")
    if unexpected is None:
        return None
    example = next((f", such as `{str(value)[:60]}`" for value in observed.get("partial_unexpected_list") or ()), "")
    return f"{unexpected:,} of {observed.get('element_count', 0):,} unexpected{example}"
