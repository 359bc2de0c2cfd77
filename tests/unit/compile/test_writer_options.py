import json
import re
import shlex

import pytest

from etc_policy.compile.manifest import EventTime, Policy, Writer
from etc_policy.compile.writer_options import render_options, render_properties, render_spark_conf, writer_options

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
    "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
    "hoodie.logfile.max.size": "134217728",
    "hoodie.write.lock.zookeeper.url": " zk:2181\n",
}


def test_options_of_the_policy():
    assert writer_options(POLICY) == EXPECTED


def test_a_size_that_is_not_declared_is_left_to_the_writer():
    plain = POLICY.model_copy(update={"log_file_max_bytes": None})
    assert "hoodie.logfile.max.size" not in writer_options(plain)


def _unescaped(escape):
    return chr(int(escape[1:], 16)) if len(escape) > 1 else {"n": "\n", "r": "\r", "t": "\t"}.get(escape, escape)


def _read_properties(text):
    """Java's format, read by the rules of java.util.Properties."""
    assert text.isascii()
    pairs = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        key, _, value = line.partition("=")
        plain = re.sub(r"\\(u[0-9a-f]{4}|.)", lambda found: _unescaped(found[1]), value.lstrip())
        pairs[key] = plain.encode("utf-16", "surrogatepass").decode("utf-16")
    return pairs


def test_properties_are_read_back_as_they_were():
    assert _read_properties(render_properties(POLICY)) == EXPECTED


def test_spark_confs_survive_a_shell():
    words = shlex.split(render_spark_conf(POLICY))
    assert words[::2] == ["--conf"] * len(EXPECTED)
    assert dict(word.split("=", 1) for word in words[1::2]) == {
        f"spark.{key}": value for key, value in EXPECTED.items()
    }


def test_options_are_json():
    assert json.loads(render_options(POLICY)) == EXPECTED


@pytest.mark.parametrize("render", [render_properties, render_spark_conf, render_options])
def test_texts_end_in_a_newline(render):
    assert render(POLICY).endswith("\n")
