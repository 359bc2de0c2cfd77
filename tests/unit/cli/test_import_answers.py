"""Answers of `etc import --set` that the tables contradict: an error each, before anything is written."""

import pytest

from etc_policy.wiring import Environment
from tests.unit.cli.test_import import make_kind, written

#: The columns of each table, the first is the ordering field.
TABLES = {
    "orders": {"updated_at": "time", "placed_at*": "time"},
    "stock": {"version": "us", "updated_at": "s"},
    "notes": {"measured_at": "iso", "size": "ms"},
}


@pytest.fixture
def tables(tmp_path, monkeypatch):
    monkeypatch.setattr(Environment, "spark", property(lambda _: pytest.fail("Spark was asked for")))
    monkeypatch.chdir(tmp_path)
    for name, columns in TABLES.items():
        make_kind(tmp_path / "lake" / name, columns, writes=4)
    return tmp_path / "lake"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            ["event_time_column=update_at"],
            "error[ETC209]: `--set` of `event_time_column`: `notes`, `orders`, `stock`: no column `update_at`|"
            "hint: `notes`: its columns are `measured_at`, `size`; `orders`, `stock`: did you mean",
        ),
        (["orders:event_time_column=update_at"], "`orders`: no column `update_at`|hint: did you mean `updated_at`?|"),
        (
            ["event_time_column=updated_at"],
            "`notes`: no column `updated_at`|hint: its columns are `measured_at`, `size`",
        ),
        (["o*:event_time_column={column: placed}"], "`orders`: no column `placed`|hint: did you mean `placed_at`?|"),
        (
            ["orders:event_time_column.unit=s"],
            "error[ETC212]: `--set` of `event_time_column.unit`: `orders`: `updated_at` is",
        ),
        (
            ["notes:event_time_column={column: size, format: yyyy}"],
            "`size` is long, and no text|hint: leave `format` out",
        ),
        (
            ["stock:event_time_column=updated_at", "stock:event_time_column.unit=us"],
            "are no times in `us`|hint: the values look like seconds: set `event_time_column: {column: updated_at, unit: s}`",
        ),
        (["notes:event_time_column.format=dd/MM/yyyy"], "`notes`: its values of `measured_at`, `"),
        (["partition_time={from: 'dt=%Y-%m-%d'}"], "`notes`, `orders`, `stock`: no partition that fits `dt=%Y-%m-%d`|"),
        (["*:writer.index=bucket"], "declared `bucket`, but its file groups carry no bucket numbers|hint: correct"),
    ],
)
def test_an_answer_that_a_table_contradicts_is_an_error_before_anything_is_written(tables, etc, given, said):
    code, out, err = etc("import", "--bucket", "lake", "--set", "data_latency=1h", *(f"--set={one}" for one in given))
    assert (code in (1, 2, 64), out) == (True, ""), err
    shown = "|".join(" ".join(line.split()) for line in err.splitlines() if line) + "|"
    assert said in shown, shown
    assert [path.name for path in tables.parent.iterdir()] == ["lake"]


@pytest.mark.parametrize(
    ("given", "column"),
    [
        (["event_time_column.max_ahead=2d"], "{column: updated_at, unit: s, max_ahead: 2d}"),
        (["event_time_column.unit=s"], "{column: updated_at, unit: s}"),
        (["event_time_column=version", "event_time_column.unit=us"], "{column: version, unit: us}"),
        (["event_time_column={column: version}", "event_time_column.unit=us"], "{column: version, unit: us}"),
    ],
)
def test_what_is_below_the_column_can_be_said_alone(tables, etc, given, column):
    code, _, err = etc("import", "lake/stock", *(f"--set={one}" for one in ("data_latency=1h", *given)))
    assert (code, written(tables)) == (0, ["stock.yml"]), err
    text = (tables.parent / "policies" / "stock.yml").read_text()
    assert f"    event_time_column: {column}\n" in text
    assert text.count("event_time_column") == 1


def test_an_answer_for_several_tables_by_their_names(tables, etc):
    answers = ("notes,stock:enabled=false", "orders,stock:event_time_column=updated_at", "data_latency=1h")
    assert etc("import", "--bucket", "lake", *(f"--set={one}" for one in answers))[0] == 0
    texts = {name: (tables.parent / "policies" / name).read_text() for name in written(tables)}
    assert [name for name, text in texts.items() if "enabled: false" in text] == ["notes.yml", "stock.yml"]
    code, _, err = etc("import", "lake/notes", "--project-dir", "other", "--set", "notes,nots:enabled=false")
    assert (code, "fits `nots`" in err, "did you mean `notes`?" in err) == (64, True, True), err


def test_what_all_tables_have_is_written(tables, etc):
    answers = ("[os]*:event_time_column=updated_at", "data_latency=1h", "writer.compaction=async")
    assert etc("import", "--bucket", "lake", *(f"--set={one}" for one in answers))[0] == 0
    assert etc("parse")[:2] == (0, "3 policies OK\n")
