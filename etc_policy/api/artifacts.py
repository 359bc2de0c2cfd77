"""The files that etc writes: those of the target folder, and those that the user names."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from etc_policy import __version__
from etc_policy.errors import EngineError, EtcError, Issue
from etc_policy.errors.codes import Code
from etc_policy.policy.bounded_json import MAX_JSON_BYTES, load_json
from etc_policy.storage import files

#: So many files of ten thousand policies are there; each that is gone is removed by itself.
_MOST_LISTED = 200_000
#: As much as the record of a run over some tables takes.
_PROBE_BYTES = 65_536


def write_text(folder: Path, name: str, text: str, option: str = "--target-dir") -> None:
    """Write etc's own file `name` below a folder that `option` names; no link below the folder is followed.

    It is written in one step: a reader sees the old text or the new one. An equal file is left as it is.

    Raises:
        EngineError: the file or its folder cannot be written.

    """
    with _writing(folder / name, option):
        files.write_below(folder, name, _encoded(text))


def keep_copy(folder: Path, name: str, text: str, warn: Callable[[Issue], None]) -> tuple[EtcError, ...]:
    """Write etc's own file of what is printed too; what went wrong. That this user may not write there is a warning."""
    try:
        write_text(folder, name, text)
    except EngineError as error:
        if not isinstance(error.__cause__, OSError) or error.__cause__.errno not in (
            errno.EACCES,
            errno.EPERM,
            errno.EROFS,
        ):
            return (error,)
        warn(Issue(error.code, f"{error.message}: what is printed here is not kept", hint=error.hint, level="warning"))
    return ()


def require_writable(folder: Path, below: str) -> None:
    """Return if files can be written in etc's own folder `below` a folder; none is left.

    Raises:
        EngineError: none can.

    """
    probe = f"{below}/.try.{os.getpid()}"
    with _writing(folder / below, "--target-dir"):
        files.write_below(folder, probe, b" " * _PROBE_BYTES)
        files.remove_below(folder, probe)


def create_text(folder: Path, name: str, text: str, option: str) -> None:
    """Write a new file `name` below a folder that `option` names; no link below the folder is followed.

    Raises:
        EngineError: the file or its folder cannot be written, or there is something of its name.

    """
    with _writing(folder / name, option):
        files.create_below(folder, name, _encoded(text))


def remove_file(folder: Path, name: str, option: str) -> None:
    """Remove etc's own file `name` below a folder that `option` names; one that is missing is no error.

    Raises:
        EngineError: it cannot be removed.

    """
    with _writing(folder / name, option):
        files.remove_below(folder, name)


def read_text(folder: Path, name: str) -> str:
    """The text of etc's own file `name` below a folder: a regular file, not a link, of a bounded size.

    Raises:
        OSError: it cannot be read; FileNotFoundError where it is missing.
        UnicodeDecodeError: it is not UTF-8.

    """
    return files.read_below(folder, name, MAX_JSON_BYTES).decode("utf-8")


def write_named(path: Path, text: str, option: str) -> None:
    """Write the file that the user named by `option`, in one step where it is a regular file or a link to one.

    Raises:
        EngineError: the file or its folder cannot be written.

    """
    with _writing(path, option):
        files.write_named(path, _encoded(text))


def append_named(path: Path, text: str, option: str) -> None:
    """Add to the end of the file that the user named by `option`.

    Raises:
        EngineError: the file or its folder cannot be written.

    """
    with _writing(path, option):
        files.append_named(path, _encoded(text))


def write_listed(
    folder: Path,
    listing: str,
    texts: Mapping[str, str],
    is_own: Callable[[str], object],
    *,
    kept: Collection[str] = (),
    option: str = "--target-dir",
) -> None:
    """Write the files and the list of them, and remove those of the earlier list that are in neither `texts` nor `kept`.

    Only what `is_own` is removed: somebody else may have written the list.

    Raises:
        EngineError: a file cannot be written or removed.

    """
    before = {name for name in _listed(folder, listing) if is_own(name)}
    for name, text in texts.items():
        write_text(folder, name, text, option)
    for name in before - texts.keys() - set(kept):
        remove_file(folder, name, option)
    listed = sorted(texts.keys() | (before & set(kept)))
    content = {"schema_version": 1, "etc_version": __version__, "files": listed}
    write_text(folder, listing, json.dumps(content, indent=1) + "\n", option)


def _listed(folder: Path, listing: str) -> set[str]:
    """The files in a list; empty without one, or where it is not etc's own."""
    try:
        return {name for name in load_json(read_text(folder, listing))["files"][:_MOST_LISTED] if isinstance(name, str)}
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return set()


def _encoded(text: str) -> bytes:
    """The text as UTF-8; what is not a character (the rest of a file name that is not UTF-8) as JSON escapes it."""
    return text.encode("utf-8", "backslashreplace")


@contextmanager
def _writing(path: Path, option: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # a ValueError for a path that no file can have
        hint = f"name another place by `{option}`"
        raise EngineError(Code.CANNOT_WRITE, f"cannot write `{path}`", hint=hint, cause=str(error)) from error
