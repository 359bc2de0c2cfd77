"""Which base files both views read alike, so that their rows need not be compared: from the verifier's own listing alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from etc_policy.plan.table_state import FileSlice, TableState

#: Of the bytes of base files: where less than this is alike, comparing everything at once costs less.
LEAST_SHARE = 0.5


def spared_files(state: TableState, pin: str | None) -> frozenset[str]:
    """The files that both views read alike, where to leave them out of a comparison pays."""
    found = same_files(state, pin)
    alike_bytes = sum(one.base_file_bytes for one in state.slices if one.base_file in found)
    return found if alike_bytes >= LEAST_SHARE * sum(one.base_file_bytes for one in state.slices) else frozenset()


def same_files(state: TableState, pin: str | None) -> frozenset[str]:
    """Names of the base files that are all there is of their file group, as of the pinned instant and now.

    RT is the base file of a file group merged with its log files; where there is no log file it is the base file, which is
    RO. A name that another file group has too, with log files, is not among them, as a row says no more than the file's name.
    """
    completions = {instant.requested: instant.completed for instant in state.instants}
    alike, others = set[str](), set[str]()
    for one in state.slices:
        if one.base_file is not None:
            (alike if _is_alike(one, state.last_completed, pin, completions) else others).add(one.base_file)
    return frozenset(alike - others)


def other_partitions(state: TableState, same: Collection[str]) -> frozenset[str]:
    """Paths of the partitions that have file groups beside those of which the given files are all there is."""
    return frozenset(one.partition for one in state.slices if one.base_file is None or one.base_file not in same)


def _is_alike(
    one: FileSlice, last_completed: str | None, pin: str | None, completions: Mapping[str, str | None]
) -> bool:
    if one.log_files:
        return False
    if pin is None or pin == last_completed:
        return True
    # Commits of the archive completed before any that is incomplete, and so before the pin.
    completed = completions.get(one.base_instant, one.base_instant)
    return one.base_instant <= pin and completed is not None and completed <= pin
