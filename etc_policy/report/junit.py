"""Checks as JUnit XML on junitparser: a suite per policy, a case per check."""

from __future__ import annotations

import re
from collections.abc import Iterable
from io import BytesIO
from itertools import groupby
from pathlib import Path

from junitparser import Error, Failure, JUnitXml, TestCase, TestSuite

from etc_policy.errors import EngineError
from etc_policy.errors.codes import Code
from etc_policy.report.checks import Check
from etc_policy.storage.files import write_named

#: What XML 1.0 cannot hold even when it is escaped.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(title: str, checks: Iterable[Check], path: Path) -> None:
    """Write the file in one step; a warning passes and says so in its output.

    Raises:
        EngineError: the file cannot be written.

    """
    report = JUnitXml(title)
    for group, members in groupby(sorted(checks, key=lambda check: check.group), key=lambda check: check.group):
        suite = TestSuite(_text(group))
        suite.add_testcases([_case(check) for check in members])
        report.add_testsuite(suite)
    written = BytesIO()
    report.write(written, pretty=True)
    try:
        write_named(path, written.getvalue())
    except (OSError, ValueError) as error:
        raise EngineError(
            Code.CANNOT_WRITE_JUNIT,
            f"cannot write `{path}`",
            hint="name another place by `--junit-xml`",
            cause=str(error),
        ) from error


def _case(check: Check) -> TestCase:
    case = TestCase(_text(check.name), classname=_text(check.group), time=check.seconds)
    if check.where is not None:
        case._elem.set("file", _text(check.where.path))
        if check.where.line is not None:
            case._elem.set("line", str(check.where.line))
    text = _text(check.message or check.status)
    details = _text("\n".join((check.message or check.status, *check.lines[1:])))
    if check.status in ("fail", "error"):
        outcome = (Failure if check.status == "fail" else Error)(text)
        outcome.text = details
        case.result = [outcome]
    elif check.message or check.status == "warn":
        case.system_out = details if check.status == "pass" else f"{check.status}: {details}"
    return case


def _text(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)
