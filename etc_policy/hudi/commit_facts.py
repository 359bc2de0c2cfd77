"""What completed commits say, kept on this machine: a commit never changes, so its file is decoded once in its life.

Nothing is believed of a file but for the very version that was decoded, and the timeline is always listed anew: a commit that
was rolled back is on no listing. Python's own form is kept, in the user's own folder: nothing reads a table's facts as fast.
"""

from __future__ import annotations

import marshal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from typing import Any

from etc_policy import __version__
from etc_policy.hudi.commits import CommitMetadata, WriteStats
from etc_policy.policy.manifest import digest
from etc_policy.storage.object_cache import ObjectCache
from etc_policy.storage.port import TableReader

#: Raised when the same bytes may be decoded to something else: what was kept before is then ignored.
FORM = 2

_COLUMNS = tuple(field.name for field in fields(WriteStats))
#: Version, columns, and the fields of a commit that follow its stats.
_Packed = tuple[str, tuple[Any, ...], dict[str, str], str | None, frozenset[tuple[str, str]], str, int]


class CommitFacts:
    """Decoded commits by the names of their files; here nothing is kept."""

    def find(self, folder: str) -> None:
        """Begin a reading of the timeline in this folder: what is known of the files as they are there now."""

    def get(self, name: str) -> CommitMetadata | None:
        """What a file of the version that it has now was decoded to; None where that is not known."""
        return None

    def put(self, name: str, commit: CommitMetadata) -> None:
        """Keep what a file was decoded to."""

    def save(self) -> None:
        """Keep all of it for the next command."""


class KeptFacts(CommitFacts):
    """The facts of one table in the user's folder; what cannot be read there, or is not whole, is not there."""

    def __init__(self, cache: ObjectCache, storage: TableReader, properties: Mapping[str, str]) -> None:
        made_by = (FORM, __version__, sys.implementation.cache_tag, marshal.version)
        self._storage, self._cache = storage, cache
        self._key = digest({"table": [storage.location, dict(properties)], "made_by": [*map(str, made_by)]})
        self._versions: Mapping[str, str] = {}
        self._kept: dict[str, _Packed] = {}
        self._changed = False
        self._texts: dict[str, str] = {}

    def find(self, folder: str) -> None:
        """Read what was kept, and forget files that are gone or that have changed."""
        kept, now = self._kept or _unpacked(self._cache.get(self._key)), self._storage.versions(folder)
        self._versions = now
        self._kept = {name: one for name, one in kept.items() if now.get(name) == one[0]}
        self._changed = len(self._kept) < len(kept)

    def get(self, name: str) -> CommitMetadata | None:
        """A commit as it was decoded."""
        packed = self._kept.get(name)
        return CommitMetadata(WriteStats(*packed[1]), *packed[2:]) if packed else None

    def put(self, name: str, commit: CommitMetadata) -> None:
        """Keep a commit whose file has a version."""
        version = self._versions.get(name)
        if version is not None:
            columns = tuple(getattr(commit.stats, column) for column in _COLUMNS)
            rest = (
                self._shared(commit.extra),
                commit.operation,
                commit.replaced,
                commit.plain_instant,
                commit.latest_event_ms,
            )
            self._kept[name] = (version, columns, *rest)
            self._changed = True

    def save(self) -> None:
        """Write what has changed."""
        if self._changed:
            self._cache.put(self._key, marshal.dumps(self._kept))
            self._changed = False

    def _shared(self, extra: Mapping[str, str]) -> dict[str, str]:
        """The same pairs, a text that all commits carry, such as the table's schema, kept once."""
        return {self._one(key): self._one(value) for key, value in extra.items()}

    def _one(self, text: str) -> str:
        return self._texts.setdefault(text, text)


def _unpacked(content: bytes | None) -> dict[str, _Packed]:
    if content is not None:
        with suppress(EOFError, ValueError, TypeError):  # another Python's, whatever its key says
            kept = marshal.loads(content)  # noqa: S302 - the digest before it says that it is ours
            if isinstance(kept, dict):
                return kept
    return {}
