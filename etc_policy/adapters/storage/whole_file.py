"""A file that is read whole, within a bound."""

from __future__ import annotations

import errno
from typing import BinaryIO


def too_large(max_bytes: int, place: str) -> OSError:
    """The error of a file that is larger than what is read (EFBIG)."""
    return OSError(errno.EFBIG, f"the file is larger than the {max_bytes:,} bytes that are read", place)


def read_at_most(opened: BinaryIO, max_bytes: int, place: str) -> bytes:
    """All of a file.

    Raises:
        OSError: it is larger than `max_bytes` (EFBIG).

    """
    content = opened.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise too_large(max_bytes, place)
    return content
