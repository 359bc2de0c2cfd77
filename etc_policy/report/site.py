"""The site over all policies: what its pages show, and their text (pure; templates come as text)."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from etc_policy.errors import Issue
from etc_policy.policy.manifest import Policy, policy_values
from etc_policy.report.check_titles import result_title, title_of_key, unchecked_titles
from etc_policy.report.history import Compaction, PolicyHistory, RecordedCheck, latest_verdict
from etc_policy.report.history_text import is_quiet, when
from etc_policy.report.report import MOMENT_MS, coverage_text, rests_on_text
from etc_policy.report.results import TableFreshness
from etc_policy.report.site_charts import (
    ChartPoint,
    Past,
    Sparkline,
    bytes_chart,
    completeness_chart,
    spark_line,
    table_past,
)
from etc_policy.table.formats import MANY_TABLES, count_of, format_bytes, format_duration, format_time, iso_ms, iso_time
from etc_policy.table.history import TableHistory
from etc_policy.table.state import TableState
from etc_policy.table.watermark import event_time_bound
from etc_policy.verify.freshness import lag_text
from etc_policy.verify.late_data import LateData
from etc_policy.verify.ports import GRAVEST, ExpectationResult, Verification

#: Files that are copied as they are.
ASSETS = (
    "assets/site.css",
    "assets/site.js",
    "assets/uplot/uPlot.iife.min.js",
    "assets/uplot/uPlot.min.css",
    "assets/uplot/LICENSE",
)
#: File slices that one page lists at most.
MAX_ROWS = 200
_FOLDER = "site"


class Chip(NamedTuple):
    """A status in a word; the tone is `good`, `warn`, `bad`, `quiet`, or `none` where there is nothing to judge by."""

    label: str
    tone: str


_FRESH = {
    "pass": Chip("Fresh", "good"),
    "warn": Chip("Late", "warn"),
    "error": Chip("Too late", "bad"),
    "unknown": Chip("Unknown", "quiet"),
    "no_target": Chip("No target", "none"),
}
_VERDICT = {
    "pass": Chip("Passed", "good"),
    "warn": Chip("Warning", "warn"),
    "fail": Chip("Failed", "bad"),
    "error": Chip("Could not check", "bad"),
    "skipped": Chip("Skipped", "quiet"),
}
_DONE = {
    "compacted": Chip("Compacted", "good"),
    "resumed": Chip("Compacted, resumed", "good"),
    "already_applied": Chip("Already applied", "quiet"),
    "withdrawn": Chip("Plan withdrawn", "warn"),
    "nothing_due": Chip("Nothing due", "quiet"),
    "refused": Chip("Refused", "warn"),
    "stale": Chip("Plan was stale", "warn"),
    "failed": Chip("Failed", "bad"),
    None: Chip("Verification only", "quiet"),
}


@dataclass(frozen=True, slots=True)
class SiteTable:
    """All that was found out about one policy; what could not be read is None, and `freshness` says why."""

    policy: Policy
    freshness: TableFreshness
    history: PolicyHistory | None = None
    state: TableState | None = None
    past: TableHistory | None = None
    late: tuple[LateData, ...] = ()


@dataclass(frozen=True, slots=True)
class RunView:
    """One run, a completed compaction or an attempt, with its newest verdict; `reason` is why it compacted nothing."""

    policy: str
    table_href: str
    at: str
    done: Chip
    threshold_ms: int | None
    check: RecordedCheck | None
    compaction: Compaction | None = None
    reason: str | None = None
    quiet: bool = False

    @property
    def verdict(self) -> Chip | None:
        """What its checks came to."""
        return verdict_chip(self.check.verification) if self.check else None


@dataclass(frozen=True, slots=True)
class SliceRow:
    """A file slice with log files that are not compacted; `oldest_ms` is the smallest event time that they can hold."""

    oldest_ms: int
    partition: str
    file_id: str
    base_instant: str
    log_files: int
    log_bytes: int
    assumed: bool


@dataclass(frozen=True, slots=True)
class TableView:
    """One policy's page; `words` are what a search looks at, `last_run` is the newest that did or found something."""

    href: str
    policy: Policy
    freshness: TableFreshness
    status: Chip
    runs: list[RunView]
    older_runs: int
    last_run: RunView | None
    checked: RunView | None
    past: Past
    marks: set[str]
    timeline_rows: list[ChartPoint]
    slices: list[SliceRow]
    slices_left_out: int
    late: list[LateData]
    values: Mapping[str, str]
    completeness: Mapping[str, Any]
    rewritten: Mapping[str, Any]
    spark: Sparkline | None
    words: str

    @property
    def failing(self) -> bool:
        """Whether its newest checks did not pass."""
        verdict = self.checked.verdict if self.checked else None
        return verdict is not None and verdict.tone in ("bad", "warn")


