"""A property that is read from a table's files once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class read_once(Generic[T]):  # noqa: N801 - a decorator, as `property` is
    """Like `cached_property`, which before Python 3.12 has one lock for all instances: tables that are read side by side would
    wait for each other's files.
    """

    def __init__(self, read: Callable[[Any], T]) -> None:
        self._read, self.__doc__ = read, read.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        """The value, which hides this property from now on."""
        value = instance.__dict__[self._name] = self._read(instance)
        return value
