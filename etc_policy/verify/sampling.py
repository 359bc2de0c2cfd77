"""Which file groups a sample reads: whole ones, chosen by a seed, the same for the same table and seed."""

from __future__ import annotations

import math
from hashlib import sha256

from etc_policy.compile.manifest import Sample, Verify
from etc_policy.plan.table_state import TableState


def seed_of(verify: Verify, now_ms: int) -> int:
    """The policy's seed, else one that differs from check to check and is named in the result."""
    return verify.sample.seed if verify.sample is not None and verify.sample.seed is not None else now_ms


def choose_file_groups(state: TableState, verify: Verify, now_ms: int) -> frozenset[str]:
    """The file ids of the chosen share of the file groups; one at least, if there are any.

    Each group's place depends on the seed and its own id alone: groups that come or go leave the others where they are.
    """
    ids = {file_slice.file_id for file_slice in state.slices}
    seed = seed_of(verify, now_ms)
    ordered = sorted(ids, key=lambda file_id: sha256(f"{seed}/{file_id}".encode()).digest())
    share = (verify.sample or Sample()).share
    return frozenset(ordered[: max(1, math.ceil(share * len(ordered)))])
