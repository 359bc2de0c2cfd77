"""A stock job in a Java process of another time zone: what it completes bears that zone's time."""

from contextlib import contextmanager

GENERATOR = "org.apache.hudi.common.table.timeline.HoodieInstantTimeGenerator"


@contextmanager
def java_in_zone(spark, name):
    """The Java process is in another zone, and writes instants in local time, as one that has only just started."""
    jvm = spark._jvm
    kind = jvm.org.apache.hudi.common.model.HoodieTimelineTimeZone
    zones, fields = jvm.java.util.TimeZone, [_static(jvm, "commitTimeZone"), _static(jvm, "LAST_INSTANT_TIME")]
    former, zone, last = zones.getDefault(), fields[0].get(None), fields[1].get(None).get()
    zones.setDefault(zones.getTimeZone(name))
    jvm.org.apache.hudi.common.table.timeline.HoodieInstantTimeGenerator.setCommitTimeZone(kind.LOCAL)
    fields[1].get(None).set("0")  # Hudi waits until an instant is later than the last that the process made
    try:
        yield
    finally:
        zones.setDefault(former)
        fields[0].set(None, zone)
        fields[1].get(None).set(last)


def _static(jvm, name):
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    field = jvm.java.lang.Class.forName(GENERATOR, True, loader).getDeclaredField(name)
    field.setAccessible(True)
    return field


def compact_in_zone(spark, bench, plan, zone, options="hoodie.metadata.enable=true"):
    """A stock job in another zone takes up a published plan; returns the compaction's name on the timeline."""
    bench.publish(plan)
    instant = plan.tables[0].instant
    with java_in_zone(spark, zone):
        run = f"op => 'run', path => '{bench.base}', timestamp => {instant}, options => '{options}'"
        spark.sql(f"CALL run_compaction({run})").collect()
    (commit,) = (bench.base / ".hoodie" / "timeline").glob(f"{instant}_*.commit")
    return commit.name
