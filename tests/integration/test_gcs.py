"""The cut on a table of `gs://`, by Google's own connector, on fake-gcs-server where that is installed."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest

from etc_policy.spark.session import DEFAULT_BUNDLE, start_spark
from tests.cloud_servers import ask
from tests.integration.bench import AT_THE_CUT
from tests.integration.bucket_cut import BucketBench, Kind
from tests.integration.cut_checks import check_the_cut
from tests.integration.history import write_history
from tests.integration.session import stop_spark
from tests.maven_jars import jars_of

pytestmark = [pytest.mark.spark, pytest.mark.extended]

CONNECTOR = Path(__file__).with_name("gcs_connector.pom.xml")


@dataclass(frozen=True)
class GoogleServer:
    """What the checks read themselves, by the JSON API."""

    port: int

    def get(self, url: str) -> bytes:
        status, _, content = ask(self.port, "GET", url, b"", {})
        assert status == 200, content
        return content

    def keys(self, bucket: str, prefix: str) -> list[str]:
        found = json.loads(self.get(f"/storage/v1/b/{bucket}/o?prefix={quote(prefix, safe='')}"))
        return [item["name"] for item in found.get("items", ())]

    def storage_options(self) -> dict[str, str]:
        return {"google_service_account_key": os.environ["GOOGLE_SERVICE_ACCOUNT_KEY"], "allow_http": "true"}

    def content(self, bucket: str, key: str) -> bytes:
        return self.get(f"/storage/v1/b/{bucket}/o/{quote(key, safe='')}?alt=media")


def confs(port: int) -> dict[str, str]:
    """What a user without keys gives Spark for a server of his own."""
    given = {
        "impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
        "storage.root.url": f"http://127.0.0.1:{port}/",
        "auth.service.account.enable": "false",
        "auth.null.enable": "true",
        "project.id": "test",
    }
    (jar,) = jars_of("gcs", CONNECTOR).glob("*.jar")
    return {
        "spark.jars": str(jar),
        "spark.sql.shuffle.partitions": "2",
        "spark.hadoop.fs.AbstractFileSystem.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFS",
        **{f"spark.hadoop.fs.gs.{key}": value for key, value in given.items()},
    }


@pytest.mark.parametrize("mdt", [False, True])
def test_every_view_is_right_at_each_step(no_spark, fake_gcs, gcs_bucket, tmp_path, mdt):
    if shutil.which("mvn") is None:
        pytest.skip("Maven is not installed")
    spark = start_spark(confs(fake_gcs[0]), tmp_path / "spark.log", packages=(DEFAULT_BUNDLE,))
    try:
        kind, base = Kind(mdt=mdt), f"{gcs_bucket}/t"
        write_history(spark, base, options=kind.options)
        bench = BucketBench(spark, base, kind.granularity, server=GoogleServer(fake_gcs[0]))
        check_the_cut(bench, kind.options, since=AT_THE_CUT)
    finally:
        stop_spark(spark)
