"""`etc retry`, and the selectors of what earlier commands left in the target folder."""

import json


def test_what_failed_is_applied_again_and_nothing_else(etc, project):
    assert etc("apply", "--yes", "--select", "orders_ro")[0] != 0  # there is no table
    code, out, _ = etc("retry", "--output", "json", "--yes")
    assert (code, [one["policy"] for one in json.loads(out)["tables"]]) == (1, ["orders_ro"])


def test_of_what_is_selected_what_failed_is_applied_again(etc, project):
    assert etc("apply", "--yes")[0] != 0  # there is no table
    for terms in (("-s", "orders_ro"), ("-s", "ord* pay*", "--exclude", "payments_ro"), ("--exclude", "payments_ro")):
        code, out, _ = etc("retry", "--output", "json", "--yes", *terms)
        assert (code, [one["policy"] for one in json.loads(out)["tables"]]) == (1, ["orders_ro"]), terms


def test_without_an_earlier_run_there_is_nothing_to_retry(etc, project):
    code, out, err = etc("retry", "--yes")
    assert (code, out) == (64, "")
    assert "error[ETC006]: `result:error` needs an earlier run" in err


def test_where_all_went_well_it_ends_at_once(etc, project):
    etc("apply", "--yes", "--select", "orders_ro")
    results = project / "target" / "run_results.json"
    results.write_text(results.read_text().replace('"failed"', '"nothing_due"'))
    code, _, err = etc("retry", "--yes")
    assert (code, err) == (0, "no policy is selected\n")


def test_policies_are_selected_by_what_was_found_of_their_freshness(etc, project):
    etc("freshness", "--select", "orders_ro")
    found = {one: etc("ls", "--select", f"freshness:{one}", "--output", "names")[1] for one in ("unknown", "pass")}
    assert found == {"unknown": "orders_ro\n", "pass": ""}
    (project / "target" / "freshness.json").write_text('{"schema_version": 99}')
    code, _, err = etc("ls", "--select", "freshness:unknown")
    assert (code, "error[ETC343]: the results are of version 99" in err) == (3, True)
    (project / "target" / "freshness.json").write_text("{")
    assert "hint: delete the file" in etc("ls", "--select", "freshness:unknown")[2]
