"""Values of a table's metadata, which any hand may have written: believed only where they are of the kind that Hudi writes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date
from itertools import chain
from typing import Any, TypeGuard

from etc_policy.errors import TableError
from etc_policy.errors.codes import Code
from etc_policy.policy import bounded_json
from etc_policy.storage.safe_files import begins_with_scheme

#: What reading raises over values of another form; a TypeError or an AttributeError would be a mistake in etc itself.
UNKNOWN_FORM = (LookupError, ValueError, ArithmeticError, RecursionError, MemoryError)

_LONGS = range(-(2**63), 2**63)
_TIME = re.compile(
    r"(19[7-9]\d|2\d{3})(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])([01]\d|2[0-3])[0-5]\d[0-5]\d(\d{3})?", re.ASCII
)
_SHOWN = 60
#: As long as HDFS takes paths, and longer than the others do.
MAX_PATH = 8_000
#: What the commits and plans of a timeline carry besides what they did: a schema of a megabyte in a hundred forms.
MAX_TEXTS = 128 << 20
#: Every month has so many days.
_SHORTEST_MONTH = 28


def load_json(content: bytes | str) -> Any:
    """JSON of a table; ValueError for numbers that JSON does not have, such as Infinity."""
    return bounded_json.load_json(content, parse_constant=_no_number)


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")


def text_of(value: object) -> str:
    """A text, empty for null; ValueError for what is no text that can be written as UTF-8."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{str(value)[:_SHOWN]} where a text is expected")
    if not value.isascii():
        value.encode()
    return value


def partition_of(value: object) -> str:
    """The path of a partition, which may stand before the names of all its files; ValueError for one that no storage has."""
    path = text_of(value)
    if len(path) > MAX_PATH:
        raise ValueError(f"the path of a partition has {len(path):,} characters")
    if begins_with_scheme(path):
        raise ValueError("the path of a partition begins with a scheme, or has a colon before its first `/`")
    return path


def name_of(value: object) -> str:
    """A name of a file or a file group, or an instant, empty for null; ValueError for one that no storage has."""
    name = text_of(value)
    if len(name) > MAX_PATH:
        raise ValueError(f"a name has {len(name):,} characters")
    return name


class Texts:
    """The texts that metadata carries, each once, as most commits carry the same; so many characters that are kept."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._left = MAX_TEXTS

    def of_pairs(self, pairs: Mapping[str, str]) -> dict[str, str]:
        """The pairs of these texts; ValueError where they are too many."""
        return {self._once(key): self._once(value) for key, value in pairs.items()}

    def _once(self, text: str) -> str:
        found = self._texts.setdefault(text, text)
        if found is text:
            self._left -= len(text)
            if self._left < 0:
                raise ValueError(f"what commits and plans carry has more than {MAX_TEXTS:,} characters")
        return found


def number_of(value: object) -> int:
    """A whole number of 64 bits, 0 for null; ValueError for anything else."""
    if value is None:
        return 0
    if not is_long(value):
        raise ValueError(f"{str(value)[:_SHOWN]} where a whole number is expected")
    return value


def mapping_of(value: object, *, nullable: bool = True) -> Mapping[str, Any]:
    """A record or a map, empty for null where that may be; ValueError for anything else."""
    if value is None and nullable:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{str(value)[:_SHOWN]} where fields by name are expected")
    return value


def texts_in(value: object) -> Iterator[str]:
    """All texts of Avro's or JSON's values, those of bytes too: Hudi reads bytes where it expects a text."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, bytes):
        yield value.decode(errors="replace")
    elif isinstance(value, Mapping):
        yield from chain.from_iterable(map(texts_in, chain(value, value.values())))
    elif isinstance(value, list):
        yield from chain.from_iterable(map(texts_in, value))


def list_of(value: object, *, nullable: bool = True) -> list[Any]:
    """A list, empty for null where that may be; ValueError for anything else."""
    if value is None and nullable:
        return []
    if not isinstance(value, list):
        raise ValueError(f"{str(value)[:_SHOWN]} where a list is expected")
    return value


def pairs_of(record: Mapping[str, Any]) -> dict[str, str]:
    """The pairs that a commit or a plan carries."""
    return {text_of(key): text_of(value) for key, value in mapping_of(record.get("extraMetadata")).items()}


def bytes_of(value: object) -> bytes:
    """Bytes, empty for null; ValueError for anything else."""
    if value is None:
        return b""
    if not isinstance(value, bytes):
        raise ValueError(f"{str(value)[:_SHOWN]} where bytes are expected")
    return value


def size_of(value: object) -> float:
    """A number that is no true or false, 0 for null; ValueError for anything else."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{str(value)[:_SHOWN]} where a number is expected")
    return value


def is_long(value: object) -> TypeGuard[int]:
    """Whether it is a whole number of 64 bits."""
    return type(value) is int and value in _LONGS


def time_of(value: object) -> str:
    """An instant that is a time; ValueError where it is not one that a calendar has, or of another age."""
    text = text_of(value)
    if not _TIME.fullmatch(text):
        raise ValueError(f"`{text[:_SHOWN]}` on the timeline is not a time")
    if int(text[6:8]) > _SHORTEST_MONTH:
        date(int(text[:4]), int(text[4:6]), int(text[6:8]))
    return text


def unknown_form(what: str, error: BaseException) -> TableError:
    """The error for metadata of another form; `what` is its name and `is`."""
    said = " ".join(str(error).split())[:200]
    hint = f"it may be from a later version of Hudi, or damaged ({type(error).__name__}: {said})"
    message = f"{what} not in a form that this version of etc knows"
    return TableError(Code.UNKNOWN_METADATA, message, hint=hint, cause=repr(error)[:500])
