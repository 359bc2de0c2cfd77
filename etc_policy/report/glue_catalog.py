"""The AWS Glue Data Catalog without Spark: where a table lies, and its properties (facts: ro-table-properties)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from etc_policy.errors import EtcError, RetryableError, TableError, first_line
from etc_policy.errors.codes import Code
from etc_policy.policy.locations import glob_matches
from etc_policy.policy.project_schema import CatalogSettings, StorageSettings
from etc_policy.report.sync import (
    PREFIX,
    PropertyChanges,
    is_located_at,
    no_partition,
    partition_values,
    require_located,
)
from etc_policy.storage.bounded_http import bound_answers
from etc_policy.storage.listings import ListingBounds
from etc_policy.storage.port import Requests
from etc_policy.storage.store_keys import aws_session, no_keys

T = TypeVar("T")

_REQUESTS, _TRIES = Requests(), 2
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_REGION_HINT = "set AWS_REGION, or `storage.region` of the target"


class GlueCatalog:
    """Asks Glue by botocore, with the keys that object stores are reached with; a PropertyStore of the table at a base path."""

    def __init__(self, catalog: CatalogSettings, storage: StorageSettings, base_path: str = "") -> None:
        from botocore.config import Config

        session, keys = aws_session(storage)
        if keys is None:
            raise no_keys("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE")
        region = (
            storage.region
            or next(filter(None, map(os.environ.get, _REGIONS)), None)
            or session.get_config_variable("region")
        )
        if not region:
            raise TableError(Code.NO_STORE_KEYS, "no region is known for the Glue Data Catalog", hint=_REGION_HINT)
        self._base_path = base_path
        self._seconds = seconds = storage.timeout / 1000
        config = Config(connect_timeout=seconds, read_timeout=seconds, retries={"total_max_attempts": _TRIES})
        self._client: Any = session.create_client("glue", region_name=region, endpoint_url=catalog.uri, config=config)
        bound_answers(self._client, session, seconds)

    def location(self, table: str) -> str:
        """The base path of `db.table`.

        Raises:
            TableError: the catalog does not know it, or not where it lies.
            RetryableError: the catalog cannot be asked.

        """
        found = self._table(table)
        if found is None:
            hint = "check `table` in the policy, and the region"
            raise TableError(Code.UNKNOWN_CATALOG_TABLE, f"the Glue Data Catalog has no table `{table}`", hint=hint)
        return _location(table, found)

    def tables(self, database: str, pattern: str) -> Iterator[tuple[str, str | EtcError]]:
        """Each table of a database whose name matches (`*` is any text, `|` an or), as `db.table`, with its base path.

        Views are left out.

        Raises:
            RetryableError: the catalog cannot be asked, or has no such database.

        """
        place, globs, found = f"{database}.{pattern}", pattern.lower().split("|"), list[tuple[str, str | EtcError]]()
        bounds = ListingBounds(place, self._seconds)
        with _errors(place):
            pages = iter(self._client.get_paginator("get_tables").paginate(DatabaseName=database.lower()))
            while page := self._in_time(partial(next, pages, None)):
                tables = [table for table in page.get("TableList", ()) if table.get("Name")]
                bounds.count(table["Name"] for table in tables)
                tables = [table for table in tables if table.get("TableType") != "VIRTUAL_VIEW"]
                tables = [table for table in tables if any(glob_matches(table["Name"], glob) for glob in globs)]
                found += (_located(f"{database}.{table['Name']}", table) for table in tables)
        yield from found

    def read(self, table: str, prefix: str = PREFIX) -> dict[str, str]:
        """The properties of `db.table` that begin so: those of etc if not given.

        Raises:
            TableError: the catalog has no such table, or has it elsewhere.
            RetryableError: the catalog cannot be asked.

        """
        found = self._own(table)
        return {key: value for key, value in found.get("Parameters", {}).items() if key.startswith(prefix)}

    def write(self, table: str, changes: PropertyChanges) -> None:
        """Change the properties of `db.table` at once, and nothing else of it.

        Raises:
            TableError: the catalog has no such table, or has it elsewhere.
            RetryableError: the catalog cannot be asked, or somebody else has changed the table meanwhile.

        """
        found = self._own(table)
        kept = {key: value for key, value in found.get("Parameters", {}).items() if key not in changes.remove}
        names = self._client.meta.service_model.shape_for("TableInput").members
        table_input = {name: value for name, value in found.items() if name in names}
        version = {"VersionId": found["VersionId"]} if "VersionId" in found else {}
        with _errors(table):
            self._ask(
                "update_table",
                DatabaseName=_parts(table)[0],
                TableInput={**table_input, "Parameters": {**kept, **changes.put}},
                SkipArchive=True,
                **version,
            )

    def write_view(self, view: str, table: str, condition: str | None) -> None:
        """Views are Spark's own.

        Raises:
            TableError: always.

        """
        hint = "remove `sync.as_of_view`, or leave the catalog to Spark"
        raise TableError(Code.NO_RO_TABLE, f"the view `{view}` cannot be written to the Glue Data Catalog", hint=hint)

    def write_partition(self, table: str, partition: str, properties: Mapping[str, str]) -> None:
        """Set properties of the partition of `db.table` that lies at the path below the base path, and change nothing else of it.

        Raises:
            TableError: the catalog has no such table, or no partition there.
            RetryableError: the catalog cannot be asked.

        """
        values = list(partition_values(partition, len(self._ro_table(table).get("PartitionKeys", ()))))
        database, name = _parts(table)
        where = {"DatabaseName": database, "TableName": name}
        with _errors(table):
            try:
                found = self._ask("get_partition", **where, PartitionValues=values)["Partition"]
            except (self._client.exceptions.EntityNotFoundException, self._client.exceptions.InvalidInputException):
                raise no_partition(table, partition, self._base_path) from None
            location = str(found.get("StorageDescriptor", {}).get("Location", ""))
            if not is_located_at(location, partition, self._base_path):
                raise no_partition(table, partition, self._base_path)
            names = self._client.meta.service_model.shape_for("PartitionInput").members
            partition_input = {key: value for key, value in found.items() if key in names}
            partition_input["Parameters"] = {**found.get("Parameters", {}), **properties}
            self._ask("update_partition", **where, PartitionValueList=values, PartitionInput=partition_input)

    def _own(self, table: str) -> dict[str, Any]:
        found = self._ro_table(table)
        require_located(table, _location(table, found), self._base_path)
        return found

    def _ro_table(self, table: str) -> dict[str, Any]:
        found = self._table(table)
        if found is None:
            hint = "Hudi's sync to Glue makes it (`hoodie.datasource.hive_sync.enable`); is the region right?"
            raise TableError(Code.NO_RO_TABLE, f"the Glue Data Catalog has no table `{table}`", hint=hint)
        return found

    def _table(self, table: str) -> dict[str, Any] | None:
        database, name = _parts(table)
        with _errors(table):
            try:
                found: dict[str, Any] = self._ask("get_table", DatabaseName=database, Name=name)["Table"]
            except self._client.exceptions.EntityNotFoundException:
                return None
        return found

    def _ask(self, call: str, **arguments: object) -> Any:
        return self._in_time(partial(getattr(self._client, call), **arguments))

    def _in_time(self, request: Callable[[], T]) -> T:
        """What the request returns: botocore waits for each part of an answer anew."""
        return _REQUESTS.in_time(request, _TRIES * 2 * self._seconds)


def _located(table: str, found: Mapping[str, Any]) -> tuple[str, str | EtcError]:
    """The name of a table and where it lies, or why that is not known."""
    try:
        return table, _location(table, found)
    except TableError as error:
        return table, error


def _location(table: str, found: Mapping[str, Any]) -> str:
    location = str(found.get("StorageDescriptor", {}).get("Location", ""))
    if "/" not in location:
        raise TableError(Code.UNKNOWN_CATALOG_TABLE, f"the Glue Data Catalog names no location for `{table}`")
    return location.removeprefix("file:")


def _parts(table: str) -> tuple[str, str]:
    """Database and table of `db.table`, which Glue has in lower case."""
    database, _, name = table.lower().partition(".")
    return database.strip("`"), name.strip("`")


@contextmanager
def _errors(table: str) -> Iterator[None]:
    """What Glue or the way to it says, as an error that another try may not meet."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except EtcError:
        raise
    except (BotoCoreError, ClientError, OSError) as error:
        raise _failed(table, first_line(error) or "there was no whole answer in time") from error
    except (LookupError, TypeError, AttributeError, RecursionError) as error:  # botocore checks no types
        raise _failed(table, "its answer does not have the form of Glue's") from error


def _failed(table: str, cause: str) -> RetryableError:
    message = f"the Glue Data Catalog cannot be asked about `{table}`"
    hint = "run it again; if it goes on, check the keys, the region, and `catalog.uri` of the target"
    return RetryableError(Code.CATALOG_FAILED, message, hint=hint, cause=cause)
