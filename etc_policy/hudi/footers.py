"""The footers of Parquet files: no row is read. Needs pyarrow."""

from __future__ import annotations

import importlib.util
from typing import Any

from etc_policy.storage.port import TableReader


def can_read_parquet() -> bool:
    """Whether pyarrow is installed."""
    return importlib.util.find_spec("pyarrow") is not None


def read_footer(storage: TableReader, path: str) -> Any | None:
    """The footer of a file; None without pyarrow, or where it cannot be read."""
    if not can_read_parquet():
        return None
    import pyarrow
    from pyarrow import parquet

    try:
        with storage.open(path) as opened:
            return parquet.ParquetFile(opened).metadata
    except (pyarrow.ArrowException, OSError):
        return None
