"""JSON that others wrote, within bounds: a few of its bytes may become a model, or as many faults as that model has keys."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

#: No document of etc is larger that is read as a whole: that of ten thousand tables.
MAX_JSON_BYTES = 64 << 20
#: What the values of a document may take of memory, at most.
_MAX_MEMORY = 3 << 29
#: So many bytes may come of each of these signs, by what was measured of a missing key and of a model. What etc and Hudi write
#: has so few of them that the whole is bounded by its length.
_TAKES = {"{": 2_000, "[": 500, ",": 250}
#: The characters of a text are four bytes each where one of them is beyond 16 bits.
_BYTES_PER_CHARACTER = 4


def load_json(text: bytes | str, *, parse_constant: Callable[[str], Any] | None = None) -> Any:  # noqa: ANN401
    """The value of a document.

    Raises:
        ValueError: it is no JSON, or not modest.
        RecursionError: it is nested too deep.

    """
    require_modest(text)
    return json.loads(text, parse_constant=parse_constant)


def require_modest(text: bytes | str) -> None:
    """Return if what is made of a document is no more than its bytes lead to expect.

    Raises:
        ValueError: it is.

    """
    count = text.count if isinstance(text, str) else lambda sign: text.count(sign.encode())
    if len(text) * _BYTES_PER_CHARACTER + sum(count(sign) * takes for sign, takes in _TAKES.items()) > _MAX_MEMORY:
        raise ValueError("it has more values than etc or Hudi write in so many bytes")
