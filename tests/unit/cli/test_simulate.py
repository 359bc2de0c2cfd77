"""`etc simulate` over real table folders: its figures, what it knows of settings, and tables it cannot replay."""

import json
import re

import pytest
from jsonschema import Draft202012Validator

from etc_policy.api.project import Project
from etc_policy.errors import UsageError
from etc_policy.report.schemas import json_schema
from etc_policy.report.simulation import render_simulation
from etc_policy.wiring import Environment
from tests.command_blocks import Shell, command_blocks_of
from tests.unit.hudi.table_folder import TableFolder, archived, at, base, log
from tests.unit.plan.plan_cases import epoch_ms

POLICY = """version: 1
policies:
  - name: orders_ro
    table: lake/orders
    event_time_column: ts
    data_latency: 30m
    strategy: {{every: 15m, granularity: {granularity}}}
    freshness: {{target: 1h30m}}
"""
EVENTS = ("08:30:00", "09:00:00", "09:40:00", "09:55:00", "10:20:00", "10:50:00", "11:10:00")


@pytest.fixture
def lake(tmp_path, monkeypatch):
    """A table with an archived commit, a delta commit every half hour, late data and a compaction; nobody may ask for Spark."""
    monkeypatch.setattr(Environment, "spark", property(lambda _: pytest.fail("Spark was asked for")))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "a.yml").write_text(POLICY.format(granularity="log_file"))
    table = TableFolder(tmp_path / "lake" / "orders")
    table.archive(archived(at("08:00:00"), at("08:00:05"), base("f1"), base("f2")))
    table.data(at("08:00:00"), base("f1"), base("f2"))
    for number, event in enumerate(EVENTS):
        clock = f"{8 + (number + 2) // 2:02}:{(number + 2) % 2 * 30:02}"
        files = [
            log(group, epoch_ms(event), rows=7, previous=at("08:00:00")) for group in ("f1", "f2")[: 1 + number % 2]
        ]
        table.commit(at(f"{clock}:00"), at(f"{clock}:05"), *files)
    table.compaction(at("11:00:06"), at("11:01:00"), base("f1", merged=5), base("f2", merged=2))
    return table


TEXT = """\
orders_ro  lake/orders
  replayed      4h up to 2026-01-01 12:00:05 UTC: 7 commits with log files
  sees back to  2026-01-01 08:00:05 UTC, the table's first write
  a run takes   2m (assumed, as none is known)
  changed       data_latency: 30m -> 20m; strategy.granularity: log_file -> file_slice

                          RO lag p50    p99  worst  above target  late rows     runs   read  written
  as it was                   50m33s  2h28m  2h31m          1h1m          -        1  270 B    200 B
  policy, every 15m           50m20s  1h20m  1h22m            0s          0  4 of 16  470 B    400 B
  changed, every 15m           42m5s  1h20m  1h22m            0s         21  6 of 16  800 B    700 B
  stock, every hour              30m   1h7m  1h10m            0s          -   4 of 4  800 B    700 B
  stock, every 5 commits       51m6s  2h29m  2h32m          1h2m          -   1 of 1  270 B    200 B
  late rows     - where no threshold is published
"""


def test_it_shows_what_was_what_would_be_and_what_stock_hudi_does(lake, etc):
    code, out, err = etc("simulate", "--set", "data_latency=20m", "--set", "strategy.granularity=file_slice")
    assert code == 0
    assert "orders_ro: replaying 7 commits" in err
    assert out == TEXT


def figures(etc, *arguments):
    """By kind, or name of stock's; the report fits its schema."""
    code, out, _ = etc("simulate", "--output", "json", *arguments)
    report = json.loads(out)
    assert code == 0
    assert not list(Draft202012Validator(json_schema("simulation")).iter_errors(report))
    return {one["name"] if one["kind"] == "stock" else one["kind"]: one for one in report["tables"][0]["settings"]}


