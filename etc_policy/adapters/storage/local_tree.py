"""The files of a folder and of those below it; run as a program, it lists them beside other work.

Asking for the size of each file takes about as long as reading what a table's commits say of it. The program needs nothing
but Python itself, so that it starts at once.
"""

from __future__ import annotations

import marshal
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

#: What the program's answer begins with: another program may be where Python is looked for.
_HEAD = b"etc folders\n"
#: Checksums that Hadoop keeps beside each file on local disk.
_CHECKSUM = ".crc"


def list_tree(base: str) -> Iterator[tuple[str, dict[str, int]]]:
    """(path below the base, bytes by file name) of every folder that is not hidden, the base itself with an empty path."""
    folders, followed = [""], set[str]()
    while folders:
        path = folders.pop()
        files: dict[str, int] = {}
        folder = f"{base}/{path}"
        with _open_folder(folder) as number, os.scandir(number) as entries:
            for entry in entries:
                name = entry.name
                if entry.is_file(follow_symlinks=False):
                    if not name.endswith(_CHECKSUM):
                        files[name] = entry.stat(follow_symlinks=False).st_size
                elif _is_folder(entry, folder, base, followed):
                    if not name.startswith("."):
                        folders.append(f"{path}/{name}" if path else name)
                elif entry.is_file() and not name.endswith(_CHECKSUM):
                    files[name] = entry.stat().st_size
        yield path, files


@contextmanager
def _open_folder(path: str) -> Iterator[int]:
    """A folder's number: files are found sooner by it than by their whole paths."""
    number = os.open(path, os.O_RDONLY)
    try:
        yield number
    finally:
        os.close(number)


def _is_folder(entry: os.DirEntry[str], folder: str, base: str, followed: set[str]) -> bool:
    """Hudi follows links to folders; a link to a place in the table itself only shows again what is listed anyway.

    What a link leads to is listed once: links in a circle have paths without end.
    """
    if not entry.is_dir():
        return False
    if not entry.is_symlink():
        return True
    table, target = os.path.realpath(base), os.path.realpath(f"{folder}/{entry.name}")
    if target in followed or os.path.commonpath([table, target]) == table:
        return False
    followed.add(target)
    return True


class LocalTreeLister:
    """Lists a tree once, as a context: in a process of its own, if asked to begin before."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> LocalTreeLister:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            with self._process:
                self._process.kill()

    def begin(self) -> None:
        """Begin now, if this Python can be run as a program: where it is embedded, another program bears its name."""
        name = os.path.basename(sys.executable or "").lower()  # noqa: PTH119
        if self._process is not None or getattr(sys, "frozen", False) or not name.startswith(("python", "pypy")):
            return
        command = [sys.executable, "-I", "-S", f"-Xutf8={sys.flags.utf8_mode}", __file__, self._base]
        with suppress(OSError):
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )

    def read(self) -> Mapping[str, dict[str, int]]:
        """Bytes by file name of each folder.

        Raises:
            OSError: a folder cannot be read.

        """
        if self._process is not None:
            content, _ = self._process.communicate()
            if self._process.returncode == 0 and content.startswith(_HEAD):
                with suppress(EOFError, ValueError, TypeError):  # killed, and nobody could know
                    listed: dict[str, dict[str, int]] = marshal.loads(memoryview(content)[len(_HEAD) :])  # noqa: S302 - it is ours
                    return listed
        return dict(list_tree(self._base))


if __name__ == "__main__":
    sys.stdout.buffer.write(_HEAD + marshal.dumps(dict(list_tree(sys.argv[1]))))
