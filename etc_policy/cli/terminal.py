"""The one place where something is printed: text is cleaned here, data stays what it is.

What cannot be written to standard error is lost, as there is no other place to say so. What cannot be written to standard
output is an OSError, but for a reader that has gone: the command goes on, and its exit code is that of what it did.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable
from contextlib import suppress

import click

from etc_policy.errors.plain_text import clean, clean_json

#: A full disk: a process that goes on for weeks may write there again.
_MAY_PASS = (errno.ENOSPC, errno.EDQUOT)
_STREAMS = (("stdin", os.O_RDONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY))


def print_text(
    text: str = "", *, err: bool = False, paint: Callable[[str], str] | None = None, newline: bool = True
) -> None:
    """Print text for people; `paint` adds colours once it is clean."""
    shown = clean(text) + "\n" * newline
    _write(paint(shown) if paint else shown, err=err)


def print_json(text: str, *, err: bool = False) -> None:
    """Print JSON: its values are exact, and no terminal obeys it."""
    _write(f"{clean_json(text)}\n", err=err)


def print_data(text: str, *, err: bool = False) -> None:
    """Print text that a program reads, such as options of writers: exact, but clean where a person looks at a terminal."""
    is_seen = (sys.stderr if err else sys.stdout).isatty()
    _write(clean(text) if is_seen else text.encode("utf-8", "backslashreplace").decode(), err=err)


def _write(text: str, *, err: bool) -> None:
    if not err:
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except BrokenPipeError:
            _discard(1)  # the reader wants no more, which is no error of the command
        return
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError as error:
        if error.errno not in _MAY_PASS:
            _discard(2)


def end_messages() -> None:
    """Let what could not be written to standard error go: Python would end with a code of its own."""
    try:
        sys.stderr.flush()
    except OSError:
        _discard(2)


def prepare_streams() -> None:
    """Open what whoever started `etc` has closed, so that no file takes its place; then let streams escape what they lack.

    Standard output is opened so that writing to it fails: its data would be lost.
    """
    for number, (name, flags) in enumerate(_STREAMS):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, flags)
            os.set_inheritable(os.dup2(handle, number), True)
            if handle != number:
                os.close(handle)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def is_lost_output(error: OSError) -> bool:
    """Whether the error is that standard output cannot be written; what is still to be written there is discarded then."""
    from traceback import walk_tb

    *_, (frame, _line) = walk_tb(error.__traceback__)
    is_lost = frame.f_code in (_write.__code__, click.echo.__code__)
    try:
        sys.stdout.flush()  # what was not printed at once is kept, and fails again
    except OSError:
        is_lost = True
    if is_lost:
        _discard(1)
    return is_lost


def _discard(number: int) -> None:
    """Let what is written to a stream go nowhere: Python writes at its end what could not be written before."""
    with suppress(OSError):
        handle = os.open(os.devnull, os.O_WRONLY)
        os.dup2(handle, number)
        os.close(handle)
