"""The footers of Parquet files: no row is read. Needs pyarrow."""

from __future__ import annotations

import importlib.util
import os
import struct
from typing import Any

from etc_policy.storage.port import TableReader

#: How a file ends: the length of its footer, and these bytes where that is encrypted.
_TAIL, _ENCRYPTED = struct.Struct("<i4s"), b"PARE"


class EncryptedParquetError(OSError):
    """A Parquet file that is encrypted, in whole or in some columns."""


def can_read_parquet() -> bool:
    """Whether pyarrow is installed."""
    return importlib.util.find_spec("pyarrow") is not None


def read_footer(storage: TableReader, path: str) -> Any | None:
    """The footer of a file; None without pyarrow, or where it cannot be read, as that of an encrypted file."""
    if not can_read_parquet():
        return None
    import pyarrow

    try:
        with storage.open(path) as opened:
            return open_parquet(opened).metadata
    except (pyarrow.ArrowException, OSError):
        return None


def is_encrypted(storage: TableReader, path: str) -> bool:
    """Whether a file is encrypted; without pyarrow only a footer that is encrypted too shows it.

    Raises:
        OSError: the file cannot be read.

    """
    with storage.open(path) as opened:
        if _tail(opened)[1] == _ENCRYPTED or not can_read_parquet():
            return _tail(opened)[1] == _ENCRYPTED
        import pyarrow

        try:
            open_parquet(opened)
        except EncryptedParquetError:
            return True
        except (pyarrow.ArrowException, OSError):  # it is no Parquet file
            return False
        return False


def open_parquet(stream: Any, **options: Any) -> Any:
    """A Parquet file by pyarrow, which ends the process where somebody asks for a column that is encrypted.

    A plain footer of such a file is signed: the signature is beyond what of the footer is read (facts: encrypted-footers).

    Raises:
        EncryptedParquetError: it is encrypted.
        OSError: it is no Parquet file, as pyarrow says it, or cannot be read.

    """
    from pyarrow import parquet

    length, magic = _tail(stream)
    if magic == _ENCRYPTED:
        raise EncryptedParquetError("the footer is encrypted")
    opened = parquet.ParquetFile(stream, **options)
    if opened.metadata.serialized_size != length:
        raise EncryptedParquetError("columns are encrypted")
    return opened


def _tail(stream: Any) -> tuple[int, bytes]:
    """The length of the footer and the last bytes; nothing of a file that is shorter."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - _TAIL.size))
    tail = stream.read(_TAIL.size)
    stream.seek(0)
    return _TAIL.unpack(tail) if len(tail) == _TAIL.size else (0, b"")
