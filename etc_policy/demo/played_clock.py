"""The time that Hudi takes as now while the demo plays: three days pass within a minute, each commit at its own time.

Hudi asks one `TimeGenerator` a table for the times of all instants, and keeps it in a cache by the table's path. The demo
puts its own there, and lets Hudi use the cache (facts: time-generator-cache). The machine's clock and all other tables keep
their time.
"""

from __future__ import annotations

import time
from typing import Any

_TIMELINE = "org.apache.hudi.common.table.timeline"
_CONFIG = "org.apache.hudi.common.config.HoodieTimeGeneratorConfig"
_GENERATOR = """
public volatile long aheadMs;

public long generateTime(boolean skipLocking) {
    return System.currentTimeMillis() + aheadMs;
}

public void consumeTime(boolean skipLocking, java.util.function.Consumer consumer) {
    consumer.accept(Long.valueOf(generateTime(skipLocking)));
}
"""


class PlayedClock:
    """What counts as now for Hudi in one local table, and in its metadata table; it moves on from the moment that is set."""

    def __init__(self, jvm: Any, base_path: str) -> None:
        self._jvm = jvm
        self._paths = [f"{scheme}{base_path}{table}" for scheme in ("", "file:") for table in ("", "/.hoodie/metadata")]
        #: The cache refers to it weakly: it lasts as long as this object.
        self._generator = self._new_generator()
        self._cached = _value(self._class(f"{_TIMELINE}.TimeGenerators"), "TIME_GENERATOR_CACHE").asMap()
        for path in self._paths:
            self._cached.put(path, self._generator)
        self._reuse(allowed=True)

    def set(self, now_ms: int) -> None:
        """Let it be `now_ms` (epoch milliseconds); it never goes back."""
        ahead = self._generator.getClass().getField("aheadMs")
        ahead.set(self._generator, self._jvm.java.lang.Long(str(now_ms - time.time_ns() // 1_000_000)))

    def close(self) -> None:
        """Give the table the machine's clock again."""
        self._reuse(allowed=False)
        for path in self._paths:
            self._cached.remove(path)

    def _reuse(self, *, allowed: bool) -> None:
        """Set the default of Hudi's own switch of the cache, which no option of a compaction reaches."""
        switch = _value(self._class(_CONFIG), "TIME_GENERATOR_REUSE_ENABLE")
        default = switch.getClass().getDeclaredField("defaultValue")
        default.setAccessible(True)
        default.set(switch, allowed)

    def _new_generator(self) -> Any:
        compiler = self._jvm.org.codehaus.janino.ClassBodyEvaluator()
        compiler.setParentClassLoader(self._loader)
        kinds = self._jvm.java.lang.reflect.Array.newInstance(self._class("java.lang.Class"), 1)
        kinds[0] = self._class(f"{_TIMELINE}.TimeGenerator")
        compiler.setImplementedInterfaces(kinds)
        compiler.cook(_GENERATOR)
        return compiler.getClazz().newInstance()

    @property
    def _loader(self) -> Any:
        return self._jvm.java.lang.Thread.currentThread().getContextClassLoader()

    def _class(self, name: str) -> Any:
        return self._jvm.java.lang.Class.forName(name, True, self._loader)


def _value(kind: Any, name: str) -> Any:
    """The value of a static field."""
    field = kind.getDeclaredField(name)
    field.setAccessible(True)
    return field.get(None)
