"""The pages of the site, from their views: text for every file below its folder (pure; templates come as text)."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from etc_policy.report.check_titles import result_title, title_of_key, unchecked_titles
from etc_policy.report.history_text import short_sha
from etc_policy.report.report import MOMENT_MS, coverage_text
from etc_policy.report.site_views import Chip, RunView, SiteView, TableView, status_chip, verdict_chip, worst_first
from etc_policy.table.formats import count_of, format_bytes, format_duration, format_time, iso_time

#: Files that are copied as they are.
ASSETS = (
    "assets/site.css",
    "assets/site.js",
    "assets/uplot/uPlot.iife.min.js",
    "assets/uplot/uPlot.min.css",
    "assets/uplot/LICENSE",
)

_FOLDER = "site"


def render_site(site: SiteView, read_template: Callable[[str], str]) -> dict[str, str]:
    """Every file of the site by its path below the site's folder; `read_template` gives a shipped file's text."""
    pages = page_environment(read_template)
    files = {name: read_template(f"{_FOLDER}/{name}") for name in ASSETS}
    for path, template, values in _pages(site):
        files[path] = pages.get_template(template).render(site=site, path=path, link=partial(_link, path), **values)
    return files


def _pages(site: SiteView) -> Iterator[tuple[str, str, dict[str, TableView | RunView]]]:
    yield "index.html", "index.html", {}
    for table in site.tables:
        yield table.href, "table.html", {"table": table}
        for run in table.runs:
            yield run.href, "run.html", {"table": table, "run": run}


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
        "sha": short_sha,
        "unchecked": unchecked_titles,
        "result_title": result_title,
        "fact": fact_text,
        "verdict": verdict_chip,
        "status": status_chip,
        "worst_first": worst_first,
        "coverage": coverage_text,
    }
    environment.globals |= {"count_of": count_of, "samples_of": samples_of, "facts_of": facts_of, "Chip": Chip}
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
