"""`etc cache`: what etc keeps in the user's home."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import click

from etc_policy.cli.messages import message_options, show_note
from etc_policy.cli.options import examples, output_option
from etc_policy.cli.printing import say, text_width
from etc_policy.cli.terminal import print_json
from etc_policy.errors import EngineError
from etc_policy.errors.codes import Code
from etc_policy.storage.object_cache import KeptFiles, cache_folder, clear, kept_in
from etc_policy.table.formats import count_of, format_bytes, labelled


@click.command("cache", epilog=examples("etc cache", "etc cache clear"))
@click.argument("action", type=click.Choice(["show", "clear"]), default="show")
@output_option
@message_options
def command(action: Literal["show", "clear"], output: str) -> None:
    """What etc keeps in your home, and how to clear it.

    Nothing there is needed: what was cleared is read, or made, again. Other files in the folder stay.
    """
    folder = cache_folder(os.environ)
    if folder is None:
        show_note("nothing is kept: `ETC_CACHE` is `off`, or there is no home")
    kept = kept_in(folder) if folder else ()
    if output == "json":
        parts = [{"what": one.what, "files": len(one.files), "bytes": one.size_bytes} for one in kept]
        print_json(json.dumps({"schema_version": 1, "folder": folder and str(folder), "kept": parts}, indent=2))
    elif folder:
        say("\n".join(_lines(folder, kept)))
    if action == "clear":
        _clear(kept)


def _lines(folder: Path, kept: Sequence[KeptFiles]) -> Iterator[str]:
    yield str(folder)
    for one in kept:
        limit = f", at most {format_bytes(one.limit_bytes)}" if one.limit_bytes else ""
        text = f"{count_of(len(one.files), 'file')}: {one.what}{limit}"
        yield labelled(format_bytes(one.size_bytes), text, text_width())


def _clear(kept: Sequence[KeptFiles]) -> None:
    try:
        for one in kept:
            clear(one)
    except OSError as error:
        hint = "let this user remove the file, or remove the folder yourself"
        message = f"cannot remove `{error.filename}`"
        raise EngineError(Code.CANNOT_WRITE, message, hint=hint, cause=error.strerror) from error
    show_note(f"removed {count_of(sum(len(one.files) for one in kept), 'file')}")
