import json
import re
import shlex

import pytest

from etc_policy.policy.manifest import EventTime, Policy, Writer
from etc_policy.policy.writers import (
    FORMS,
    TableShape,
    flink_options,
    render_flink,
    render_options,
    render_properties,
    render_spark_conf,
    render_streamer,
    render_tblproperties,
    writer_options,
)

POLICY = Policy(
    name="orders_ro",
    table="/lake/orders",
    event_time=EventTime(column="placed at=ü: \\x😀"),
    data_latency_ms=1,
    log_file_max_bytes=134_217_728,
    writer=Writer(lock={"hoodie.write.lock.zookeeper.url": " zk:2181\n"}),
)
EXPECTED = {
    "hoodie.compact.inline": "false",
    "hoodie.compact.schedule.inline": "false",
    "hoodie.datasource.compaction.async.enable": "false",
    "hoodie.write.track.event.time.watermark": "true",
    "hoodie.payload.event.time.field": "placed at=ü: \\x😀",
    "hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING",
    "hoodie.logfile.max.size": "134217728",
    "hoodie.write.lock.zookeeper.url": " zk:2181\n",
}


def test_options_of_the_policy():
    assert writer_options(POLICY) == EXPECTED


def test_a_size_that_is_not_declared_is_left_to_the_writer():
    plain = POLICY.model_copy(update={"log_file_max_bytes": None})
    assert "hoodie.logfile.max.size" not in writer_options(plain)


def _read_properties(text):
    """Hudi's format, read by the rules of its DFSPropertiesConfiguration."""
    pairs = {}
    for line in re.split(r"\r\n|\r|\n", text):
        if line and not line.startswith("#"):
            key, _, value = re.sub(r"[ \t\n\x0b\f\r]+", " ", line).partition("=")
            pairs[key.strip()] = value.strip()
    return pairs


def test_hudi_reads_the_properties_as_they_were():
    held = {key: value for key, value in EXPECTED.items() if "zookeeper" not in key}
    assert _read_properties(render_properties(POLICY)) == held


@pytest.mark.parametrize("value", ["a  b", " a", "a ", "a\tb", "a\nb", "a\x01", "a=\r"])
def test_what_a_properties_file_cannot_hold_is_a_comment_in_it(value):
    policy = POLICY.model_copy(update={"event_time": EventTime(column=value)})
    text = render_properties(policy)
    assert "hoodie.payload.event.time.field" not in _read_properties(text)
    said = f"can hold these blanks: hoodie.payload.event.time.field={json.dumps(value)}"
    assert [line.startswith("# Left out") for line in text.splitlines() if said in line] == [True]


def test_properties_say_which_hudi_records_event_times():
    assert "# earlier writers record none, and log files are read instead." in render_properties(POLICY).splitlines()


def test_properties_say_how_a_job_with_its_own_includes_them():
    assert (
        "# A job with properties of its own beside this file ends them with the line include=orders_ro.properties"
        in (render_properties(POLICY).splitlines())
    )


def test_spark_confs_survive_a_shell():
    words = shlex.split(render_spark_conf(POLICY))
    assert words[::2] == ["--conf"] * len(EXPECTED)
    assert dict(word.split("=", 1) for word in words[1::2]) == {
        f"spark.{key}": value for key, value in EXPECTED.items()
    }


def test_options_are_json():
    assert json.loads(render_options(POLICY)) == EXPECTED


SQL = POLICY.model_copy(update={"table": "lake.orders", "event_time": EventTime(column="it's \\n")})


def _read_literals(text, unescape):
    """The pairs of quoted literals of a statement."""
    literals = [unescape(found[1:-1]) for found in re.findall(r"'(?:[^'\\]|\\.|'')*'", text, re.DOTALL)]
    return dict(zip(literals[::2], literals[1::2], strict=True))


def test_spark_s_table_properties():
    text = render_tblproperties(SQL)
    assert text.startswith("ALTER TABLE lake.orders SET TBLPROPERTIES (\n")

    def unescape(literal):
        return re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), literal)

    assert _read_literals(text, unescape) == writer_options(SQL)


def test_a_path_has_no_name_in_the_catalog():
    assert render_tblproperties(POLICY).splitlines()[:2] == [
        "-- Put the catalog's name of /lake/orders for db.table.",
        "ALTER TABLE db.table SET TBLPROPERTIES (",
    ]


