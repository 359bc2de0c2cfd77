"""Which release of Hudi compacts which table as its writers' readers see it, for docs/reference/bundles.md."""

from __future__ import annotations

from etc_policy.plan import bundles


def render_bundles() -> str:
    """A row for each way to merge rows, then the histories whose rows a release gets wrong."""
    results = bundles.results()
    releases = sorted({release for by_release in results.values() for release in by_release}, key=_number)
    rows = [
        f"| {merging} | {' | '.join(_shown(by_release.get(release)) for release in releases)} |"
        for merging, by_release in results.items()
    ]
    wrong = [
        f"- {merging}, by {release}: {verdict}"
        for merging, by_release in results.items()
        for release, verdict in by_release.items()
        if bundles.WRONG in verdict
    ]
    head = [f"| table | {' | '.join(releases)} |", f"|---|{'---|' * len(releases)}"]
    return "\n".join([*head, *rows, "", "## Which rows are wrong", "", _KEYS, "", *wrong, ""])


def _number(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def _shown(verdict: str | None) -> str:
    if verdict is None:
        return ""
    return "**wrong**" if verdict.startswith(bundles.WRONG) else verdict.partition(f", {bundles.WRONG}")[0]


_KEYS = "The words are the keys of `HISTORIES` in `tests/integration/payloads/tables.py`."
