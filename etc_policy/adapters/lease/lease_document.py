"""What a lease on an object store or HDFS says: who has it, for how long, and which run it is for."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from uuid import uuid4

from etc_policy.adapters.lease.lock_holder import Owner

#: No lease of etc is longer: another document does not hold the table for ever.
MAX_VALID_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class LeaseDocument:
    """A lease as it was written at one moment. `nonce` makes each body another one: stores compare hashes of them.

    It holds for `valid_seconds` from when the store has noted that it was written. `inflight` is when the inflight file of
    the run of `instant` was made; until then, that of the dead run before it. `ended` says that the run did not die,
    `released` that nobody has the lease.
    """

    owner: Owner
    valid_seconds: float
    instant: str = ""
    inflight: str = ""
    ended: bool = False
    released: bool = False
    nonce: str = field(default_factory=lambda: uuid4().hex)

    def renewed(self, **changed: Any) -> LeaseDocument:  # noqa: ANN401 - fields of its own
        """The same lease for another while, with these changes."""
        return replace(self, **changed, nonce=uuid4().hex)

    def as_bytes(self) -> bytes:
        """The document as JSON."""
        return json.dumps(asdict(self)).encode()


def read_document(content: bytes) -> LeaseDocument | None:
    """The document of these bytes; None where they are none that etc writes."""
    try:
        found = json.loads(content)
        document = LeaseDocument(**{**found, "owner": Owner(**found["owner"])})
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    texts = (document.instant, document.inflight, document.nonce)
    is_sound = all(isinstance(text, str) for text in texts) and isinstance(document.valid_seconds, int | float)
    is_sound = is_sound and document.owner.is_sound
    return document if is_sound and 0 < document.valid_seconds <= MAX_VALID_SECONDS else None
