import pytest

from etc_policy.policy.manifest import Sample, Verify
from etc_policy.verify.compared_rows import choose_file_groups, seed_of
from tests.unit.plan.plan_cases import state_of


def table(count):
    return state_of("/t", {"slices": {f"p/f{number}": {"base": "08:00:00"} for number in range(count)}})


def chosen(count, share, seed, now_ms=0):
    return choose_file_groups(table(count), Verify(sample=Sample(share=share, seed=seed)), now_ms)


@pytest.mark.parametrize(
    ("count", "share", "size"), [(100, 0.1, 10), (101, 0.1, 11), (3, 0.1, 1), (3, 1, 3), (0, 0.5, 0)]
)
def test_the_share_is_rounded_up_to_one_group_at_least(count, share, size):
    assert len(chosen(count, share, 1)) == size


def test_a_seed_chooses_the_same_groups_and_another_one_others():
    assert chosen(100, 0.1, 1) == chosen(100, 0.1, 1, now_ms=5)
    assert len({chosen(100, 0.1, seed) for seed in range(20)}) == 20


def test_without_a_seed_the_moment_chooses_and_is_told():
    unseeded = Verify(sample=Sample(share=0.1))
    assert seed_of(unseeded, 5) == seed_of(Verify(), 5) == 5
    assert choose_file_groups(table(100), unseeded, 5) == chosen(100, 0.1, 5)
    assert choose_file_groups(table(100), Verify(), 5) == chosen(100, 0.1, 5)
    assert seed_of(Verify(sample=Sample(seed=0)), 5) == 0


def test_groups_that_come_leave_the_others_where_they_are():
    """Of the ten chosen before, those of the new choice are the same, less those that a new group displaced."""
    before, after = chosen(100, 0.1, 3), chosen(110, 0.1, 3)
    new = {f"f{number}" for number in range(100, 110)}
    assert len(after) == 11
    assert len(before & after) >= 10 - len(after & new)
