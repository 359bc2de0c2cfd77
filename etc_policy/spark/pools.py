"""Jobs of tables that are worked on side by side share Spark's cores fairly: each table's are in a pool of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

#: A setting of the session: without it the first table's jobs take every core.
FAIR: Mapping[str, str] = {"spark.scheduler.mode": "FAIR"}
_POOL = "spark.scheduler.pool"


class _Here(threading.local):
    """What a thread has chosen."""

    pool: str | None = None


_HERE = _Here()


@contextmanager
def own_pool(name: str) -> Iterator[None]:
    """What this thread asks Spark for meanwhile, by a session that `in_pool` has returned, runs in the pool of that name."""
    _HERE.pool = name
    try:
        yield
    finally:
        _HERE.pool = None


def in_pool(session: Any) -> Any:
    """The session, whose jobs of this thread are in the pool that it has chosen. PySpark gives each thread one of Java's."""
    if _HERE.pool is not None:
        with suppress(Exception):  # its Java has died: what is asked next says so
            session.sparkContext.setLocalProperty(_POOL, _HERE.pool)
    return session
