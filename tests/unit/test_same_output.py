"""`python -m dev.same_output` tells what a change of the code changes for users."""

from dev import same_output

COMMANDS = "plan --output json; docs generate; apply --yes"


def test_two_tables_give_the_same_twice_and_a_change_is_told(tmp_path):
    made, work = tmp_path / "made", tmp_path / "work"
    same_output.make_lake(made / "lake", tables=2)
    for kept in ("was", "now"):
        same_output.copy(made, work)
        same_output.record(work, tmp_path / kept, {"lake": COMMANDS})

    assert len(list((tmp_path / "was").rglob("code"))) == 3
    assert list((tmp_path / "was").rglob("site/index.html"))
    assert list(same_output.differences(tmp_path / "was", tmp_path / "now")) == []
    stdout = next((tmp_path / "now").rglob("stdout"))
    stdout.write_text(stdout.read_text().replace("v6_file_slice_ro", "another"))
    (told,) = same_output.differences(tmp_path / "was", tmp_path / "now")
    assert "v6_file_slice_ro" in told
