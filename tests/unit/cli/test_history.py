"""`etc history` over real table folders: the record is in the table, so any machine can read it."""

import json
import shutil

import pytest

from tests.unit.hudi.table_folder import (
    COMMIT_SCHEMA,
    TableFolder,
    archived,
    at,
    avro,
    base,
    commit_metadata,
    log,
)

OURS = {
    "etc.event_time.threshold": "1767261600000",
    "etc.policy": "orders_ro",
    "etc.policy_fingerprint": "f00d",
    "etc.plan_id": "p1",
    "etc.seen_until": at("10:00:05"),
    "etc.git_sha": "0123456789abcdef",
}


@pytest.fixture
def table(project):
    """A table with one archived and one active compaction by etc."""
    table = TableFolder(project / "lake" / "orders")
    first = commit_metadata(at("09:00:04"), (base("f1", merged=1),), {**OURS, "etc.plan_id": "p0"}, "COMPACT")
    table.archive(
        archived(at("09:00:00"), at("09:00:01"), base("f1")),
        {
            "instantTime": at("09:00:04"),
            "completionTime": at("09:00:10"),
            "action": "commit",
            "metadata": avro(COMMIT_SCHEMA, first),
        },
    )
    table.commit(at("10:00:00"), at("10:00:05"), log("f1", 1_767_261_000_000))
    table.compaction(at("10:00:06"), at("10:00:30"), base("f1", merged=1), extra=OURS)
    return table


def compactions(out):
    return [
        (c["instant"], c["plan_id"], c["git_sha"], c["archived"], len(c["checks"]))
        for c in json.loads(out)["compactions"]
    ]


def test_archive_and_active_timeline_tell_the_record(table, etc):
    code, out, _ = etc("history", "orders_ro", "--output", "json")
    assert code == 0
    assert compactions(out) == [
        (at("09:00:04"), "p0", "0123456789abcdef", True, 0),
        (at("10:00:06"), "p1", "0123456789abcdef", False, 0),
    ]


def test_checks_come_from_this_machine_and_the_rest_from_any(project, table, etc, tmp_path_factory):
    assert etc("verify", "--select", "orders_ro", "--level", "metadata")[0] == 0
    assert etc("verify", "--select", "orders_ro", "--level", "metadata")[0] == 0
    here = etc("history", "orders_ro", "--output", "json")[1]
    assert [entry[-1] for entry in compactions(here)] == [0, 2]
    assert len(list((project / "target" / "runs").iterdir())) >= 1
    assert "PASS  4 of 4 checks (level: metadata), etc verify at " in etc("history", "orders_ro")[1]

    elsewhere = tmp_path_factory.mktemp("fresh") / "clone"
    shutil.copytree(project, elsewhere, ignore=shutil.ignore_patterns("target"))
    there = etc("history", "orders_ro", "--project-dir", str(elsewhere), "--output", "json")[1]
    assert [entry[:-1] for entry in compactions(there)] == [entry[:-1] for entry in compactions(here)]
    assert [entry[-1] for entry in compactions(there)] == [0, 0]


def test_histories_of_what_is_selected(project, table, etc):
    other = TableFolder(project / "lake" / "payments")
    other.commit(at("08:00:00"), at("08:00:05"), base("f1"))
    code, out, _ = etc("history", "--select", "payments_ro orders_ro", "--output", "json")
    found = json.loads(out)
    assert (code, found["schema_version"]) == (0, 1)
    assert [(one["policy"], len(one["compactions"])) for one in found["histories"]] == [
        ("orders_ro", 2),
        ("payments_ro", 0),
    ]
    text = etc("history", "--select", "*_ro", "--exclude", "payments_ro")[1]
    assert text == etc("history", "orders_ro")[1]
    assert (
        "\n\npayments_ro  lake/payments\n\n  no compaction yet\n" in etc("history", "orders_ro", "-s", "payments_ro")[1]
    )


def test_a_table_that_cannot_be_read_hides_no_other_history(project, table, etc):
    code, out, err = etc("history", "--select", "*_ro", "--output", "json")
    listed = [(one["policy"], len(one["compactions"]), one["reason_code"]) for one in json.loads(out)["histories"]]
    assert (code, listed) == (1, [("orders_ro", 2, None), ("payments_ro", 0, "ETC201")])
    assert "error[ETC201]" in err
    assert etc("history", "--select", "*_ro")[1] == etc("history", "orders_ro")[1]


def test_a_verification_that_read_no_table_is_no_check_of_any_compaction(project, table, etc):
    """Also not of a stock one, which has no threshold either."""
    commits = project / "lake" / "orders" / ".hoodie"
    commits.rename(commits.with_name("away"))
    assert etc("verify", "--select", "orders_ro", "--level", "metadata")[0] == 1
    commits.with_name("away").rename(commits)
    found = json.loads(etc("history", "orders_ro", "--output", "json")[1])
    assert [len(one["checks"]) for one in found["compactions"]] == [0, 0]
    assert [one["verification"]["status"] for one in found["attempts"]] == ["error"]
    assert "verification only" in etc("history", "orders_ro")[1]


def test_one_that_cannot_be_read_fits_the_schema_and_prints_no_text(project, etc):
    code, out, err = etc("history", "orders_ro", "--output", "json")
    found = json.loads(out)
    assert (code, found["compactions"], found["reason_code"]) == (1, [], "ETC201")
    assert (etc("history", "orders_ro")[:2], "error[ETC201]" in err) == ((1, ""), True)


@pytest.mark.parametrize("arguments", [("history",), ("history", "-s", ""), ("wait", "", "--until", "2026-01-01")])
def test_a_command_that_needs_a_choice_takes_no_empty_one(project, etc, arguments):
    """A variable of the shell that is not set is not all policies."""
    code, out, err = etc(*arguments)
    assert (code, out) == (64, "")
    assert "name a policy, or select some by `--select`" in err


def test_a_result_of_a_newer_version_is_named_and_left_out(project, table, etc):
    runs = project / "target" / "runs"
    runs.mkdir(parents=True)
    (runs / "a.json").write_text('{"schema_version": 99, "all": "new"}')
    (runs / "b.json").write_bytes(b"\xff\xfe")
    code, out, err = etc("history", "orders_ro")
    assert code == 0
    assert "warning[ETC612]: this run file was written by a newer version of etc (schema 99, this one knows 1)" in err
    assert "warning[ETC611]: this run file cannot be read" in err
    assert out.count("compacted, completed") == 2


def test_an_unknown_policy(project, etc):
    code, _, err = etc("history", "order_ro")
    assert (code, "did you mean `orders_ro`?" in err) == (64, True)
