"""Files that somebody names on the command line: a plan, an earlier manifest."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

#: A plan of some 300,000 file slices.
MAX_BYTES = 256 * 1024 * 1024


def read_given(path: Path) -> bytes:
    """The bytes of a file or a pipe.

    Raises:
        OSError: it cannot be read, has no end (a device), or is too big for what it should be.

    """
    kind = path.stat().st_mode
    if stat.S_ISCHR(kind) or stat.S_ISBLK(kind):
        raise OSError(errno.EINVAL, "this is a device")
    with path.open("rb") as stream:
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return data