def test_its_figures(lake, etc):
    found = figures(etc, "--set", "data_latency=1h", "--set", "freshness.target=3h", "--every", "1h")
    past, policy, changed, hourly, commits = (one["figures"] for one in found.values())
    # Two base files of 100 bytes, and seven log files of ten; the compaction wrote as much as was there.
    assert (past["compactions"], past["bytes_read"], past["bytes_written"]) == (1, 270, 200)
    assert past["lag_max_ms"] == epoch_ms("11:01:00") - epoch_ms("08:30:00") + 1
    assert past["above_target_ms"] == epoch_ms("11:01:00") - epoch_ms("10:00:00") + 1
    assert (policy["runs"], policy["late_writes"], policy["refused"]) == (4, 0, 0)
    assert changed["lag_p50_ms"] >= 3_600_000
    assert found["changed"]["changes"] == ["data_latency: 30m -> 1h", "freshness.target: 1h30m -> 3h"]
    assert (hourly["compactions"], hourly["late_rows_at_most"]) == (4, None)
    assert (commits["runs"], found["stock, every 5 commits"]["commits"]) == (1, 5)


def test_events_at_or_before_a_threshold_that_was_published_are_late(lake, etc):
    settings = ("--set", "data_latency=1m", "--set", "freshness.target=10m", "--every", "5m")
    late = figures(etc, *settings)["changed"]["figures"]
    assert late["late_writes"] > 0
    assert late["late_rows_at_most"] == 7 * late["late_writes"]


def test_only_the_last_part_of_the_past(lake, etc):
    code, out, _ = etc("simulate", "--last", "1h")
    assert code == 0
    assert "replayed      1h up to 2026-01-01 12:00:05 UTC: 2 commits with log files\n" in out
    assert "sees back to  2026-01-01 11:00:05 UTC, what was before is not known, or left out\n" in out


def test_settings_that_it_does_not_know(lake, etc):
    code, out, err = etc("simulate", "--set", "freshness.targt=2h", "--set", "verify.level=data")
    assert (code, out) == (64, "")
    assert "error[ETC001]: no setting that can be simulated: `freshness.targt`, `verify.level`\n" in err
    assert "hint: did you mean `freshness.target`?" in err
    _, _, err = etc("simulate", "--set", "owner=me")
    assert "hint: these can: data_latency, freshness.target, strategy.type, strategy.granularity," in err
    assert etc("simulate", "--set", "data_latency")[0] == 64
    assert "is not of the form KEY=VALUE" in etc("simulate", "--set", "=5")[2]


def test_wrong_values_are_at_the_setting_and_rules_are_those_of_files(lake, etc):
    code, out, err = etc("simulate", "--set", "data_latency=45x", "--set", "strategy.granularity=slice")
    assert (code, out) == (1, "")
    assert "--> --set data_latency=45x (policy `orders_ro`)" in err
    assert "--> --set strategy.granularity=slice (policy `orders_ro`)" in err
    code, _, err = etc("simulate", "--set", "freshness.target=20m")
    assert code == 1
    assert "`freshness.target` can never be met" in err
    assert "--> --set freshness.target=20m (policy `orders_ro`)" in err


def test_a_latency_that_is_set_takes_the_place_of_one_that_is_learned(lake, etc, tmp_path):
    """Also where rules ask how long the learned one may become."""
    learned = "data_latency: {quantile: 0.9, at_least: 1m, at_most: 1h}"
    text = POLICY.format(granularity="log_file").replace("data_latency: 30m", learned)
    (tmp_path / "policies" / "a.yml").write_text(text)
    found = figures(etc, "--set", "data_latency=20m", "--set", "freshness.target=30m", "--every", "15m")["changed"]
    assert found["changes"] == ["data_latency: 1h -> 20m", "freshness.target: 1h30m -> 30m"]
    assert found["figures"]["above_target_ms"] > 0


