"""What verification at level `data` costs on the demo's table, against one scan of its real-time view.

    python -m benchmarks.data_verification

Writes the demo's table, compacts it, then takes the shortest of several runs of each: the scan reads every column of every
row and throws them away. Prints seconds and ratios of one run.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.figures import add_json, write_figures
from etc_policy.api.applying import Applier
from etc_policy.api.verifying import suite_items
from etc_policy.policy.files import read_template
from etc_policy.policy.manifest import Sample, Sync, Verify, VerifyLevel
from etc_policy.policy.reading import read_project
from etc_policy.policy.resolve import compile_project
from etc_policy.verify.evidence import Evidence
from etc_policy.verify.prover import claim_of, verify_table
from etc_policy.wiring import Environment

RUNS = 3


def shortest(act: Callable[[], Any]) -> float:
    """Seconds of the shortest of RUNS runs, after one that is not counted."""
    act()
    seconds = []
    for _ in range(RUNS):
        began = time.perf_counter()
        act()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_json(parser)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        environment = Environment(project, progress=print, spark_log=project / "spark.log")
        try:
            write_figures(given.json, measure(project, environment))
        finally:
            environment.close()


def measure(project: Path, environment: Environment) -> dict[str, float]:
    """Seconds of each, printed."""
    (project / "policies").mkdir()
    (project / "policies" / "flights.yml").write_text(read_template("demo/flights.yml"))
    (policy,) = compile_project(read_project(str(project), {}), ("ro_complete",)).policies
    policy = policy.model_copy(update={"sync": Sync()})  # with a catalog every read by path would ask it too
    demo = environment.demo(policy, days=3)
    demo.play(lambda at_ms: None)
    applier = Applier(environment, demo.now_ms)
    applier.run([policy])
    state, history = environment.read_table(policy)[:2]
    suite = suite_items(environment, policy)

    def verify(level: VerifyLevel) -> str:
        chosen = policy.model_copy(update={"verify": Verify(sample=Sample(share=0.2, seed=1))})
        evidence = Evidence(chosen, state, history, claim_of(policy, state, demo.now_ms), demo.now_ms)
        return verify_table(evidence, suite, level, environment.data_verifier).status

    def scan() -> None:
        environment.spark.read.format("hudi").load(policy.table).write.format("noop").mode("overwrite").save()

    print(f"verdict: {verify('data')}")
    scanned, proved = shortest(scan), shortest(lambda: verify("data"))
    sampled, from_metadata = shortest(lambda: verify("sample")), shortest(lambda: verify("metadata"))
    print(f"one scan of RT  {scanned:6.2f} s")
    print(f"level data      {proved:6.2f} s  {proved / scanned:6.1f} x the scan")
    print(f"level sample    {sampled:6.2f} s  {sampled / scanned:6.1f} x the scan")
    print(f"level metadata  {from_metadata:6.3f} s  {from_metadata / scanned:6.2f} x the scan")
    return {"scan": scanned, "data": proved, "sample": sampled, "metadata": from_metadata}


if __name__ == "__main__":
    main()
