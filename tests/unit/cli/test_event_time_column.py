"""A declared event-time column whose values are no times of events, or not of when they were written: each command says so."""

import json
import re
import shutil
from datetime import UTC, datetime
from random import Random

import pytest

from etc_policy.policy.manifest import EventTime
from etc_policy.table.impossible_times import LateCommits, OtherTimes, doubt_in
from etc_policy.wiring import Environment
from tests.unit.hudi.table_folder import MILLIS, TableFolder, at, base, log
from tests.unit.plan.plan_cases import epoch_ms

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
COMMANDS = ("plan", "freshness", "debug", "import --diff")
POLICY = """version: 1
policies:
  - {name: t, table: lake/t, event_time_column: c, data_latency: 10m}
"""


def year(number):
    return int(datetime(number, 3, 1, 7, tzinfo=UTC).timestamp() * 1000)


BORN = (1980, 1952, 2004, 1961, 1999, 1985, 1974)
#: What a column holds of the row of the n-th write, which is made at a time, and what is said of it.
WRONG = {
    "birth_date": (
        lambda n, _: year(BORN[n]),
        "`c` has old times alone (the earliest of each of the last 6 commits lies between 1952-03-01 and 2004-03-01): either",
    ),
    "seq": (
        lambda n, _: n * 1_000,
        "lies between 1970-01-01 00:00:01 UTC and 1970-01-01 00:00:06 UTC): each write takes RO back to before its own",
    ),
    "never": (lambda *_: 0, "commits is 1970-01-01 00:00:00 UTC): each write takes RO back"),
    "placed_long_ago": (
        lambda n, now: now - (60, 45, 90, 33, 70, 100, 200)[n] * DAY,
        "each write takes RO back to before its own, and all that is written is due at once",
    ),
    "expires_next_year": (
        lambda _, now: now + 365 * DAY,
        "ounts as unknown, ",
    ),
    "ends_tonight": (
        lambda _, now: now + 12 * HOUR,
        "or more after its commit): a row is due only so long after it was written",
    ),
    "ships_on": (
        lambda *_: epoch_ms("00:00:00"),
        "`c` has days alone (the earliest of each of the last 6 commits is 2026-01-01): RO's freshness can be",
    ),
}
RIGHT = {
    "updated_at": lambda _, now: now - 1_000,
    "replayed": lambda n, _: year(2005 + n),
    "late_days": lambda n, now: now - (9, 3, 2, 1, 5, 4, 0)[n] * MINUTE,
}


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Nobody may ask for Spark."""
    monkeypatch.setattr(Environment, "spark", property(lambda _: pytest.fail("Spark was asked for")))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "a.yml").write_text(POLICY)
    return TableFolder(tmp_path / "lake" / "t", properties={"hoodie.table.ordering.fields": "updated_at"})


def write(table, value, *, merged):
    """A load and six writes, a minute each, of which so many are compacted."""
    fields = [{"name": name, "type": ["null", MILLIS]} for name in ("c", "updated_at")]
    extra, left = {"schema": json.dumps({"type": "record", "name": "r", "fields": fields})}, []
    for number in range(7):
        if number == merged + 1:
            compact(table, left, extra)
        minute = number + 10 * (number > merged)
        instant, now = at(f"10:{minute:02}:00"), epoch_ms(f"10:{minute:02}:00")
        row = {"c": value(number, now), "updated_at": now - 1_000}
        left.append((instant, row))
        written = log("f1", columns=tuple(row), values=(tuple(row.values()),), rows=1) if number else base("f1")
        table.commit(instant, at(f"10:{minute:02}:02"), written, extra=extra)
    if merged == 6:
        compact(table, left, extra)


def compact(table, left, extra):
    if len(left) > 1:
        merged = base("f1", previous=at("10:00:00"), left=tuple(left), merged=len(left) - 1)
        table.compaction(at("10:09:00"), at("10:09:30"), merged, extra=extra)
        for path in (table.base / "p").glob(".f1_*.log.*"):
            path.unlink()


@pytest.mark.parametrize("merged", [0, 5, 6])
@pytest.mark.parametrize("kind", WRONG)
def test_a_column_that_is_no_time_of_writes_is_said_by_every_command_that_looks(table, etc, kind, merged):
    value, said = WRONG[kind]
    write(table, value, merged=merged)
    for command in COMMANDS[::-1]:
        out = " ".join(etc(*command.split())[1].split())
        assert said in out, (command, out)
        assert "the ordering field `updated_at`" in out, (command, out)


@pytest.mark.parametrize("merged", [0, 5, 6])
@pytest.mark.parametrize("kind", RIGHT)
def test_nothing_is_said_of_one_that_is(table, etc, kind, merged):
    write(table, RIGHT[kind], merged=merged)
    for command in COMMANDS:
        out = " ".join(etc(*command.split())[1].split())
        assert "`c` " not in out, (command, out)
        assert "brought events later" not in out, (command, out)


NUMBERS = {"kinds": {"c_at": "int64"}}
OF_NUMBERS = {
    "schema": json.dumps({"type": "record", "name": "r", "fields": [{"name": "c_at", "type": ["null", "long"]}]})
}


def number(table, writes, *, is_loaded, is_merged):
    """A table whose rows have numbers: a load, or none, and so many writes to its log, which may be compacted."""
    left = [(at("10:00:00"), {"c_at": 7}), *((at(f"10:{n:02}:00"), {"c_at": 900 + n}) for n in range(1, writes + 1))]
    if is_loaded:
        table.commit(at("10:00:00"), at("10:00:02"), base("f1", left=tuple(left[:1]), **NUMBERS), extra=OF_NUMBERS)
    for instant, row in left[1:]:
        written = log("f1", columns=("c_at",), values=((row["c_at"],),), rows=1, **NUMBERS)
        table.commit(instant, f"{instant[:-5]}02000", written, extra=OF_NUMBERS)
    if is_merged:
        merged = base("f1", previous=at("10:00:00"), left=tuple(left), merged=writes, **NUMBERS)
        table.compaction(at("10:09:00"), at("10:09:30"), merged, extra=OF_NUMBERS)
        for path in (table.base / "p").glob(".f1_*.log.*"):
            path.unlink()


@pytest.mark.parametrize("unit", ["s", "ms"])
@pytest.mark.parametrize(
    ("writes", "is_loaded", "is_merged"),
    [(0, True, False), (1, True, False), (1, False, False), (2, False, False), (6, True, False), (2, True, True)],
)
def test_numbers_that_are_no_times_are_said_however_few_writes_there_are(
    table, etc, tmp_path, unit, writes, is_loaded, is_merged
):
    number(table, writes, is_loaded=is_loaded, is_merged=is_merged)
    policy = tmp_path / "policies" / "a.yml"
    policy.unlink()
    said = f"event_time_column={{column: c_at, unit: {unit}}}"
    code, _, err = etc("import", "lake/t", "--set", said, "--set", "data_latency=1h")
    assert (code, list(policy.parent.iterdir())) == (1, [])
    assert f"are no times of events in `{unit}`" in err
    assert "a table without one is skipped by `--set 'NAME:enabled=false'`" in err
    assert etc("import", "lake/t", "--set", "t:enabled=false")[0] == 0
    assert etc("parse")[:2] == (0, "0 policies OK, 1 disabled\n")
    policy.with_name("t.yml").unlink()
    policy.write_text(POLICY.replace("column: c", f"column: {{column: c_at, unit: {unit}}}"))
    for command in (*COMMANDS, "verify --level metadata"):
        shown = " ".join("".join(etc(*command.split())[1:]).split())
        assert f"`c_at` holds numbers that are no times in `{unit}` (" in shown, (command, shown)


#: What tells of a table whose event times cannot be read, and how it ends.
UNKNOWN = {
    "plan": 1,
    "freshness": 1,
    "debug": 1,
    "wait t --until 2026-01-01 --timeout 1s --poll 1s": 3,
    "verify --level metadata": 3,
    "verify --level logs": 3,
    "apply --yes": 1,
}


@pytest.mark.parametrize(
    ("writes", "is_loaded", "is_merged"),
    [(0, True, False), (1, True, False), (1, False, False), (6, True, False), (2, True, True)],
)
def test_without_a_unit_nothing_is_compacted_or_known(table, etc, tmp_path, writes, is_loaded, is_merged):
    """Not even that a table without anything to compact is complete."""
    number(table, writes, is_loaded=is_loaded, is_merged=is_merged)
    policy = tmp_path / "policies" / "a.yml"
    policy.write_text(POLICY.replace("column: c,", "column: c_at,"))
    files = sorted(table.base.rglob("*"))
    for command, ends in UNKNOWN.items():
        code, *shown = etc(*command.split())
        text = " ".join("".join(shown).split())
        assert code == ends, (command, code, text)
        assert "is not a time that can be read" in text, (command, text)
        if not command.startswith("verify"):
            assert "if it is a time, set `event_time_column: {column: c_at, unit: UNIT}`" in text, (command, text)
            assert "else take another column, or skip the table by `enabled: false`" in text, (command, text)
        assert not re.search(r"RO complete until|RO will hold|how far RO is complete ok", text), (command, text)
    assert sorted(one for one in table.base.rglob("*") if ".etc" not in one.parts) == files


def test_an_odd_number_among_times_keeps_nothing_back(table, etc, tmp_path):
    """As a row of a writer that had none: its log file is unknown, and said to be."""
    number(table, 1, is_loaded=True, is_merged=False)
    time_s = epoch_ms("10:02:00") // 1000
    written = log("f2", columns=("c_at",), values=((time_s,),), rows=1, **NUMBERS)
    table.commit(at("10:02:30"), at("10:02:31"), written, extra=OF_NUMBERS)
    (tmp_path / "policies" / "a.yml").write_text(POLICY.replace("column: c,", "column: c_at,"))
    code, shown, _ = etc("plan")
    assert (code, "1 log file of 2 without a known event time" in " ".join(shown.split())) == (0, True), shown


@pytest.mark.parametrize("command", ["freshness", "simulate"])
@pytest.mark.parametrize(
    ("value", "kind", "said"),
    [
        (7, "long", "c_at (long): its values, `7` to `7`, cannot be read as times without more being known"),
        (7_000_000_000, "long", "which are no times of events that had happened"),
        ("n7", "string", "c_at (string): its values, `n7` to `n7`, cannot be read as times"),
        (year(1952), "birth_at", "birth_at (timestamp-millis): "),
        (year(2004), "birth_at", "birth_at (timestamp-millis): 2004-03-01"),
    ],
)
@pytest.mark.parametrize("writes", [0, 3])
def test_a_table_by_its_path_of_which_no_column_is_a_time_is_not_known(
    table, etc, tmp_path, command, value, kind, said, writes
):
    """No time is shown that stands for when it was written."""
    name, stored, arrow = {
        "long": ("c_at", "long", "int64"),
        "string": ("c_at", "string", "string"),
        "birth_at": ("birth_at", MILLIS, None),
    }[kind]
    schema = {"type": "record", "name": "r", "fields": [{"name": name, "type": ["null", stored]}]}
    extra, kinds = {"schema": json.dumps(schema)}, {"kinds": {name: arrow}} if arrow else {}
    loaded = base("f1", left=((at("10:00:00"), {name: value}),), **kinds)
    table.commit(at("10:00:00"), at("10:00:02"), loaded, extra=extra)
    for n in range(1, writes + 1 if kind != "string" else 1):
        table.commit(
            at(f"10:{n:02}:00"),
            at(f"10:{n:02}:02"),
            log("f1", columns=(name,), values=((value,),), rows=1, **kinds),
            extra=extra,
        )
    shutil.rmtree(tmp_path / "policies")
    code, out, err = etc(command, str(table.base))
    err = " ".join(err.split())
    assert (code, out) == (1, "")
    assert "it is not known when the events of `" in err
    assert said in err


@pytest.mark.parametrize("writes", [0, 3])
def test_a_sequence_that_orders_the_rows_is_none_either(table, etc, tmp_path, writes):
    """Where no base file shows it, nothing says that it is a time."""
    fields = [{"name": "seq", "type": ["null", "long"]}]
    extra = {"schema": json.dumps({"type": "record", "name": "r", "fields": fields})}
    table.base.joinpath(".hoodie", "hoodie.properties").write_text(
        table.base.joinpath(".hoodie", "hoodie.properties").read_text().replace("updated_at", "seq")
    )
    for n in range(writes + 1):
        written = log("f1", columns=("seq",), values=((n + 1,),), rows=1, kinds={"seq": "int64"})
        table.commit(at(f"10:{n:02}:00"), at(f"10:{n:02}:02"), written, extra=extra)
    code, out, err = etc("freshness", str(table.base))
    assert (code, out, "none of its columns says it (seq (long))" in " ".join(err.split())) == (1, "", True), err


def arrivals(events, *, every_ms=5 * MINUTE):
    """Commits at equal distances with such events; an event is an age where it is negative."""
    begin = epoch_ms("08:00:00")
    times = (begin + number * every_ms for number in range(len(events)))
    return [(done, event if event > 0 else done + event) for done, event in zip(times, events, strict=True)]


def doubt(events, unit=None, declared_ms=HOUR):
    return doubt_in(arrivals(events), EventTime(column="c", unit=unit), declared_ms)


@pytest.mark.parametrize("seed", range(20))
def test_a_replay_in_order_is_no_doubt_even_if_some_of_it_is_out_of_order(seed):
    """Forwards, and from the newest to the oldest."""
    random = Random(seed)
    days = [year(2015) + day * DAY + random.randrange(3 * DAY) for day in range(30)]
    assert doubt(days) is None
    assert doubt(days[::-1]) is None
    assert isinstance(doubt(random.sample(days, 30)), OtherTimes)


@pytest.mark.parametrize(
    ("events", "unit", "kind"),
    [
        ([year(1990), year(1985)], None, None),
        ([year(1990), year(1985), year(1991)], None, "old"),
        ([year(1990), year(1985), year(1991), -MINUTE], None, None),
        ([-MINUTE] * 4 + [year(1990), year(1985), year(1991)], None, None),  # old data come in after the others
        ([-MINUTE] * 2 + [year(1990), year(1985), year(1991)], None, "still"),
        ([-40 * DAY] * 9, None, None),  # they move, and are late
        ([1_000, 2_000, 3_000], "s", "numbers"),
        ([1_000, 2_000, 3_000_000_000], "s", "numbers"),
        ([1_000, 2_000, 3_000_000_000], None, None),
        ([HOUR + epoch_ms("08:20:00")] * 3, None, "ahead"),
        ([5 * MINUTE + epoch_ms("08:00:00"), -MINUTE, -MINUTE], None, None),
    ],
)
def test_so_many_commits_are_a_doubt(events, unit, kind):
    found = doubt(events, unit)
    assert (found and getattr(found, "kind", "late")) == kind


@pytest.mark.parametrize(
    ("midnights", "declared_ms", "kind"),
    [
        ([0, 0, 0], HOUR, "days"),
        ([0, 0, 0], DAY, None),
        ([0, 0], HOUR, None),
        ([-DAY, -2 * DAY, 0], HOUR, "late"),
        ([-DAY, -2 * DAY, 0], 2 * DAY, None),
    ],
)
def test_days_are_late_after_their_end(midnights, declared_ms, kind):
    """At eight in the morning an event of today is no eight hours late."""
    found = doubt([epoch_ms("00:00:00") + one for one in midnights], declared_ms=declared_ms)
    assert (found and getattr(found, "kind", "late")) == kind
    if isinstance(found, LateCommits):
        assert found.half_ms == 8 * HOUR