def test_flink_compacts_unless_its_own_options_say_no():
    options = flink_options(POLICY)
    assert options["compaction.schedule.enabled"] == options["compaction.async.enabled"] == "false"
    assert not [key for key in options if key.startswith(("hoodie.compact.", "hoodie.datasource."))]
    assert options["hoodie.logfile.max.size"] == "134217728"
    plain = SQL.model_copy(update={"event_time": EventTime(column="it's \\")})
    body = render_flink(plain).partition("WITH")[2].replace("\\", "/")
    found = _read_literals(body, lambda literal: literal.replace("''", "'"))
    assert found == {key: value.replace("\\", "/") for key, value in flink_options(plain).items()}


def test_the_streamer_compacts_unless_told_not_to():
    assert shlex.split(render_streamer(POLICY)) == [
        *("--table-type", "MERGE_ON_READ", "--disable-compaction", "--props", "orders_ro.properties"),
    ]


@pytest.mark.parametrize("form", FORMS)
def test_texts_end_in_a_newline(form):
    assert FORMS[form].render(POLICY).endswith("\n")


PLAIN = Policy(name="t", table="/t", event_time=EventTime(column="ts"), data_latency_ms=1)
TRACKING = {"hoodie.write.track.event.time.watermark", "hoodie.payload.event.time.field"}
MERGE_MODE = "hoodie.write.record.merge.mode"


@pytest.mark.parametrize(
    ("shape", "unit", "tracks", "merge_mode"),
    [
        (None, None, True, True),
        (TableShape(9, "EVENT_TIME_ORDERING", "long"), None, True, False),
        (TableShape(9, "EVENT_TIME_ORDERING", "int"), "s", True, False),
        (TableShape(9, "EVENT_TIME_ORDERING", None), "ms", True, False),
        (TableShape(9, None, "long"), None, True, False),
        (TableShape(9, "EVENT_TIME_ORDERING", "long"), "us", False, False),
        (TableShape(9, "EVENT_TIME_ORDERING", "timestamp-micros"), None, False, False),
        (TableShape(9, "EVENT_TIME_ORDERING", "string"), None, False, False),
        (TableShape(9, "COMMIT_TIME_ORDERING", "long"), None, False, False),
        (TableShape(9, "CUSTOM", "long"), None, False, False),
        (TableShape(6, None, "long"), None, False, False),
    ],
)
def test_an_existing_table_gets_what_fits_it(shape, unit, tracks, merge_mode):
    policy = PLAIN.model_copy(update={"event_time": EventTime(column="ts", unit=unit)})
    options = writer_options(policy, shape)
    assert options["hoodie.compact.inline"] == "false"
    assert (options.keys() >= TRACKING, MERGE_MODE in options) == (tracks, merge_mode)
    assert tracks or not TRACKING & options.keys()
    text = render_properties(policy, shape)
    assert ("# For a new table" in text) == (shape is None)
    assert ("# Event times are not recorded: " in text) == (not tracks)


LOCKED = PLAIN.model_copy(
    update={"writer": Writer(lock={"hoodie.write.lock.zookeeper.url": "zk-{{ env_var('ZK') }}:{{ env_var('PORT') }}"})}
)


@pytest.mark.parametrize("form", [form for form in FORMS if form != "streamer"])
def test_what_comes_from_the_environment_is_in_no_file(form):
    """A writer would take the reference for the value, and no file may hold the value."""
    text = FORMS[form].render(LOCKED)
    assert "env_var" not in text
    named = [line for line in text.splitlines() if "zookeeper.url" in line]
    mark = {"options": None, "tblproperties": "--", "flink": "--"}.get(form, "#")
    note = "Left out, to be set from the environment: hoodie.write.lock.zookeeper.url=zk-${ZK}:${PORT}"
    assert named == ([] if mark is None else [f"{mark} {note}"])


@pytest.mark.parametrize("version", [6, 8, 9])
def test_writers_leave_an_existing_table_at_its_version(version):
    options = writer_options(PLAIN, TableShape(version, None, "long"))
    assert options["hoodie.write.auto.upgrade"] == "false"
    assert options["hoodie.write.table.version"] == str(version)
    assert flink_options(PLAIN, TableShape(version, None, "long")).items() >= {("hoodie.write.auto.upgrade", "false")}
    assert "# from Hudi 1.3 on to version 10" in render_properties(PLAIN, TableShape(version, None, "long"))


def test_a_new_table_is_of_the_version_of_its_writer():
    """A writer of Hudi 1.0 does not know version 9."""
    assert not {"hoodie.write.auto.upgrade", "hoodie.write.table.version"} & writer_options(PLAIN).keys()
    assert "add hoodie.write.table.version=9 there." in render_properties(PLAIN)
