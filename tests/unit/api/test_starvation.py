"""What ends refusals by writers that never pause is said at the first one, and fits what the policy declares already."""

from dataclasses import replace
from pathlib import Path

import pytest

from etc_policy.api.attempts import is_held_up
from etc_policy.api.starvation import with_remedy
from etc_policy.plan.between_writes import ends_refusals
from etc_policy.plan.builder import build_table_plan
from etc_policy.policy.hudi_options import FILE_PROVIDER, PROVIDER
from etc_policy.policy.manifest import Writer
from etc_policy.table.apply_state import Refusals
from etc_policy.table.state import Instant
from tests.unit.plan.plan_cases import instant, plan_of_case
from tests.unit.plan.states import NOW, POLICY, STATE

BETWEEN = (
    "a run waits for the end of a write, and keeps the next one out until it has committed, for `writer.hold` at most"
)
DECLARE = f"or declare the lock file of its writers as `writer.lock`: then {BETWEEN}"
LONGER = (
    "or set `writer.lock_wait` (1m) longer than the longest batch of its writers, and `writer.hold` (30s) longer than the "
    "compaction of one file slice: that is how long a run waits for the end of a write, and keeps the next one out"
)
OTHER = (
    "or give its writers, and `writer.lock`, the lock file of FileSystemBasedLockProvider, as a run cannot hold a lock of "
    f"ZookeeperBasedLockProvider: with one {BETWEEN}"
)
AGAIN = (
    "plan again when the writer has committed. If its write has failed, end or restart its process: until then Hudi keeps the "
    "heartbeat of a failed write fresh, and nobody can know"
)
GOLDEN = Path(__file__).parents[2] / "golden"
PACKAGE = FILE_PROVIDER.rpartition(".")[0]
BY = {
    name: {PROVIDER: f"{PACKAGE}.{name}"}
    for name in ("FileSystemBasedLockProvider", "ZookeeperBasedLockProvider", "InProcessLockProvider")
}
FILE = BY["FileSystemBasedLockProvider"]


@pytest.mark.parametrize(
    ("writer", "version", "base_path", "words"),
    [
        (Writer(), 9, "/t", DECLARE),
        (Writer(lock=BY["InProcessLockProvider"]), 8, "/t", DECLARE),
        (Writer(lock=BY["ZookeeperBasedLockProvider"]), 9, "/t", OTHER),
        (
            Writer(lock=FILE, hold_ms=0),
            9,
            "/t",
            f"or set `writer.hold`, which is 0s, to how long its writers may wait: then {BETWEEN}",
        ),
        (Writer(lock=FILE), 9, "/t", LONGER),
        (Writer(), 6, "/t", None),
        (Writer(), 9, "s3://bucket/t", None),
    ],
)
def test_what_ends_refusals(writer, version, base_path, words):
    assert ends_refusals(POLICY.model_copy(update={"writer": writer}), version, base_path) == words


def refused(**pending):
    """The plan of a table that waits for something which is pending."""
    state = replace(STATE, **pending)
    return build_table_plan(POLICY, state, now_ms=NOW, clock_ms=NOW)


BEGAN = Instant(instant("10:04:00"), "deltacommit", "requested")
BESIDE_A_WRITER = {"instants": (*STATE.instants, BEGAN), "living_writers": frozenset({BEGAN.requested})}
CLUSTERING = {"instants": (*STATE.instants, Instant(instant("11:59:00"), "clustering", "requested"))}


def test_the_first_refusal_names_it_where_users_look():
    (hint,) = with_remedy(POLICY, refused(**BESIDE_A_WRITER), None).hints
    assert hint == f"{AGAIN}; {DECLARE}"


def test_so_does_that_of_an_exact_plan_which_writers_leave_too_little():
    (table,) = plan_of_case(GOLDEN / "refusals" / "not_exact.yml").tables
    assert table.reason_code == "not_exact"
    (hint,) = with_remedy(POLICY, table, None).hints
    assert hint.endswith(DECLARE)


@pytest.mark.parametrize("case", ["refusals/not_exact.yml", "plans/writer_in_flight_before_the_cut"])
def test_a_moment_between_two_writes_ends_either(case):
    (table,) = plan_of_case(GOLDEN / case).tables
    assert (table.action, is_held_up(table)) == ("refused", True)


def test_the_third_says_how_often_too():
    hint, other = with_remedy(POLICY, refused(**BESIDE_A_WRITER), Refusals(2, "noon")).hints
    assert hint == (
        "refused 3 times in a row, since noon: a writer is in flight whenever etc looks: run `etc apply` in the writer's job, "
        f"between two batches; {DECLARE}"
    )
    assert other == AGAIN


def test_no_declaration_ends_refusals_by_services():
    (hint,) = with_remedy(POLICY, refused(**CLUSTERING), None).hints
    assert DECLARE not in hint
