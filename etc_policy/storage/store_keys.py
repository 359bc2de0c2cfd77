"""Keys for object stores: from the environment, from profile files and, where the target says so, from the machine's role.

Without any a store is refused: the libraries would ask the cloud's metadata address, also where there is no cloud.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from etc_policy.errors import TableError, first_line
from etc_policy.errors.codes import Code
from etc_policy.policy.project_schema import StorageSettings

#: They name an S3 server other than Amazon's.
ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_FILES = {"AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials", "AWS_CONFIG_FILE": "~/.aws/config"}
#: Of botocore's sources those that ask the metadata address.
_OF_MACHINES = ("iam-role", "container-role")
#: What says that obstore finds keys by itself: one of these for each kind of store.
_WEB_IDENTITY = "AWS_WEB_IDENTITY_TOKEN_FILE"
_GOOGLE = ("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH", "GOOGLE_SERVICE_ACCOUNT_KEY", "SERVICE_ACCOUNT")
_GOOGLE_FILE = {"GOOGLE_APPLICATION_CREDENTIALS": "~/.config/gcloud/application_default_credentials.json"}
_AZURE = (
    *("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_MASTER_KEY", "AZURE_STORAGE_SAS_TOKEN"),
    *("AZURE_STORAGE_SAS_KEY", "AZURE_STORAGE_TOKEN", "AZURE_CLIENT_SECRET", "AZURE_STORAGE_CLIENT_SECRET"),
    *("AZURE_FEDERATED_TOKEN_FILE", "AZURE_USE_AZURE_CLI"),
)


def endpoint_of(settings: StorageSettings, environment: Mapping[str, str]) -> str | None:
    """The URL of an S3 server other than Amazon's; the target's goes before the environment's."""
    return settings.endpoint or next((environment[name] for name in ENDPOINTS if environment.get(name)), None)


def server_of(settings: StorageSettings, environment: Mapping[str, str]) -> str:
    """What says, beside a location, whom it is asked of."""
    return f"{endpoint_of(settings, environment) or ''} {environment.get('HADOOP_CONF_DIR', '')}"


@dataclass(frozen=True, slots=True)
class AwsKeys:
    """Keys as they are now; those of a role end after a while."""

    key_id: str
    secret: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


def aws_keys(settings: StorageSettings, environment: Mapping[str, str]) -> Callable[[], AwsKeys] | None:
    """What gives the keys; None where requests are not signed, or obstore gets keys for a role by itself.

    Raises:
        TableError: there are none, or a profile that cannot be used.

    """
    if settings.anonymous:
        return None
    if environment.get("AWS_ACCESS_KEY_ID") and environment.get("AWS_SECRET_ACCESS_KEY"):
        keys = AwsKeys(
            environment["AWS_ACCESS_KEY_ID"],
            environment["AWS_SECRET_ACCESS_KEY"],
            environment.get("AWS_SESSION_TOKEN") or None,
        )
        return lambda: keys
    if environment.get(_WEB_IDENTITY):
        return None
    found = _profile_keys(settings) if environment.get("AWS_PROFILE") or _has_file(_FILES, environment) else None
    if found is None and not settings.instance_role:
        raise no_keys("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE")
    return found


def require_other_keys(scheme: str, settings: StorageSettings, environment: Mapping[str, str]) -> None:
    """Return if obstore finds keys for a store of Google or Azure without asking the metadata address.

    Raises:
        TableError: there are none.

    """
    if settings.anonymous or settings.instance_role:
        return
    if scheme == "gs":
        if not any(map(environment.get, _GOOGLE)) and not _has_file(_GOOGLE_FILE, environment):
            raise no_keys("set GOOGLE_APPLICATION_CREDENTIALS to the file of a service account")
    elif not any(map(environment.get, _AZURE)):
        raise no_keys("set AZURE_STORAGE_ACCOUNT_KEY, or the variables of a service principal")


def aws_session(settings: StorageSettings) -> tuple[Any, Any]:
    """A session of botocore and its keys, None where it finds none; the machine's role is asked only where the target says so.

    Raises:
        TableError: botocore is not installed, or a profile cannot be used.

    """
    if importlib.util.find_spec("botocore") is None:
        message = "botocore is needed to read the profile files of AWS, and for its Glue Data Catalog"
        hint = "run `pip install botocore`; for object stores alone AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY will do"
        raise TableError(Code.NEEDS_OBSTORE, message, hint=hint)
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session

    try:
        session: Any = Session()
        sources = session.get_component("credential_provider")
        for name in () if settings.instance_role else _OF_MACHINES:
            sources.remove(name)
        return session, session.get_credentials()
    except BotoCoreError as error:
        raise no_keys("check AWS_PROFILE and ~/.aws", first_line(error)) from error


def _profile_keys(settings: StorageSettings) -> Callable[[], AwsKeys] | None:
    """The keys of the profile in the files of the AWS command line, by botocore."""
    found = aws_session(settings)[1]
    return (lambda: AwsKeys(*found.get_frozen_credentials()[:3])) if found else None


def _has_file(places: Mapping[str, str], environment: Mapping[str, str]) -> bool:
    """Whether one of the files is there; below the home of a user without one nothing is."""
    found = (os.path.expanduser(environment.get(name) or default) for name, default in places.items())  # noqa: PTH111 - Path raises
    return any(map(os.path.isfile, found))


def no_keys(hint: str, cause: str | None = None) -> TableError:
    """The error where there are no keys."""
    hint += "; or declare `storage: {instance_role: true}` or `{anonymous: true}` in the target"
    return TableError(Code.NO_STORE_KEYS, "there are no keys for the object store", hint=hint, cause=cause)
