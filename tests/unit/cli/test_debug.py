import json

from jsonschema import Draft202012Validator

from etc_policy.report.schemas import json_schema
from tests.unit.hudi.table_folder import TableFolder, at, base, log


def findings(etc, *arguments):
    code, out, _ = etc("debug", "--output", "json", *arguments)
    report = json.loads(out)
    assert not list(Draft202012Validator(json_schema("debug")).iter_errors(report))
    return code, {(f["subject"], f["check"]): f for f in report["findings"]}


def write(project):
    table = TableFolder(project / "lake" / "orders")
    table.commit(at("00:00:00"), at("00:00:01"), base("f"))
    table.commit(at("00:02:00"), at("00:02:01"), log("f", min_event=1_711_846_800_123, size=2_000_000))
    return table


def test_what_is_wrong_is_told_with_what_to_do(etc, project):
    write(project)
    code, found = findings(etc)
    assert code == 1
    assert found["orders_ro", "table"]["status"] == "ok"
    large = found["orders_ro", "log file size"]
    assert (large["status"], large["message"]) == ("warn", "the only log file is larger than 1.0 MiB, with 1.9 MiB")
    missing = found["payments_ro", "table"]
    assert (missing["status"], "the folder does not exist" in missing["message"]) == ("error", True)
    assert found["project", "git"]["status"] == "warn"
    assert found["machine", "session"]["status"] == "skipped"


def test_warnings_do_not_fail(etc, project):
    write(project)
    assert findings(etc, "--select", "orders_ro")[0] == 0


def test_a_compaction_of_others(etc, project):
    table = write(project)
    table.compaction(at("00:05:00"), at("00:05:02"), base("f"))
    _, found = findings(etc, "--select", "orders_ro")
    assert found["orders_ro", "compactions"]["status"] == "warn"


def test_faults_of_the_files_are_one_finding(etc, project):
    (project / "policies" / "b.yml").write_text("version: 1\npolicies: 3\n")
    code, found = findings(etc)
    assert (code, found["project", "files"]["status"]) == (1, "error")
    assert not [subject for subject, _ in found if subject.endswith("_ro")]


def test_faults_of_the_settings_hide_neither_the_machine_nor_the_project(etc, project):
    (project / "etc_project.yml").write_text("nmae: shop\n")
    code, found = findings(etc)
    assert (code, found["project", "files"]["status"]) == (1, "error")
    assert "unknown key `nmae`" in found["project", "files"]["message"]
    assert {"python", "java", "bundle"} < {check for subject, check in found if subject == "machine"}
    assert (found["project", "git"]["status"], found["project", "target"]["status"]) == ("warn", "skipped")
    assert findings(etc, "--spark")[1]["machine", "session"]["status"] == "skipped"


def test_no_project_at_all(etc, tmp_path):
    code, found = findings(etc, "--project-dir", str(tmp_path))
    assert (code, "no folder `policies`" in found["project", "files"]["message"]) == (1, True)


def test_text(etc, project):
    write(project)
    _, out, _ = etc("debug", "--select", "orders_ro")
    lines = out.splitlines()
    assert lines[0] == "machine"
    assert "  log file size WARN  the only log file is larger than 1.0 MiB, with 1.9 MiB" in lines
    assert lines[-1].endswith("warnings.") or lines[-1].endswith("warning.")
