"""The site over all policies: its facts from the tables' own commits, its files in a folder."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from etc_policy.api.artifacts import write_listed
from etc_policy.api.each_table import each_table, table_errors
from etc_policy.api.observing import freshness_of, partitions_of
from etc_policy.errors import EngineError, EtcError, Issue
from etc_policy.errors.codes import Code
from etc_policy.policy.files import read_template
from etc_policy.policy.manifest import Policy
from etc_policy.report.freshness import unreadable
from etc_policy.report.history import policy_history
from etc_policy.report.run_files import RunFile, RunFiles
from etc_policy.report.site import SiteTable, render_site, site_view
from etc_policy.table.history import promises_in, with_times_of
from etc_policy.verify.late_data import late_data
from etc_policy.wiring import Environment

#: The list of the site's files, so that the next one can take away what it no longer has: pages of runs too, of earlier versions.
_LIST = "site.json"
_OWN_PAGE = re.compile(r"(tables|runs/[A-Za-z0-9_-]+)/[A-Za-z0-9_-]+\.html")


@dataclass(frozen=True, slots=True)
class WrittenSite:
    """A site as it was written: its folder, the files in it, sorted, and the policies that it is about."""

    folder: Path
    files: tuple[str, ...]
    policies: tuple[str, ...]


def site_files(
    environment: Environment,
    name: str,
    policies: Sequence[Policy],
    now_ms: int,
    kept: RunFiles,
    max_runs: int,
    warn: Callable[[Issue], None],
) -> dict[str, str]:
    """The files of the site of project `name` over the policies, which list at most `max_runs` runs of each."""

    def render(facts: tuple[SiteTable, ...]) -> dict[str, str]:
        return render_site(site_view(name, facts, now_ms, kept.issues, max_runs), read_template)

    def read(policy: Policy) -> SiteTable:
        return _read_facts(environment, policy, now_ms, kept.files)

    facts, _ = each_table(environment, policies, read, lambda policy, error: _unknown(policy, error, warn))
    try:
        return render(facts)
    except Exception:  # which table's it is shows when each is rendered alone
        return render(tuple(_shown(table, render, warn) for table in facts))


def _shown(
    table: SiteTable, render: Callable[[tuple[SiteTable, ...]], object], warn: Callable[[Issue], None]
) -> SiteTable:
    """The table if its pages can be made, else one of which nothing is known."""
    try:
        with table_errors(table.policy):
            render((table,))
            return table
    except EtcError as error:
        return _unknown(table.policy, error, warn)


def _unknown(policy: Policy, error: EtcError, warn: Callable[[Issue], None]) -> SiteTable:
    warn(Issue(error.code, error.message, error.where, error.hint, "warning"))
    return SiteTable(policy, unreadable(policy, error.with_cause))


def _read_facts(environment: Environment, policy: Policy, now_ms: int, runs: tuple[RunFile, ...]) -> SiteTable:
    state, history = environment.read_whole(policy)[:2]
    known = with_times_of(history, state)
    freshness = freshness_of(policy, state, now_ms, history)
    if policy.partition_time is not None or policy.partition_idle_ms is not None:
        freshness = partitions_of(freshness, policy, state, now_ms)
    return SiteTable(
        policy=policy,
        freshness=freshness,
        history=policy_history(policy, history, runs),
        state=state,
        past=known,
        late=late_data(promises_in(policy, known)),
    )


def write_site(folder: Path, files: Mapping[str, str], option: str) -> None:
    """Writes the site and takes away what an earlier one wrote that this one has not; other files stay.

    `option` is the one that names the folder.

    Raises:
        EngineError: a file cannot be written; or the folder, which the user has not named, is a link.

    """
    if option == "--target-dir" and folder.is_symlink():
        hint = f"name the folder by `--out`, such as `--out {shlex.quote(str(folder))}`"
        raise EngineError(Code.TARGET_DIR_OUTSIDE, f"`{folder}` is a link, through which nothing is written", hint=hint)
    write_listed(folder, _LIST, files, _OWN_PAGE.fullmatch, option=option)
