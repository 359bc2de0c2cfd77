"""A catalog of one machine: Hive's metastore inside Spark, on Derby files in a folder (facts: hive-sync-modes)."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from etc_policy.errors import EngineError
from etc_policy.errors.codes import Code
from etc_policy.spark.session import session_confs
from etc_policy.storage.files import write_below

#: A metastore that does not answer is given up after this time; Hive's own default is ten minutes.
CLIENT_CONFS = {"spark.hadoop.hive.metastore.client.socket.timeout": "60s"}


#: Of the session, what another needs for the catalog's tables.
_SESSION_CONFS = (
    "spark.jars",
    "spark.jars.packages",
    "spark.jars.excludes",
    "spark.serializer",
    "spark.kryo.registrator",
    "spark.sql.extensions",
    "spark.sql.catalog.spark_catalog",
    "spark.sql.session.timeZone",
    "spark.driver.extraJavaOptions",
    "spark.driver.bindAddress",
    "spark.driver.host",
    "spark.ui.enabled",
)


def local_catalog_confs(folder: Path) -> dict[str, str]:
    """Spark's settings for the catalog in `folder`, which is made when first used; one process at a time can open it.

    Raises:
        EngineError: the folder is a link: Spark would write where it leads.

    """
    where = folder.absolute()
    if where.is_symlink():
        hint = "name another folder by `--target-dir`, or put a folder in place of the link"
        raise EngineError(Code.CANNOT_WRITE, f"the folder of the catalog, `{folder}`, is a link", hint=hint)
    return {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(where / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={where / 'metastore_db'};create=true",
        "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
        "spark.hadoop.hive.metastore.schema.verification": "false",
    }


def spark_sql_command(folder: Path, sql: str) -> str:
    """A shell command by which PySpark's own `spark-sql` asks the catalog; its settings are written to `folder`."""
    import pyspark

    confs = {key: value for key, value in session_confs({}, folder.absolute()).items() if key in _SESSION_CONFS}
    file = folder.absolute() / "spark.conf"
    lines = (f"{key} {value}\n" for key, value in {**confs, **local_catalog_confs(folder)}.items())
    write_below(file.parent.parent, f"{folder.name}/{file.name}", "".join(lines).encode())
    program = Path(pyspark.__file__).parent / "bin" / "spark-sql"
    home = os.environ.get("JAVA_HOME")
    command = shlex.join([str(program), "--properties-file", str(file), "-S", "-e", sql])
    return f"JAVA_HOME={shlex.quote(home)} {command}" if home else command