def test_a_policy_that_compacted_nothing_saves_nothing(lake, etc, tmp_path, monkeypatch):
    """No run of it fell into the time that is replayed, in which stock Hudi compacted once."""
    (tmp_path / "policies" / "a.yml").write_text(POLICY.format(granularity="log_file") + MORE)
    for name in ("late", "new"):
        table = TableFolder(tmp_path / "lake" / name)
        table.commit(at("11:00:00"), at("11:00:05"), base("f1"))
        for minute in range(10, 60, 10):
            clock = at(f"11:{minute}:00")
            table.commit(clock, clock, log("f1", epoch_ms("11:05:00"), previous=at("11:00:00")))
    monkeypatch.setattr("etc_policy.report.simulation.DAY_MS", 1)
    lines = etc("simulate", "--every", "1h")[1].splitlines()
    assert any(line.split()[:3] == ["policy,", "every", "1h"] and "0 of 0" in line for line in lines)
    fleet = {line.split()[0]: line.split() for line in lines[-5:-1]}
    assert fleet["late_ro"][-4:] == fleet["new_ro"][-4:] == ["-", "-", "-", "-"]
    assert fleet["all"][-1] == fleet["orders_ro"][-3]
    assert lines[-1] == "  a day         - for late_ro, new_ro: no run of the policy compacted anything"


def test_the_page_says_what_is_not_on_it(lake, etc, tmp_path):
    """Tables that cannot be read, and what nothing is known of; who gets the page does not see the errors."""
    TableFolder(tmp_path / "lake" / "new")
    (tmp_path / "policies" / "a.yml").write_text("version: 1\npolicies:\n" + MORE)
    assert etc("simulate", "--html", "fleet.html")[0] == 1
    page = " ".join((tmp_path / "fleet.html").read_text().split())
    assert "1 table, the longest lag" in page
    assert f"1 table that could not be read is not on this page: late_ro ({tmp_path}/lake/late)." in page
    assert "a day, and 0" not in page


def test_an_empty_value_removes_the_key(lake, etc):
    assert figures(etc, "--set", "strategy.every=")["changed"]["every_ms"] == 3_600_000


def test_python_has_no_unknown_settings_either(lake):
    with Project() as project, pytest.raises(UsageError, match="no setting that can be simulated: `tags`"):
        project.simulate(settings={"tags": ["a"]})


def test_tables_that_cannot_be_replayed(lake, etc, tmp_path):
    more = "  - {{name: {0}, table: lake/{0}, event_time_column: ts, data_latency: 30m}}\n"
    text = POLICY.format(granularity="record").replace(", every: 15m", "").replace("every: 15m, ", "")
    (tmp_path / "policies" / "a.yml").write_text(text + "".join(map(more.format, ("gone", "new", "old"))))
    old = TableFolder(tmp_path / "lake" / "old", version=6)
    for clock in ("08:00:00", "09:00:00"):
        old.commit(at(clock), at(clock), log("f1", base_instant=at("08:00:00")))
    TableFolder(tmp_path / "lake" / "new").commit(at("08:00:00"), at("08:00:05"), base("f1"))
    code, out, err = etc("simulate")
    assert code == 1
    assert "there is no table" in err, err
    assert "replayed      no two commits, one of them with log files, are known" in out
    assert "  stock, every 30m: not replayed, as the planner refuses the table\n" in out
    assert "refused       policy, every 30m: 2 runs; the first because no release of Hudi is known to merge rows" in out
    assert "  policy, every 1h: rows are split with `granularity: record`, and metadata has none\n" in out


def test_a_table_is_replayed_by_the_page(lake, tmp_path):
    (block,) = command_blocks_of("test_a_table_is_replayed_by_the_page")
    printed = Shell(tmp_path).succeeds(block)
    assert printed.count("as it was") == 3


