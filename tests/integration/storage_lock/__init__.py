"""Hudi's storage-based lock on S3 servers of tests: the stock provider, and a client of S3 that its Spark bundle lacks."""

from __future__ import annotations

import shutil
from pathlib import Path

_SOURCE = Path(__file__).with_name("S3StorageLockClient.java")
LOCK = {
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.StorageBasedLockProvider",
    "hoodie.write.lock.storage.validity.timeout.secs": "20",
    "hoodie.write.lock.storage.renew.interval.secs": "2",
}


def compile_client(spark, folder: Path) -> Path:
    """The client as a jar in a folder, compiled by what Spark compiles its own code with; `spark` has hadoop-aws."""
    from py4j.java_gateway import java_import

    jvm = spark.sparkContext._jvm
    java_import(jvm, "org.codehaus.janino.*")
    classes = folder / "classes"
    classes.mkdir(parents=True)
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    compiler = jvm.org.codehaus.janino.Compiler()
    compiler.setIClassLoader(jvm.org.codehaus.janino.ClassLoaderIClassLoader(loader))
    compiler.setSourceVersion(8)
    compiler.setTargetVersion(8)
    file = jvm.java.io.File
    compiler.setDestinationDirectory(file(str(classes)), False)
    sources = spark.sparkContext._gateway.new_array(file, 1)
    sources[0] = file(str(_SOURCE))
    compiler.compile(sources)
    archive = shutil.make_archive(str(folder / "lock-client"), "zip", classes)
    return Path(archive).rename(folder / "lock-client.jar")
