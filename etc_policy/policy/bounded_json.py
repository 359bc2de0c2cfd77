"""JSON that others wrote, within bounds: a few of its bytes may become a model, or as many faults as that model has keys."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

#: No document of etc is larger that is read as a whole: that of ten thousand tables.
MAX_JSON_BYTES = 64 << 20
#: What the values of a document may take of memory, at most.
_MAX_MEMORY = 3 << 29
#: So many bytes may come of each of these signs, by what was measured of a missing key and of a model. What etc and Hudi write
#: has so few of them that the whole is bounded by its length.
_TAKES = {"{": 2_000, "[": 500, ",": 250}
#: A whole number of 64 bits has no more digits; a DECIMAL in statistics of a commit has, and is read as any real number. One of
#: 400 digits is no float, one of 4,300 and a bit more no text.
_MAX_DIGITS = 19
_LONG = re.compile(rb"\d{%d}" % (_MAX_DIGITS + 1))
#: The characters of a text are four bytes each where one of them is beyond 16 bits.
_BYTES_PER_CHARACTER = 4


def load_json(text: bytes | str, *, parse_constant: Callable[[str], Any] | None = None) -> Any:  # noqa: ANN401
    """The value of a document.

    Raises:
        ValueError: it is no JSON, or not modest, or a number in it is too large.
        RecursionError: it is nested too deep.

    """
    require_modest(text)
    return json.loads(text, parse_int=_whole, parse_float=_real, parse_constant=parse_constant)


def may_have_long_numbers(text: bytes) -> bool:
    """Whether there are more digits in a row than a number may have; they may be in a text."""
    return _LONG.search(text) is not None


def _whole(digits: str) -> float:
    return int(digits) if len(digits.lstrip("-")) <= _MAX_DIGITS else _real(digits)


def _real(digits: str) -> float:
    if math.isinf(found := float(digits)):
        raise ValueError("a number that is too large")
    return found


def require_modest(text: bytes | str) -> None:
    """Return if what is made of a document is no more than its bytes lead to expect.

    Raises:
        ValueError: it is.

    """
    count = text.count if isinstance(text, str) else lambda sign: text.count(sign.encode())
    if len(text) * _BYTES_PER_CHARACTER + sum(count(sign) * takes for sign, takes in _TAKES.items()) > _MAX_MEMORY:
        raise ValueError("it has more values than etc or Hudi write in so many bytes")
