"""Paths on the command line."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import click


class PlaceType(click.Path):
    """A path that can be; an empty one, mostly a variable that is not set, is an error and not the current folder."""

    def __init__(self, **keywords: Any) -> None:  # noqa: ANN401 - click's own
        super().__init__(path_type=Path, **keywords)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - click's own
        """The path."""
        text = os.fspath(value)
        if not text:
            self.fail("the path is empty", param, ctx)
        if "\0" in text:
            self.fail("no path has a NUL in it", param, ctx)
        if _is_too_long(text):
            self.fail("the path is too long", param, ctx)
        return super().convert(value, param, ctx)


def _is_too_long(text: str) -> bool:
    try:
        Path(text).stat()
    except OSError as error:
        return error.errno == errno.ENAMETOOLONG
    return False


#: A file, a folder, and either of them.
FILE, FOLDER, PLACE = PlaceType(dir_okay=False), PlaceType(file_okay=False), PlaceType()
