"""The one Spark session: stock Spark, stock Hudi bundle, on this machine or on the cluster that the options name."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Mapping
from typing import Any

from etc_policy.adapters.java_runtime import keep_stdout_for_data, use_java
from etc_policy.errors import EngineError

DEFAULT_BUNDLE = "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0"

_DEFAULTS = {
    "spark.master": "local[2]",
    "spark.app.name": "etc",
    "spark.driver.memory": "2g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    "spark.sql.session.timeZone": "UTC",
}


def start_spark(options: Mapping[str, str] | None = None) -> Any:  # noqa: ANN401 - a SparkSession, imported late
    """A SparkSession with the Hudi bundle; `options` are Spark confs that win over the defaults.

    The bundle is `ETC_HUDI_BUNDLE` (a jar's path or Maven coordinates), else version 1.2.0 from Maven Central.

    Raises:
        EngineError: PySpark or Java is missing, or Spark did not start.

    """
    if importlib.util.find_spec("pyspark") is None:
        raise EngineError("ETC302", "PySpark is not installed", hint='run `pip install "etc-policy[local]"`')
    trust_store = use_java()
    keep_stdout_for_data()
    from pyspark.sql import SparkSession

    confs = {**_DEFAULTS, **_bundle(), **_driver_options(trust_store), **(options or {})}
    builder = SparkSession.builder
    for key, value in confs.items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:
        hint = "the lines above are Spark's; ETC_HUDI_BUNDLE may name a local bundle jar"
        raise EngineError("ETC303", "Spark did not start", hint=hint, cause=str(error)) from error
    session.sparkContext.setLogLevel(os.environ.get("ETC_SPARK_LOG_LEVEL", "ERROR"))
    return session


def _bundle() -> dict[str, str]:
    bundle = os.environ.get("ETC_HUDI_BUNDLE", DEFAULT_BUNDLE)
    if bundle.endswith(".jar"):
        return {"spark.jars": bundle}
    return {
        "spark.jars.packages": bundle,
        "spark.jars.excludes": "org.apache.hive:hive-storage-api,org.slf4j:slf4j-api",
    }


def _driver_options(trust_store: str | None) -> dict[str, str]:
    scratch = tempfile.gettempdir()
    java = ["-Djdk.attach.allowAttachSelf=true", f"-Dderby.system.home={scratch}"]
    if trust_store:
        java += [f"-Djavax.net.ssl.trustStore={trust_store}", "-Djavax.net.ssl.trustStorePassword=changeit"]
    return {"spark.driver.extraJavaOptions": " ".join(java), "spark.sql.warehouse.dir": f"{scratch}/etc-warehouse"}
