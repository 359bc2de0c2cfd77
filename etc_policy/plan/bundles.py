"""Which releases of Hudi's bundle may compact a table: those that were played on one that merges its rows in the same way."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from importlib.resources import files

from etc_policy.plan.split import is_exact
from etc_policy.policy.manifest import Policy
from etc_policy.table.state import TableState

#: The release that compacts where nobody names another and it is right.
DEFAULT_RELEASE = "1.2.0"
#: What `python -m tests.integration.payload_matrix` found: for each way to merge rows what each release makes of them.
RESULTS = "bundle_results.json"
#: What `merging` says of tables that writers before 1.0 have made, and those of 1.0.
OF_HUDI_0, OF_HUDI_1_0 = "of Hudi 0.x", "of Hudi 1.0"
#: The release that leaves the metadata tables of 1.0 as they are.
LAST_OF_HUDI_1_0 = "1.0.2"
RIGHT = "right"
#: How a verdict begins where rows are wrong for all readers; the keys of the played rows follow.
WRONG = "wrong: "
#: Right for the readers of some writers of such tables and not of others, which the tables do not tell apart.
PARTLY = "right but for readers of"


@cache
def results() -> Mapping[str, Mapping[str, str]]:
    """What was found; the ways to merge rows are those of `TableState.merging`."""
    found: Mapping[str, Mapping[str, str]] = json.loads(files(__package__).joinpath(RESULTS).read_text("utf-8"))
    return found


def right_releases(merging: str) -> tuple[str, ...]:
    """The releases that compact such a table as its readers see it: the default first, then its writers', then the newest."""
    right = (release for release, found in results().get(merging, {}).items() if found == RIGHT)
    of_hudi_0 = OF_HUDI_0 in merging
    return tuple(
        sorted(
            right,
            key=lambda one: (one == DEFAULT_RELEASE, of_hudi_0 and one.startswith("0."), _numbers(one)),
            reverse=True,
        )
    )


def release_for(policy: Policy, state: TableState) -> str:
    """The release that takes a table where its user names none: one that is right, else one that the user has tested.

    A metadata table of Hudi 1.0 alone is left to 1.0, so that other readers can go on reading it (facts: later-metadata-schema).
    """
    if state.metadata_of_1_0 and LAST_OF_HUDI_1_0 in right_releases(state.merging) and _is_plain(policy, state):
        return LAST_OF_HUDI_1_0
    return fitting_release(state.merging, policy.writer.merges_tested_with)


def _is_plain(policy: Policy, state: TableState) -> bool:
    """Whether Hudi 1.0 can do it: it splits no log files by record, and fails over some deletes (facts: deletes-fail-1-0)."""
    return not (is_exact(policy) or any(one.has_deletes for _, one in state.log_files))


def fitting_release(merging: str, tested: Collection[str] = ()) -> str:
    """The first release that is right, else the newest of the tested ones that can be fetched, else the default."""
    if right := right_releases(merging):
        return right[0]
    known = {release for found in results().values() for release in found}
    usable = [one for one in tested if one in known and why_unfit(merging, one, tested) is None]
    return max(usable, key=lambda one: (one == DEFAULT_RELEASE, _numbers(one)), default=DEFAULT_RELEASE)


def best_release(mergings: Iterable[str]) -> str:
    """The release that is right for the most of these tables, the default before others."""
    right = [release for merging in mergings for release in right_releases(merging)]
    order = [DEFAULT_RELEASE, *right] if DEFAULT_RELEASE in right else right
    return max(order, key=right.count, default=DEFAULT_RELEASE)


def why_unfit(merging: str, release: str | None, tested: Collection[str] = ()) -> tuple[str, str] | None:
    """Why a release may not compact such a table, and what to do; None where it may.

    Those that are `tested` by the user may, but for those of which it is known that they are wrong.
    """
    found = results().get(merging, {}).get(release or "")
    is_wrong = found is not None and found.startswith(WRONG)
    if found == RIGHT or (release in tested and not is_wrong):
        return None
    name = f"Hudi {release}" if release else "a bundle of Hudi that does not say its release"
    right = right_releases(merging)
    if is_wrong:
        reason = f"{name} merges rows otherwise than the readers of such a table ({merging})"
    elif right or found is not None:
        reason = f"{name} is not known to be right for such a table ({merging}){f': {found}' if found else ''}"
    else:
        reason = f"no release of Hudi is known to merge rows as the readers of such a table do ({merging})"
    return reason, _hint(right, None if is_wrong else release)


def submit_hint(policy: str | None, releases: Mapping[str, str | None]) -> str | None:
    """What to submit besides a job that may not take a policy's table; `releases` are those of the plan, by policy."""
    release = releases.get(policy or "")
    if release is None:
        return None
    names = ",".join(name for name, one in releases.items() if one == release)
    how = f"with `--packages {bundle_of(release)}` of spark-submit"
    return f"a job has one release of Hudi: submit another for these tables, `etc apply --select {names}`, {how}"


def bundle_of(release: str) -> str:
    """The Maven coordinates of a release's bundle."""
    return f"org.apache.hudi:hudi-spark3.5-bundle_2.12:{release}"


def _hint(right: tuple[str, ...], untold: str | None) -> str:
    if right:
        named = f"ETC_HUDI_BUNDLE={bundle_of(right[0])}, or `bundle` of the target"
        return f"name no bundle of Hudi, and each table gets one that is right; or set {named}, and `--select` this table alone"
    if untold:
        return f"compact a copy with it; where its readers see the same rows, declare `writer.merges_tested_with: ['{untold}']`"
    return "let the table's own writers compact it, or upgrade it to table version 9"


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(number) for number in release.split(".") if number.isdigit())
