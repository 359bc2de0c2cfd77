"""Files that somebody names on the command line: a plan, an earlier manifest."""

from __future__ import annotations

import errno
import os
import select
import stat
from pathlib import Path

#: A plan of some 300,000 file slices.
MAX_BYTES = 256 * 1024 * 1024
#: How long a pipe that lies in a folder may be silent: perhaps nobody is ever going to write to it.
PIPE_WAIT_SECONDS = 10.0
#: What the process was started with has a writer.
_OWN = ("/dev/", "/proc/")


def read_given(path: Path) -> bytes:
    """The bytes of a file or a pipe.

    Raises:
        OSError: it cannot be read, has no end (a device) or no writer (a pipe), or is too big for what it should be.

    """
    kind = path.stat().st_mode
    if stat.S_ISCHR(kind) or stat.S_ISBLK(kind):
        raise OSError(errno.EINVAL, "this is a device")
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
        if stat.S_ISFIFO(kind) and not str(path).startswith(_OWN):
            _wait_for_writer(stream.fileno())
        os.set_blocking(stream.fileno(), True)
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return data


def _wait_for_writer(pipe: int) -> None:
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    if not poll.poll(PIPE_WAIT_SECONDS * 1000):
        raise OSError(errno.ETIMEDOUT, f"nobody has written to this pipe for {PIPE_WAIT_SECONDS:.0f} s")
