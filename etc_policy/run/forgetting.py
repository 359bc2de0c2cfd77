"""Removes the files that etc keeps in a table's own folder, where no run of etc is at work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from etc_policy.errors import EngineError
from etc_policy.errors.codes import Code
from etc_policy.hudi.layout import ETC_FOLDER, METADATA_NOTE
from etc_policy.run.ports import Lease
from etc_policy.storage.open_storage import open_reader, open_storage
from etc_policy.table.state import TableState

#: They are the leases: removed last, when the own one was given back.
_LEASES = ("apply.lease", "java.lease", "lease.json")


@dataclass(frozen=True, slots=True)
class Forgetter:
    """`lease` makes the lease of the table at a base path."""

    lease: Callable[[str], Lease]

    def kept(self, base_path: str) -> Mapping[str, int]:
        """The size in bytes of each file of etc in the table, by its path there."""
        storage = open_reader(base_path)
        try:
            paths = sorted(storage.below(ETC_FOLDER))
        except FileNotFoundError:
            return {}
        return {path: found.size_bytes for path in paths if (found := storage.info(path)) is not None}

    def forget(self, base_path: str, read_state: Callable[[], TableState]) -> None:
        """Remove them all; the table's state is read while no run can begin, as one may have died since they were shown.

        Raises:
            EngineError: a run has left something that they are needed for.
            RetryableError: a run is at work.

        """
        if not self.kept(base_path):
            return
        storage = open_storage(base_path)
        with self.lease(base_path):
            kept = self.kept(base_path)
            _require_ended(read_state(), kept)
            for path in kept:
                if PurePosixPath(path).name not in _LEASES:
                    storage.remove(path)
        storage.remove_tree(ETC_FOLDER)  # a run that has begun since finds its lease gone, and commits nothing


def _require_ended(state: TableState, kept: Mapping[str, int]) -> None:
    if state.own_pending is not None:
        hint = "`etc apply` finishes it, `etc undo` withdraws it; then run this again"
        raise EngineError(Code.CANNOT_FORGET, f"the plan of etc at {state.own_pending} is pending", hint=hint)
    if METADATA_NOTE in kept:
        message = "a run that died owes the table its metadata table, and only these files say what was in it"
        raise EngineError(Code.CANNOT_FORGET, message, hint="`etc apply` builds it again; then run this again")