def test_less_than_a_day_of_history_says_nothing_of_a_day(lake, etc, tmp_path):
    """No bytes or costs a day, no saving, and no cost; each is said to be missing, with the reason."""
    with (tmp_path / "policies" / "a.yml").open("a") as file:
        file.write(MORE.splitlines(True)[0].replace("late_ro", "young_ro").replace("lake/late", "lake/young"))
    young = TableFolder(tmp_path / "lake" / "young")
    young.commit(at("11:00:00"), at("11:00:05"), base("f1"))
    for minute in range(10, 60, 10):
        clock = at(f"11:{minute}:00")
        young.commit(clock, clock, log("f1", epoch_ms(f"11:{minute - 1:02}:00"), previous=at("11:00:00")))
    code, out, err = etc("simulate", "--price", "core_hour=0.5", "--html", "fleet.html")
    assert code == 0, err
    lines = out.splitlines()
    fleet = {line.split()[0]: line.split() for line in lines[-5:-1]}
    assert fleet["young_ro"][3] == "49m55s" and fleet["orders_ro"][3] == "4h"
    assert fleet["young_ro"][-4:] == fleet["orders_ro"][-4:] == ["-"] * 4
    assert sorted(lines[-1].split()[4:6]) == ["orders_ro,", "young_ro:"] or "less than a day of history" in lines[-1]
    assert "no cost       4h of history are no day, and say nothing of what one costs" in out
    assert "own pace      every 10m, as commits came: 49m55s are too short for runs of every hour (`--every`)" in out
    assert any(line.startswith("  policy, every 10m") for line in lines)
    assert "as it was     nobody compacted in 49m55s" in out
    assert "above target  - as the policy has no `freshness.target`" in out
    page = (tmp_path / "fleet.html").read_text()
    assert page.count(">less than a day of history<") == 2 and "a day, and 0" not in page
    narrow = render_simulation(Project().simulate("orders_ro young_ro"), 60)
    assert "RO lag p50 50m20s, p99 1h20m, worst 1h22m" in narrow
    assert max(len(line) for line in narrow.splitlines() if line.startswith(" ")) <= 60
    assert "no runs       policy, every 1h: none falls into 49m55s" in etc("simulate", "young_ro", "--every", "1h")[1]


def test_each_way_has_its_cost(lake, etc, monkeypatch):
    monkeypatch.setattr(*SHORT_DAY)
    price = (
        "--price",
        "core_hour=0.5",
        "--price",
        "cores=4",
        "--price",
        "gb_read=2e6",
        "--price",
        "gb_written=1_000_000",
    )
    found = figures(etc, *price)
    past, policy = found["past"], found["policy"]
    # A compaction has four cores for two minutes; 270 bytes were read and 200 written.
    assert past["cost"] == pytest.approx(4 * 0.5 / 30 + 270 * 2e-3 + 200 * 1e-3)
    assert policy["cost"] == pytest.approx(4 * (4 * 0.5 / 30) + 470 * 2e-3 + 400 * 1e-3)
    _, out, _ = etc("simulate", *price)
    assert "runs   read  written  cost\n" in out
    assert (
        "  policy, every 15m           50m20s  1h20m  1h22m            0s          0  4 of 16  470 B    400 B  1.61\n"
        in out
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("core_huor=1", "not a price: `core_huor`: is not known"),
        ("cores=half", "not a price: `cores`: "),
        ("gb_read=-1", "not a price: `gb_read`: "),
        ("core_hour=.inf", "not a price: `core_hour`: "),
        ("cores=", "not a price: `cores`: "),
        ("5", "`5` is not of the form KEY=NUMBER"),
    ],
)
def test_what_is_no_price(lake, etc, given, message):
    code, out, err = etc("simulate", "--price", given)
    assert (code, out) == (64, "")
    assert message in err


