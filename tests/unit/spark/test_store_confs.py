"""The settings that reach S3 from Python, as Hadoop's client takes them."""

from pathlib import Path

import pytest

from etc_policy.errors import TableError
from etc_policy.policy.project_schema import StorageSettings
from etc_policy.spark.session import _without_secrets
from etc_policy.spark.store_confs import s3_packages, s3a_confs

KEYS = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "hidden"}


def confs(environment=KEYS, given=None, **settings):
    found = s3a_confs(StorageSettings(**settings), environment, given)
    return {name.removeprefix("spark.hadoop.fs.s3a."): value for name, value in found.items()}


def test_a_server_with_an_endpoint():
    found = confs(endpoint="http://127.0.0.1:9000", region="eu-central-1")
    assert found == {
        "endpoint": "http://127.0.0.1:9000",
        "endpoint.region": "eu-central-1",
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
        "attempts.maximum": "3",
        "retry.limit": "3",
        "directory.marker.retention": "keep",
        "connection.maximum": "2000",
        "access.key": "id",
        "secret.key": "hidden",
        "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    }


def test_the_environment_says_what_the_target_does_not():
    found = confs({**KEYS, "AWS_ENDPOINT_URL_S3": "https://s3.example.com", "AWS_REGION": "r"})
    assert (found["endpoint"], found["endpoint.region"], found["connection.ssl.enabled"]) == (
        "https://s3.example.com",
        "r",
        "true",
    )
    assert confs({**KEYS, "AWS_ENDPOINT_URL_S3": "https://x"}, endpoint="https://y")["endpoint"] == "https://y"


def test_amazon_itself_has_no_endpoint():
    found = confs()
    assert (found.keys() & {"endpoint", "connection.ssl.enabled", "endpoint.region"}, found["path.style.access"]) == (
        set(),
        "false",
    )
    assert confs(path_style=True)["path.style.access"] == "true"


@pytest.mark.parametrize(
    ("environment", "settings", "provider"),
    [
        ({**KEYS, "AWS_SESSION_TOKEN": "t"}, {}, "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"),
        (KEYS, {"anonymous": True}, "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"),
        ({"AWS_WEB_IDENTITY_TOKEN_FILE": "/t"}, {}, "com.amazonaws.auth.WebIdentityTokenCredentialsProvider"),
        ({}, {"instance_role": True}, "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider"),
    ],
)
def test_other_keys(environment, settings, provider, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    found = confs(environment, **settings)
    assert found["aws.credentials.provider"] == provider
    assert found.get("session.token") == environment.get("AWS_SESSION_TOKEN")
    assert ("secret.key" in found) == ("AWS_SESSION_TOKEN" in environment)


def test_what_the_user_sets_wins():
    mine = {"spark.hadoop.fs.s3a.path.style.access": "false", "spark.executor.memory": "4g"}
    found = confs(given=mine, endpoint="http://h")
    assert (found["path.style.access"], found["spark.executor.memory"], found["access.key"]) == ("false", "4g", "id")


@pytest.mark.parametrize(
    "name", ["access.key", "aws.credentials.provider", "bucket.lake.secret.key", "bucket.lake.access.key"]
)
def test_keys_of_the_user_are_not_mixed_with_others(name):
    found = confs(given={f"spark.hadoop.fs.s3a.{name}": "mine"})
    assert {key: found[key] for key in found if key.endswith((".key", "provider", "token"))} == {name: "mine"}


def test_without_keys_nothing_starts(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(TableError, match="there are no keys"):
        confs({})


def test_keys_are_no_arguments_of_a_process():
    found = s3a_confs(StorageSettings(), {**KEYS, "AWS_SESSION_TOKEN": "hidden too"})
    assert not {"id", "hidden", "hidden too"} & set(_without_secrets(found).values())


AWS = "org.apache.hadoop:hadoop-aws:"


@pytest.mark.parametrize(
    ("confs_of_user", "packages", "added"),
    [
        ({}, (), True),
        ({"spark.master": "local[2]", "spark.jars": "/hudi.jar"}, ("a:b:1",), True),
        ({"spark.master": "spark://host:7077"}, (), False),
        ({}, (f"{AWS}3.3.6",), False),
        ({"spark.jars": "/jars/hadoop-aws-3.3.4.jar"}, (), False),
        ({"spark.jars.packages": f"{AWS}3.3.4"}, (), False),
    ],
)
def test_a_machine_s_spark_gets_the_client_of_its_own_hadoop(confs_of_user, packages, added):
    found = s3_packages(confs_of_user, packages)
    assert [one.startswith(AWS) for one in found] == [True] * added
    if added:
        import pyspark

        jars = Path(pyspark.__file__).parent / "jars"
        assert (jars / f"hadoop-client-api-{found[0].removeprefix(AWS)}.jar").is_file()
