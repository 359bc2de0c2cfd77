"""A storage that other machines serve, and that fails.

Each is an OSError for who works with files, and an error of etc with its code for who does not.
"""

from __future__ import annotations

from etc_policy.errors import RetryableError, TableError


class StoreUnreachableError(RetryableError, OSError):
    """The store did not answer, or only that it is too busy."""


class StoreRefusedError(TableError, OSError):
    """The store answered, and will not do it."""