ORDERS = ["orders_ro", "1h10m, 1h30m", "4h", "30 B", "2h31m, 1h22m", "8.8 KiB, 5.1 KiB", "42%", "stock, 1h"]
SHORT_DAY = "etc_policy.report.simulation.DAY_MS", 7_200_000
MORE = """\
  - {name: late_ro, table: lake/late, event_time_column: ts, data_latency: 30m}
  - {name: new_ro, table: lake/new, event_time_column: ts, data_latency: 30m}
"""
FLEET = """\
3 tables, the longest lag first
              RO lag  target  history  log bytes  worst  policy  bytes a day   policy  saved  instead of
  new_ro     unknown       -        -        0 B      -       -            -        -      -           -
  late_ro      4h10m       -    2h59m       30 B  2h10m   1h12m      3.3 KiB  1.7 KiB    48%   stock, 1h
  orders_ro    1h10m   1h30m       4h       30 B  2h31m   1h22m      8.8 KiB  5.1 KiB    42%   stock, 1h
  all                                       60 B                    12.1 KiB  6.8 KiB    44%
  a day         - for new_ro: no two commits, one of them with log files, are known
"""


def test_several_tables_are_on_one_page_the_worst_first(lake, etc, tmp_path, monkeypatch):
    """What each saves is held against the cheapest other way that is as fresh."""
    clock_ms = epoch_ms("12:00:06")
    monkeypatch.setattr("etc_policy.wiring.time.time_ns", lambda: clock_ms * 1_000_000)
    monkeypatch.setattr(*SHORT_DAY)
    with (tmp_path / "policies" / "a.yml").open("a") as file:
        file.write(MORE)
    late = TableFolder(tmp_path / "lake" / "late")
    late.commit(at("07:00:00"), at("07:00:05"), base("f1"))
    for clock, event in (("08:00:00", "07:50:00"), ("09:00:00", "08:50:00"), ("10:00:00", "09:50:00")):
        late.commit(at(clock), at(clock), log("f1", epoch_ms(event), previous=at("07:00:00")))
    TableFolder(tmp_path / "lake" / "new")
    code, out, _ = etc("simulate")
    assert code == 0
    blocks, fleet = out.split("\n\n3 tables", 1)
    assert [line.split()[0] for line in blocks.split("\n") if line[:1].isalpha()] == ["late_ro", "new_ro", "orders_ro"]
    assert "3 tables" + fleet == FLEET
    monkeypatch.setattr("etc_policy.cli.tables.MANY_TABLES", 3)
    assert etc("simulate", "--html", "fleet.html")[1] == FLEET
    page = (tmp_path / "fleet.html").read_text()
    cells = re.findall(
        r'data-label="(.+?)"[^>]*>(?:<span[^>]*>)?(.*?)(?: <small>.*|</span>.*|<svg.*)?(?:</t[dh]>)?\n', page
    )
    assert [text for label, text in cells if label == "Policy"] == ["new_ro", "late_ro", "orders_ro"]
    assert [text.replace("\N{NO-BREAK SPACE}", " ") for _, text in cells[-8:]] == ORDERS
    assert page.count("<svg") == 5
    assert "12.1 KiB a day, and 6.8 KiB\nby the policies: 44% saved" in page
    assert etc("simulate", "--long")[1] == out


def test_a_schedule_of_more_runs_than_anybody_waits_for_is_not_replayed(lake, etc, tmp_path):
    """Else a policy of one line keeps whoever asks busy without end."""
    policy = tmp_path / "policies" / "a.yml"
    policy.write_text(policy.read_text().replace("every: 15m", "every: 1ms"))
    code, out, _ = etc("simulate", "--set", "data_latency=20m", "--output", "json")
    settings = json.loads(out)["tables"][0]["settings"]
    assert code == 0
    assert [one["figures"] is None for one in settings] == [False, True, True, False, False]
    assert settings[1]["reason"].startswith("these would be 14,400,000 runs, and 110,000 are replayed at most")
    assert "14,400,000 runs" in re.sub(r"\s+", " ", etc("simulate")[1])
