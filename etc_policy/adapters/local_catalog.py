"""A catalog of one machine: Hive's metastore inside Spark, on Derby files in a folder (FACTS 10)."""

from __future__ import annotations

from pathlib import Path

#: A metastore that does not answer is given up after this time; Hive's own default is ten minutes.
CLIENT_CONFS = {"spark.hadoop.hive.metastore.client.socket.timeout": "60s"}


def local_catalog_confs(folder: Path) -> dict[str, str]:
    """Spark's settings for the catalog in `folder`, which is made when first used; one process at a time can open it."""
    where = folder.absolute()
    return {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(where / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={where / 'metastore_db'};create=true",
        "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
        "spark.hadoop.hive.metastore.schema.verification": "false",
    }
