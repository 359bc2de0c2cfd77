"""Each option of Hudi that a compaction reads has its place on a page, and those of a new release are noticed."""

import pytest

from dev.compaction_options.__main__ import kept, render_compaction_options, treatment
from etc_policy.policy.hudi_options import OPERATION_OPTION
from tests.bundle_classes import bundle

RELEASES = ("1.2.0", "1.1.1", "1.0.2", "0.15.0")


def test_every_option_that_is_read_has_one_place():
    listed = [line.split("`")[1] for line in render_compaction_options().splitlines() if line.startswith("- `")]
    assert sorted(listed) == sorted({option for options in kept()["read"].values() for option in options})


def test_what_nobody_has_judged_has_no_place():
    with pytest.raises(KeyError, match="does it change rows or base files"):
        treatment("hoodie.new.option")
    assert treatment(OPERATION_OPTION) == "logs"


@pytest.mark.extended
def test_every_option_that_a_release_declares_is_listed():
    """A new release declares more: run `python -m dev.compaction_options`, which says which of them a compaction reads."""
    declared = {option for release in RELEASES for option in bundle(release).options()}
    read = {option for release in RELEASES for option in kept()["read"][release]}
    assert declared - read == set(kept()["unread"])
    assert read - declared == {"as.of.instant", "hoodie.avro.schema.external.transformation"}