@dataclass(frozen=True, slots=True)
class SiteView:
    """The whole site: its tables, those that are too late first, and the runs of all that did something, newest first."""

    project: str
    observed_ms: int
    tables: list[TableView]
    recent: list[RunView]
    warnings: tuple[Issue, ...]
    is_long: bool
    tags: list[str]
    statuses: list[Chip]

    def count(self, tone: str) -> int:
        """How many tables have a status of that tone."""
        return sum(table.status.tone == tone for table in self.tables)


def site_view(
    project: str, tables: tuple[SiteTable, ...], observed_ms: int, warnings: tuple[Issue, ...] = (), max_runs: int = 100
) -> SiteView:
    """The site over what was found out about each policy; at most `max_runs` runs of each are listed."""
    urgency = ("bad", "quiet", "warn", "none", "good")
    views = [_table(facts, observed_ms, max_runs) for facts in tables]
    views.sort(key=lambda view: (urgency.index(view.status.tone), -(view.freshness.lag_seconds or 0)))
    return SiteView(
        project=project,
        observed_ms=observed_ms,
        tables=views,
        recent=_newest_first(run for view in views for run in view.runs if not run.quiet),
        warnings=warnings,
        is_long=len(views) >= MANY_TABLES,
        tags=sorted({tag for view in views for tag in view.policy.tags}),
        statuses=list(dict.fromkeys(view.status for view in views)),
    )


def _table(facts: SiteTable, observed_ms: int, max_runs: int) -> TableView:
    policy, runs = facts.policy, _newest_first(_runs(facts))
    past = table_past(policy, facts.past, observed_ms) if facts.past else Past()
    past = past.at_most_now(facts.freshness.complete_until_ms)
    slices, last = (
        sorted(_slices(facts), key=lambda row: (row.oldest_ms, row.partition, row.file_id)),
        len(past.moments) - 1,
    )
    return TableView(
        href=f"tables/{slug(policy.name)}.html",
        policy=policy,
        freshness=facts.freshness,
        status=_FRESH[facts.freshness.status],
        runs=runs[:max_runs],
        older_runs=max(0, len(runs) - max_runs),
        last_run=next((run for run in runs if not run.quiet), runs[0] if runs else None),
        checked=next((run for run in runs if run.check), None),
        past=past,
        marks={moment.mark for moment in past.moments},
        timeline_rows=[m for index, m in reversed(list(enumerate(past.moments))) if m.mark or index in (0, last)],
        slices=slices[:MAX_ROWS],
        slices_left_out=max(0, len(slices) - MAX_ROWS),
        late=[late for late in reversed(facts.late) if late.writes or late.unknown_writes],
        values=policy_values(policy),
        completeness=completeness_chart(past),
        rewritten=bytes_chart([(_epoch_ms(r.at), r.compaction.bytes_written) for r in reversed(runs) if r.compaction]),
        spark=spark_line(past),
        words=" ".join((policy.name, policy.description or "", policy.table, *policy.tags)),
    )


def _newest_first(runs: Iterable[RunView]) -> list[RunView]:
    return sorted(runs, key=lambda run: run.at, reverse=True)


def _runs(facts: SiteTable) -> Iterator[RunView]:
    name, href = facts.policy.name, f"tables/{slug(facts.policy.name)}.html"
    for one in facts.history.compactions if facts.history else ():
        verdict = latest_verdict(one.checks)
        check = next((check for check in one.checks if check.verification is verdict), None)
        done = _DONE["compacted"] if one.ours else Chip("Compacted by others", "quiet")
        yield RunView(name, href, when(one), done, one.threshold_ms, check, one)
    for attempt in facts.history.attempts if facts.history else ():
        found, at, done = attempt.verification, attempt.recorded_at, _DONE[attempt.status]
        check = RecordedCheck(recorded_at=at, kind=attempt.kind, verification=found) if found else None
        quiet, reason = is_quiet(attempt), attempt.reason
        yield RunView(name, href, at, done, attempt.threshold_ms, check, reason=reason, quiet=quiet)


def _slices(facts: SiteTable) -> Iterator[SliceRow]:
    for one in facts.state.slices if facts.state else ():
        if one.log_files and facts.state:
            zone = ZoneInfo(facts.state.timezone)
            oldest_ms, assumed = min(event_time_bound(f, facts.policy.longest_latency_ms, zone) for f in one.log_files)
            size = sum(log_file.size_bytes for log_file in one.log_files)
            yield SliceRow(oldest_ms, one.partition, one.file_id, one.base_instant, len(one.log_files), size, assumed)


