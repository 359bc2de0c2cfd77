"""What a compaction has written, without what grows with its rows.

With a record index each `WriteStatus` carries every record's key and place. The driver wants the stats alone, as the stock
client itself does when it commits: by a class of its own that leaves the records on the executors.
"""

from __future__ import annotations

from typing import Any

_SLIM = "org.apache.hudi.client.SparkRDDWriteClient$SlimWriteStats"


def written_stats(spark: Any, result: Any) -> list[Any]:  # noqa: ANN401 - Java objects
    """The write stats of a compaction's base files; the work, which is lazy, is done here."""
    from py4j.protocol import Py4JJavaError

    jvm, statuses = spark._jvm, result.getWriteStatuses()
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        slim = jvm.java.lang.Class.forName(_SLIM, True, loader)
    except Py4JJavaError:  # a bundle that does not have it
        return [status.getStat() for status in statuses.collect()]
    collected = _call(spark, _method(slim, "from"), None, statuses)
    stat = _method(slim, "getWriteStat")
    return [_call(spark, stat, one) for one in collected]


def _method(of_class: Any, name: str) -> Any:  # noqa: ANN401 - as above
    """A method of a class that is not public itself."""
    (found,) = (method for method in of_class.getDeclaredMethods() if method.getName() == name)
    found.setAccessible(True)
    return found


def _call(spark: Any, method: Any, target: Any, *arguments: Any) -> Any:  # noqa: ANN401 - as above
    given = spark.sparkContext._gateway.new_array(spark._jvm.java.lang.Object, len(arguments))
    for place, argument in enumerate(arguments):
        given[place] = argument
    return method.invoke(target, given)
