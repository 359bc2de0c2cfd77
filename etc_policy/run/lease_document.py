"""What a lease says, on disks and on object stores: who has it, which compaction that run carries out, and how it ended."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from uuid import uuid4

from etc_policy.hudi.layout import ETC_FOLDER
from etc_policy.policy.bounded_json import load_json
from etc_policy.run.lock_holder import Owner

#: The leases of a table: on disks, where the kernel keeps it, and on stores. No document of one is longer.
FILE_LEASE, STORE_LEASE, MAX_LEASE_BYTES = f"{ETC_FOLDER}/apply.lease", f"{ETC_FOLDER}/lease.json", 65_536
#: No lease of etc is longer: another document does not hold the table for ever.
MAX_VALID_SECONDS = 600.0
#: A file has its name: what etc has not written may lead elsewhere.
_INSTANT = re.compile("[0-9]{0,17}")


@dataclass(frozen=True, slots=True)
class LeaseDocument:
    """A lease as it was written at one moment. `nonce` makes each body another one: stores compare hashes of them.

    It holds for `valid_seconds` from when its storage has noted that it was written; 0 where the kernel gives it back.
    `found` is when the inflight file was made of the dead run before, empty without one. `made` is when that of this run was:
    None until then, empty where it is missing. `ended` says that the run did not die, `released` that nobody has the lease.
    """

    owner: Owner
    valid_seconds: float = 0.0
    instant: str = ""
    found: str = ""
    made: str | None = None
    ended: bool = False
    released: bool = False
    nonce: str = field(default_factory=lambda: uuid4().hex)

    def renewed(self, **changed: Any) -> LeaseDocument:
        """The same lease for another while, with these changes."""
        return replace(self, **changed, nonce=uuid4().hex)

    def is_of(self, instant: str, inflight_made: str) -> bool:
        """Whether its run was the last one of `instant`, whose inflight file was made then; empty if it is missing."""
        return self.instant == instant and inflight_made in ("", self.found, self.made)

    def as_bytes(self) -> bytes:
        """The document as JSON."""
        return json.dumps(asdict(self)).encode()


def read_document(content: bytes) -> LeaseDocument | None:
    """The document of these bytes; None where etc did not write them."""
    try:
        fields = load_json(content)
        document = LeaseDocument(**{**fields, "owner": Owner(**fields["owner"])})
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    texts = (document.instant, document.found, document.made or "", document.nonce)
    is_sound = all(isinstance(text, str) for text in texts) and isinstance(document.valid_seconds, int | float)
    is_sound = is_sound and document.owner.is_sound and _INSTANT.fullmatch(document.instant) is not None
    return document if is_sound and 0 <= document.valid_seconds <= MAX_VALID_SECONDS else None
