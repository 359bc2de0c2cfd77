"""The end of a Spark session, with its Java process: the next one starts afresh."""


def stop_spark(spark) -> None:
    """Stops Spark and waits until its Java process is gone."""
    gateway = spark.sparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=60)
    type(spark.sparkContext)._gateway = type(spark.sparkContext)._jvm = None
