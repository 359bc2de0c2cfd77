"""A proof of rows that rests on earlier ones: what was compared is kept beside a table, and believed by the next."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

from etc_policy.gx.verifier import GxVerifier
from etc_policy.hudi.apply_state import FileApplyStateStore
from etc_policy.hudi.times_cache import file_versions
from etc_policy.policy.manifest import Policy
from etc_policy.storage import local
from etc_policy.storage.open_storage import open_reader
from etc_policy.table.apply_state import ComparedFiles
from etc_policy.table.proofs import compared_subject, last_write
from etc_policy.table.state import TableState
from etc_policy.verify.compared_rows import closed_partitions, listed_files, pin_of
from etc_policy.verify.evidence import Evidence, Listing
from etc_policy.wiring import clock_ms


def listing_of(state: TableState) -> Listing:
    """What the files of the table are now, as if they had been at rest."""
    with patch.object(local, "_AT_REST_NS", 0):
        versions = file_versions(open_reader(state.base_path), dict.fromkeys(closed_partitions(state, pin_of(state))))
    return Listing(listed_files(state, versions), clock_ms())


def remember(spark, policy: Policy, state: TableState, latest_ms: int | None = None) -> None:
    """Keep beside the table that all its rows were compared, and that nothing was wrong with them."""
    listing = listing_of(state)
    compared = ComparedFiles(
        subject=compared_subject(policy, state, GxVerifier(spark).release),
        full_ms=listing.at_ms,
        last_write=last_write(state),
        latest_ms=latest_ms,
        partitions={name: (files, listing.at_ms) for name, files in listing.files.items()},
    )
    FileApplyStateStore().update(state.base_path, lambda kept: replace(kept, compared_files=compared))


def resting(evidence: Evidence) -> Evidence:
    """The evidence, where a verification may rest on what is kept beside the table."""
    state = replace(evidence.state, apply_state=FileApplyStateStore().read(evidence.state.base_path))
    return replace(evidence, state=state, listing=listing_of(state))