def slug(name: str) -> str:
    """A file name for a policy: its own where that is safe, else what is safe of it and a hash."""
    safe = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:60]
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}".lstrip("-")


def verdict_chip(verification: Verification) -> Chip:
    """The verdict of one check; data that disagree are said before checks that could not run."""
    failed = any(expectation.status == "fail" for expectation in verification.expectations)
    return _VERDICT["fail" if failed else verification.status]


def _worst_first(results: Sequence[ExpectationResult]) -> list[ExpectationResult]:
    return sorted(results, key=lambda result: GRAVEST.index(result.status))


def _epoch_ms(iso: str) -> int:
    """A run file's time; what is not a time sorts first, and one without a zone is UTC."""
    try:
        return iso_ms(iso)
    except ValueError:
        return 0


def render_site(site: SiteView, read_template: Callable[[str], str]) -> dict[str, str]:
    """Every file of the site by its path below the site's folder; `read_template` gives a shipped file's text."""
    pages = page_environment(read_template)
    files = {name: read_template(f"{_FOLDER}/{name}") for name in ASSETS}
    files["index.html"] = pages.get_template("index.html").render(site=site, link=partial(_link, "index.html"))
    template = pages.get_template("table.html")
    for table in site.tables:
        files[table.href] = template.render(site=site, table=table, link=partial(_link, table.href))
    return files


def page_environment(read_template: Callable[[str], str]) -> Environment:
    """What pages are made with: the site's templates, and how values are shown."""
    environment = Environment(
        loader=FunctionLoader(lambda name: read_template(f"{_FOLDER}/{name}")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "time": _time,
        "moment": lambda iso: _iso(str(iso)),
        "bytes": lambda size: "-" if size is None else format_bytes(size).replace(" ", "\N{NO-BREAK SPACE}"),
        "duration": lambda ms: "-" if ms is None else format_duration(int(ms)),
        "unchecked": unchecked_titles,
        "result_title": result_title,
        "status": _VERDICT.get,
        "worst_first": _worst_first,
        "coverage": coverage_text,
        "rests_on": rests_on_text,
        "lag": lag_text,
    }
    environment.globals |= {"count_of": count_of, "samples_of": samples_of, "facts_of": facts_of}
    return environment


def _link(page: str, target: str) -> str:
    """The way from one page of the site to another, without a leading slash: the site also opens from a folder."""
    return posixpath.relpath(target, posixpath.dirname(page) or ".")


def _time(epoch_ms: int | None) -> Markup | str:
    if epoch_ms is None:
        return "-"
    return Markup('<time datetime="{}">{}</time>').format(
        iso_time(epoch_ms), format_time(epoch_ms).removesuffix(" UTC")
    )


def _iso(text: str) -> Markup:
    """An ISO time in the same form."""
    words = text.removesuffix("Z").replace("T", " ").split(".", maxsplit=1)[0]
    return Markup('<time datetime="{}">{}</time>').format(text, words)


def fact_text(value: Any, key: str) -> str:
    """A value of a check's result as people read it: spans and moments by `_ms` in the key's name, counts with commas."""
    if isinstance(value, bool) or value is None:
        return str(value).lower() if value is not None else "-"
    if isinstance(value, int):
        if key.endswith("_ms"):
            return format_time(value) if abs(value) >= MOMENT_MS else format_duration(value)
        return format_bytes(value) if key.endswith("_bytes") else f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.6g}"
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, str | int) for item in value):
        return ", ".join(str(item) for item in value)
    return json.dumps(value, ensure_ascii=False)


def facts_of(observed: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(words, value) of what a check observed, without samples, what is empty, and the verdict, which its status says."""
    shown = ((k, v) for k, v in observed.items() if k not in ("samples", "verdict") and v not in (None, [], {}, ""))
    return [
        (title_of_key(key.removesuffix("_ms").removesuffix("_bytes")), fact_text(value, key)) for key, value in shown
    ]


def samples_of(observed: Mapping[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    """(kind, columns, rows) of the samples that a check brought, such as keys that RO lacks."""
    found = []
    samples = observed.get("samples")
    for kind, rows in samples.items() if isinstance(samples, Mapping) else ():
        records = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
        columns = list(dict.fromkeys(str(key) for row in records for key in row))
        cells = [[fact_text(row.get(column), column) for column in columns] for row in records]
        if cells:
            found.append((str(kind).replace("_", " "), columns, cells))
    return found
