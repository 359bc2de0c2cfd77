"""The target's `storage:` and keys of this environment as settings of Hadoop's S3 client, for Spark and its executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from etc_policy.policy.project_schema import StorageSettings
from etc_policy.spark.cluster import is_local
from etc_policy.storage.store_keys import aws_keys, endpoint_of

_CLIENT = "hadoop-aws"
_PREFIX = "spark.hadoop.fs.s3a."
_S3A = "org.apache.hadoop.fs.s3a"
#: What a user sets of these is all that is known of keys: parts of two are none.
_KEYS = ("access.key", "secret.key", "session.token", "aws.credentials.provider")
#: A store that does not answer is given up in minutes, not in hours; marks of folders stay, which all stores allow. Hudi
#: does not give back the connections by which it looks up the metadata table, and the pool's own size is 96
#: (facts: leaked-connections).
_ALWAYS = {
    "attempts.maximum": "3",
    "retry.limit": "3",
    "directory.marker.retention": "keep",
    "connection.maximum": "2000",
}


def s3a_confs(
    settings: StorageSettings, environment: Mapping[str, str], given: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Settings of Spark that reach S3 as etc itself does; `given` are the user's, which win.

    Executors lack the environment of this process, so keys are given as they are. Their names mark them as secrets, so
    that they are no arguments of a process.

    Raises:
        TableError: there are no keys.

    """
    own = {**_ALWAYS, **_places(settings, environment)}
    confs = {f"{_PREFIX}{name}": value for name, value in own.items()}
    confs["spark.hadoop.fs.s3.impl"] = f"{_S3A}.S3AFileSystem"
    if not any(name.startswith(_PREFIX) and name.endswith(_KEYS) for name in given or {}):
        confs |= {f"{_PREFIX}{name}": value for name, value in _keys(settings, environment).items()}
    return {**confs, **(given or {})}


def s3_packages(confs: Mapping[str, str], packages: Sequence[str]) -> tuple[str, ...]:
    """Hadoop's S3 client of PySpark's own version, for Spark on this machine; a cluster has one, or the target names it."""
    loaded = (*packages, confs.get("spark.jars", ""), confs.get("spark.jars.packages", ""))
    if not is_local(confs.get("spark.master", "local")) or any(_CLIENT in one for one in loaded):
        return ()
    import pyspark

    jars = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    return tuple(f"org.apache.hadoop:{_CLIENT}:{jar.stem.removeprefix('hadoop-client-api-')}" for jar in jars)


def _places(settings: StorageSettings, environment: Mapping[str, str]) -> dict[str, str]:
    endpoint = endpoint_of(settings, environment)
    region = settings.region or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    path_style = settings.path_style if settings.path_style is not None else endpoint is not None
    found = {"path.style.access": str(path_style).lower()}
    if endpoint:
        found |= {"endpoint": endpoint, "connection.ssl.enabled": str(not endpoint.startswith("http://")).lower()}
    return found | ({"endpoint.region": region} if region else {})


def _keys(settings: StorageSettings, environment: Mapping[str, str]) -> dict[str, str]:
    if settings.anonymous:
        return {"aws.credentials.provider": f"{_S3A}.AnonymousAWSCredentialsProvider"}
    keys = aws_keys(settings, environment)
    if keys is None and environment.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        return {"aws.credentials.provider": "com.amazonaws.auth.WebIdentityTokenCredentialsProvider"}
    if keys is None:
        return {"aws.credentials.provider": f"{_S3A}.auth.IAMInstanceCredentialsProvider"}
    found = keys()
    provider = "TemporaryAWSCredentialsProvider" if found.token else "SimpleAWSCredentialsProvider"
    pairs = {"access.key": found.key_id, "secret.key": found.secret, "aws.credentials.provider": f"{_S3A}.{provider}"}
    return pairs | ({"session.token": found.token} if found.token else {})
