"""Files of the target folder, each written in one step."""

from __future__ import annotations

import os
from pathlib import Path

from etc_policy.codes.registry import Code
from etc_policy.errors import EngineError


def write_text(path: Path, text: str, option: str = "--target-dir") -> None:
    """Writes the file in one step: a reader sees the old text or the new one; an equal file is left as it is.

    `option` is the one that names another place.

    Raises:
        EngineError: the file or its folder cannot be written.

    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    data = text.encode("utf-8")
    try:
        if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(data)
        draft.replace(path)
    except OSError as error:
        hint = f"name another place by `{option}`"
        raise EngineError(Code.CANNOT_WRITE, f"cannot write `{path}`", hint=hint, cause=str(error)) from error
