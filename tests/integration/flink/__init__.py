"""Flink SQL on this machine, driven from Python: a second engine that writes and reads Hudi's tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.maven_jars import jars_of

_OPENED = (
    "java.lang",
    "java.lang.reflect",
    "java.util",
    "java.util.concurrent",
    "java.io",
    "java.net",
    "java.nio",
    "java.time",
)


class Flink:
    """A Java virtual machine that runs each statement in a cluster of its own, inside itself."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm

    def run(self, *statements: str, streaming: bool = False) -> None:
        """Statements, one after the other, each to its end."""
        tables = self._tables(streaming)
        for statement in statements:
            result = tables.executeSql(statement)
            if result.getJobClient().isPresent():
                result.getJobClient().get().getJobExecutionResult().get()

    def rows(self, *statements: str) -> list[tuple[Any, ...]]:
        """The rows of the last statement, with the values that Python has for Java's."""
        tables = self._tables(streaming=False)
        for statement in statements[:-1]:
            tables.executeSql(statement)
        found = tables.executeSql(statements[-1]).collect()
        rows = []
        while found.hasNext():
            row = found.next()
            rows.append(tuple(row.getField(number) for number in range(row.getArity())))
        return rows

    def _tables(self, streaming: bool) -> Any:
        settings = self._jvm.org.apache.flink.table.api.EnvironmentSettings.newInstance()
        settings = settings.inStreamingMode() if streaming else settings.inBatchMode()
        tables = self._jvm.org.apache.flink.table.api.TableEnvironment.create(settings.build())
        for key, value in {"parallelism.default": "1", "execution.checkpointing.interval": "1s"}.items():
            tables.getConfig().set(key, value)
        return tables


@contextmanager
def flink() -> Iterator[Flink]:
    """Flink, for as long as the context lasts."""
    import pyspark
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    jars = jars_of("flink", Path(__file__).with_name("pom.xml"))
    own = next((Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar"))
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
    port, process = launch_gateway(
        classpath=f"{jars}/*", jarpath=str(own), javaopts=["-Xmx1g", *opened], die_on_exit=True, return_proc=True
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
    try:
        yield Flink(gateway.jvm)
    finally:
        gateway.shutdown()
        process.stdin.close()  # py4j itself reads and closes what Java prints
        process.kill()
        process.wait()


def table_of(path: Path, columns: str, partition: str, options: Mapping[str, str]) -> str:
    """The statement that names a merge-on-read table `t` at a path, partitioned by a column."""
    pairs = {"connector": "hudi", "path": str(path), "table.type": "MERGE_ON_READ", **options}
    shown = ", ".join(f"'{key}' = '{value}'" for key, value in pairs.items())
    return f"CREATE TABLE t ({columns}) PARTITIONED BY ({partition}) WITH ({shown})"
