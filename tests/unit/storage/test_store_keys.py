"""Where keys come from, and that nobody asks the metadata address for them."""

import socket

import pytest

from etc_policy.errors import TableError
from etc_policy.policy.project_schema import StorageSettings
from etc_policy.storage.object_stores import open_object_storage, parse_bucket
from etc_policy.storage.store_keys import AwsKeys, aws_keys, require_other_keys

ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}
NOTHING = StorageSettings()


@pytest.fixture
def profiles(tmp_path, monkeypatch, s3_variables):
    """A profile file in which only `lake` has keys."""
    path = tmp_path / "credentials"
    path.write_text("[lake]\naws_access_key_id = of-lake\naws_secret_access_key = hidden\naws_session_token = t\n")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(path))
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    return path


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    """Whoever asks the metadata address fails the test."""

    def connect(*_):
        raise AssertionError("a connection was made")

    monkeypatch.setattr(socket.socket, "connect", connect)


def test_keys_of_the_environment():
    assert aws_keys(NOTHING, ENVIRONMENT)() == AwsKeys("id", "secret")
    assert aws_keys(NOTHING, {**ENVIRONMENT, "AWS_SESSION_TOKEN": "t"})() == AwsKeys("id", "secret", "t")


def test_a_secret_is_not_shown():
    assert "secret" not in repr(AwsKeys("id", "secret", "secret"))


def test_keys_of_a_profile(profiles, monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "lake")
    assert aws_keys(NOTHING, {"AWS_PROFILE": "lake"})() == AwsKeys("of-lake", "hidden", "t")
    assert aws_keys(NOTHING, {"AWS_PROFILE": "lake", **ENVIRONMENT})() == AwsKeys("id", "secret")


@pytest.mark.parametrize("profile", [None, "nobody"])
def test_a_profile_without_keys(profiles, monkeypatch, profile):
    environment = {"AWS_SHARED_CREDENTIALS_FILE": str(profiles)}
    if profile:
        monkeypatch.setenv("AWS_PROFILE", profile)
        environment["AWS_PROFILE"] = profile
    with pytest.raises(TableError, match="there are no keys") as found:
        aws_keys(NOTHING, environment)
    assert found.value.code == "ETC453"


def test_without_botocore_profiles_are_not_read(profiles, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(TableError, match="botocore is needed") as found:
        aws_keys(NOTHING, {"AWS_PROFILE": "lake"})
    assert (found.value.code, "pip install botocore" in found.value.hint) == ("ETC454", True)


@pytest.mark.parametrize("location", ["s3://b/t", "gs://b/t", "abfs://c@a.dfs.core.windows.net/t"])
def test_without_keys_nobody_is_asked(s3_variables, monkeypatch, tmp_path, location):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(TableError, match="there are no keys") as found:
        open_object_storage(location, NOTHING)
    assert (found.value.code, "instance_role" in found.value.hint) == ("ETC453", True)


def test_what_obstore_finds_by_itself():
    assert aws_keys(StorageSettings(anonymous=True), ENVIRONMENT) is None
    assert aws_keys(NOTHING, {"AWS_WEB_IDENTITY_TOKEN_FILE": "/t"}) is None
    assert aws_keys(StorageSettings(instance_role=True), {"HOME": "/nonexistent"}) is None
    require_other_keys("gs", NOTHING, {"GOOGLE_SERVICE_ACCOUNT": "/k.json"})
    require_other_keys("abfs", NOTHING, {"AZURE_STORAGE_ACCOUNT_KEY": "k"})


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("s3://b/a//t/", ("s3", "b", "", "a/t")),
        ("s3a://b", ("s3a", "b", "", "")),
        ("gs://b/t", ("gs", "b", "", "t")),
        ("abfs://c@a.dfs.core.windows.net/t", ("abfs", "c", "a", "t")),
    ],
)
def test_a_location_taken_apart(location, expected):
    assert parse_bucket(location) == expected


@pytest.mark.parametrize("location", ["s3:///t", "abfs://c/t", "s3://b@a/t"])
def test_a_location_without_a_bucket(location):
    with pytest.raises(TableError, match="names no bucket"):
        parse_bucket(location)


def test_stores_of_other_clouds_open(monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    storage = open_object_storage("abfs://c@a.dfs.core.windows.net/t", NOTHING)
    assert storage.location == "abfs://c@a.dfs.core.windows.net/t"
    assert open_object_storage("gs://b/t", StorageSettings(anonymous=True)).location == "gs://b/t"
