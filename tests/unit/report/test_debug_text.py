from etc_policy.report.debug import DebugReport, list_debug, render_debug
from etc_policy.verify.diagnosis import CHECKS, Finding, finding


def test_what_does_not_fit_stays_in_its_column():
    path = f"/{'a' * 70}/bundle.jar"
    findings = (
        Finding(subject="machine", check="bundle", status="ok", message=f"Hudi 1.2.0 ({path})"),
        Finding(subject="machine", check="git", status="warn", message="not in git", hint="keep policies in git"),
    )
    assert render_debug(DebugReport(etc_version="1", findings=findings), 80) == (
        "machine\n"
        "  bundle        ok    Hudi 1.2.0\n"
        f"                      ({path})\n"
        "  git           WARN  not in git\n"
        "                      hint: keep policies in git\n\n"
        "etc 1: 0 errors, 1 warning."
    )


def test_each_of_several_tables_has_a_line_the_gravest_first():
    rows = [
        ("machine", "python", "ok", "Python 3.11"),
        ("a_ro", "table", "ok", "lake/a"),
        ("a_ro", "backlog", "ok", "RO lacks 1 log file"),
        ("b_ro", "lock", "warn", "no lock is declared"),
        ("c_ro", "lock", "warn", "no lock is declared"),
        ("c_ro", "table", "error", "there is no table, " + "which is said at length " * 9),
    ]
    findings = tuple(Finding(**dict(zip(("subject", "check", "status", "message"), row, strict=True))) for row in rows)
    assert list_debug(DebugReport(etc_version="1", findings=findings), 80) == (
        "c_ro     ERROR  table, lock: there is no table, which is said at length ...\n"
        "b_ro     WARN   lock: no lock is declared\n"
        "machine  ok     1 check\n"
        "a_ro     ok     RO lacks 1 log file\n\n"
        "etc 1: 1 error, 2 warnings. `etc debug --verbose` shows each check and what to\n"
        "do, `--select NAME` those of a table."
    )
    one = DebugReport(etc_version="1", findings=findings[:3])
    assert list_debug(one, 80) == render_debug(one, 80)


def test_of_warnings_the_line_says_the_gravest():
    """What puts rows at risk, then what holds RO back, then what only costs."""
    told = {"log file size": "large", "data latency": "late", "lock": "in one JVM", "pauses": "none", "version": "9"}
    found = [
        finding(name, check, "warn" if check in told else "ok", told.get(check, "fine"))
        for name in ("a", "b", "c", "d")
        for check in CHECKS
        if name != "d" or check not in ("lock", "data latency")
    ]
    lines = list_debug(DebugReport(etc_version="1", findings=tuple(found)), 116).splitlines()
    assert lines[0] == "a  WARN  lock, data latency, pauses, log file size, version: in one JVM"
    assert lines[3] == "d  WARN  pauses, log file size, version: none"
