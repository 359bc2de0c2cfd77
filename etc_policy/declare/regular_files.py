"""Opens files that somebody else may have put there: only regular ones, and no more of them than is asked for."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

#: Files of the target folder are smaller: a run over thousands of tables.
MAX_BYTES = 64 << 20
#: A pipe would block whoever opens it until somebody writes to it.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


def open_regular(path: str | Path) -> BinaryIO:
    """A regular file, opened without waiting for anybody.

    Raises:
        OSError: it is a pipe, a device or a folder, or cannot be opened.

    """
    handle = os.open(path, _READ)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "this is not a regular file", str(path))
    return os.fdopen(handle, "rb")


def read_regular(path: str | Path, max_bytes: int = MAX_BYTES) -> bytes:
    """A regular file's content; one that is larger is not read at all.

    Raises:
        OSError: as for `open_regular`, or it is larger.

    """
    with open_regular(path) as opened:
        if os.fstat(opened.fileno()).st_size <= max_bytes:
            content = opened.read(max_bytes + 1)
            if len(content) <= max_bytes:
                return content
    raise OSError(errno.EFBIG, f"the file is larger than the {max_bytes:,} bytes that are read", str(path))
