"""A stock writer in a process of its own that writes when it is told to: one Spark for any number of tables.

Reads a JSON object per line from standard input: `table`, `options`, `rows` of (id, partition, v, ts), `operation`, and `hold`,
where the write is held. Answers with a line `done`, or `failed` and what Hudi said.
"""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

from etc_policy.spark.session import start_spark
from tests.integration.kills import spawn
from tests.integration.stock_writer import reason

SCHEMA = "id int, p string, v string, ts long"


def write(spark, table: str, rows: list, operation: str, options: dict[str, str], hold: str | None = None) -> None:
    """One commit; `hold` is a file that appears when the write has listed the timeline, and that it then waits to see gone."""
    frame = spark.createDataFrame([tuple(row) for row in rows], SCHEMA).coalesce(1)
    if hold:
        frame = held(frame, Path(table, ".hoodie", "timeline"), Path(hold))
    settings = {**options, "hoodie.datasource.write.operation": operation}
    frame.write.format("hudi").options(**settings).mode("append").save(table)


def held(frame, timeline: Path, hold: Path):
    """The rows, which the source gives once the write has begun and the file is gone: files are looked for only with them.

    Where a file of its name that ends in `.fail` exists the source fails instead.
    """
    from pyspark.sql import functions as F

    begun = {path.name for path in timeline.glob("*.deltacommit.requested")}

    def wait(value: str) -> str:
        if {path.name for path in timeline.glob("*.deltacommit.requested")} - begun:
            hold.touch()
            while hold.exists():
                time.sleep(0.01)
            if hold.with_suffix(".fail").exists():
                raise OSError("the source is gone")
        return value

    return frame.withColumn("v", F.udf(wait, "string").asNondeterministic()("v"))


def main() -> None:
    spark = start_spark({"spark.sql.shuffle.partitions": "1", "spark.master": "local[1]"}, Path(sys.argv[1]))
    print("ready", flush=True)
    for line in sys.stdin:
        told = json.loads(line)
        try:
            write(spark, told["table"], told["rows"], told["operation"], told["options"], told["hold"])
            print("done", flush=True)
        except Exception as error:
            print("failed", reason(error), flush=True)
    spark.stop()


class Writer:
    """That process, from outside; `process.pid` is that of its process group."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "tests.integration.writer_on_command", str(folder / "writer.log")]
        self.process = spawn(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._answers: list[str] = []
        self._heard = threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()
        self._ready, self._untold = False, 0

    def _listen(self) -> None:
        for line in self.process.stdout:
            if line.startswith(("ready", "done", "failed")):
                with self._heard:
                    self._answers.append(line.strip())
                    self._heard.notify_all()

    def begin(
        self, table: Path, rows: list, options: dict[str, str], operation: str = "upsert", hold: Path | None = None
    ) -> None:
        """Tell it to write; `answer` says what came of it. With `hold` it waits where `held` says."""
        self.wait_until_ready()
        told = {"table": str(table), "rows": rows, "options": options, "operation": operation}
        told["hold"] = str(hold) if hold else None
        self.process.stdin.write(json.dumps(told) + "\n")
        self.process.stdin.flush()
        self._untold += 1

    def wait_until_ready(self) -> None:
        """Return when its Spark has started."""
        if not self._ready:
            assert self._next_line(300) == "ready"
            self._ready = True

    def wait_until_held(self, hold: Path) -> None:
        """Return when the write that it was told of waits. Raises AssertionError where it has ended instead."""
        while not hold.exists():
            assert not self.is_done, self.answer()
            time.sleep(0.02)

    def answer(self, seconds: float = 300) -> str:
        """What came of the oldest write that nobody has asked about."""
        line = self._next_line(seconds)
        self._untold -= 1
        return line

    def settle(self) -> None:
        """Wait for the writes that nobody has asked about: what they answer is no answer to the next."""
        while self._untold:
            self.answer()

    def _next_line(self, seconds: float) -> str:
        with self._heard:
            assert self._heard.wait_for(lambda: self._answers, timeout=seconds), "the writer does not answer"
            return self._answers.pop(0)

    @property
    def is_done(self) -> bool:
        """Whether an answer waits."""
        return bool(self._answers)

    def close(self) -> None:
        """End it."""
        self.process.stdin.close()
        self.process.wait(timeout=60)


if __name__ == "__main__":
    main()
