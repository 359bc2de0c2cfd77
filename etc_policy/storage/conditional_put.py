"""Puts that only one of many can win, and whose lost answers do not look like defeat."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

from etc_policy.storage.store_errors import as_store_error, is_unanswered

if TYPE_CHECKING:
    from obstore.store import ObjectStore

#: Between two tries, growing.
_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.1, 2.0

#: The content and the version of an object; None where it is missing.
ReadBack = Callable[[], tuple[bytes, str | None] | None]


def put_if(
    store: ObjectStore,
    key: str,
    content: bytes,
    mode: Any,
    *,
    read_back: ReadBack,
    timeout_seconds: float,
    place: str,
) -> tuple[bool, str | None]:
    """Whether the put won, and the version that it made; `mode` is obstore's, `store` does not try again by itself.

    The store may have kept what it did not answer: whoever needs to know gives contents that nobody else writes.

    Raises:
        StoreUnreachableError: the store did not answer in time; whether it has kept the content is not known.
        StoreRefusedError: it does not let us.

    """
    end, pause, may_be_ours = time.monotonic() + timeout_seconds, _PAUSE_SECONDS, False
    while True:
        try:
            return True, obstore.put(store, key, content, mode=mode, use_multipart=False)["e_tag"]
        except (AlreadyExistsError, PreconditionError, FileNotFoundError) as error:
            if isinstance(error, FileNotFoundError) and "NoSuchBucket" in str(error):
                raise as_store_error(error, place) from error
            failure: Exception = error
            found = read_back()
            if may_be_ours and found is not None and found[0] == content:
                return True, found[1]
            if found is not None or mode != "create":
                return False, None  # else whoever was first has failed
        except (BaseError, OSError) as error:
            if not is_unanswered(error):
                raise as_store_error(error, place) from error
            may_be_ours, failure, found = True, error, read_back()
            if found is not None and found[0] == content:
                return True, found[1]
        if time.monotonic() + pause > end:
            raise as_store_error(failure, place) from failure
        time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - no secret
        pause = min(2 * pause, _MAX_PAUSE_SECONDS)
