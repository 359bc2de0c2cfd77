"""Java and jars of servers that tests start; the jars are fetched by Maven."""

import os
import shutil
import subprocess
from pathlib import Path

from etc_policy.spark.java_runtime import use_java


def java_home() -> Path:
    """The folder of the Java of Spark, which runs the servers too."""
    use_java()
    return Path(os.environ.get("JAVA_HOME") or Path(shutil.which("java")).resolve().parents[1])


def jars_of(name: str, pom: Path) -> Path:
    """The folder of the jars that a pom asks for, fetched once; Maven runs in the Java of Spark, maybe the only one."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "etc-policy"
    folder = cache / f"{name}-{pom.stat().st_size}"
    if not folder.is_dir():
        use_java()
        draft = cache / f"{name}.{os.getpid()}"
        maven = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={draft}"]
        subprocess.run(maven, check=True, timeout=400, stdout=subprocess.DEVNULL)
        try:
            draft.rename(folder)
        except OSError:  # another worker was first
            shutil.rmtree(draft)
    return folder
