from etc_policy.report.debug import DebugReport, render_debug
from etc_policy.verify.diagnosis import Finding


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
