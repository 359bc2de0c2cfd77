"""Which release of Hudi's bundle compacts which table as its writer's own bundle shows it: played on real tables, and judged.

python -m tests.integration.payload_matrix FOLDER [--bundles 0.15.0 1.2.0] [--kinds "nothing said"]
python -m tests.integration.payload_matrix FOLDER --keep    (writes the results that etc goes by)

Each bundle writes each kind of table in each table version that it can, and compacts, by etc's own client, a copy of each table
of each writer. Then it reads its own tables: as they were, and as each bundle has compacted them. Flink, which Maven fetches,
does the same in changelog mode and not, and compacts none. What is there in FOLDER is not done again, and what was not played
stays as it is kept. All of it takes about half an hour, of which Flink takes a third.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from etc_policy.hudi.log_forms import Changelog
from etc_policy.hudi.properties import merging_of
from etc_policy.plan import bundles
from tests.integration.payloads.steps import FAILED, SEEN, WRITERS, WRITTEN, Cell, cells
from tests.integration.payloads.tables import BUNDLES, FLINK, HISTORIES, UNCHANGED
from tests.integration.session import run_under_bundle

STEPS = ("write", "compact", "read")
RESULTS = Path(bundles.__file__).with_name(bundles.RESULTS)
Seen = Mapping[str, Any]
RO_DIFFERS = "RO is not RT"


class Verdict(NamedTuple):
    """What a bundle made of a table, in a word or by the keys that it got wrong; and each wrong row."""

    cell: Cell
    merging: str
    release: str
    found: str
    rows: Mapping[str, Any]


def play(root: Path, releases: Sequence[str], kinds: Sequence[str]) -> None:
    """Each step under each bundle, one Spark after the other."""
    for step in STEPS:
        for engine in releases if step != "compact" else (one for one in releases if one != FLINK):
            arguments = (step, engine, str(root), ",".join(releases), *kinds)
            said = run_under_bundle(engine, "tests.integration.payloads.steps", *arguments, timeout_seconds=3600)
            print(f"{step} {engine}\n{said}", end="", flush=True)


def verdicts(root: Path) -> Iterator[Verdict]:
    """What each bundle made of each table that was read."""
    for cell in cells():
        before = _seen(cell.base(root, WRITTEN))
        if before is None:
            continue
        merging = merging_of(before["properties"], Changelog.YES if cell.kind.changelog else Changelog.NO)
        for release in BUNDLES:
            found = _judge(cell.base(root, release), before)
            if found is not None:
                yield Verdict(cell, merging, release, *found)


def _judge(base: Path, before: Seen) -> tuple[str, Mapping[str, Any]] | None:
    if (base / FAILED).exists():
        return "fails", {"": (base / FAILED).read_text()}
    after = _seen(base)
    if after is None:
        return None
    if isinstance(before["RT"], str) or isinstance(after["RO"], str) or isinstance(after["RT"], str):
        return "cannot be read by its writer", {"": [before["RT"], after["RO"], after["RT"]]}
    if after["RO"] != after["RT"]:
        return RO_DIFFERS, _different(after["RT"], after["RO"])
    if keeps_unchanged(before) and (lost := [key for key, row in after["RO"].items() if UNCHANGED in row]):
        return wrong_about(lost), _different(before["RT"], after["RO"])
    wrong = _different(before["RT"], after["RO"])
    if not wrong:
        return bundles.RIGHT, {}
    return wrong_about(wrong), wrong


def keeps_unchanged(seen: Seen) -> bool:
    """Whether the table's payload knows Debezium's placeholder. Written to a base file it is lost, whatever RT showed before."""
    return any("PostgresDebezium" in value for value in seen["properties"].values())


def _different(before: Seen, after: Seen) -> dict[str, Any]:
    keys = sorted({*before, *after})
    return {key: (before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)}


def _seen(base: Path) -> Seen | None:
    file = base / SEEN
    found: Seen | None = json.loads(file.read_text()) if file.exists() else None
    return found


def results_of(found: Sequence[Verdict]) -> dict[str, dict[str, str]]:
    """For each way to merge rows what each release makes of it: right only where it is right for the readers of every writer."""
    gathered: dict[str, dict[str, dict[str, set[str]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(set)))
    for one in found:
        gathered[one.merging][one.release][one.cell.writer].add(one.found)
    return {
        merging: {release: _for_all(by_release[release]) for release in BUNDLES if release in by_release}
        for merging, by_release in sorted(gathered.items())
    }


def _for_all(by_writer: Mapping[str, Collection[str]]) -> str:
    """One verdict over the readers of all writers of such tables. A failure counts where nobody found more: it changes no row."""
    found = {one for verdicts in by_writer.values() for one in verdicts}
    hurt = [writer for writer, verdicts in by_writer.items() if any(one.startswith(bundles.WRONG) for one in verdicts)]
    if not hurt:
        return next(one for one in (RO_DIFFERS, bundles.RIGHT, min(found)) if one in found)
    told = (one.removeprefix(bundles.WRONG) for one in found if one.startswith(bundles.WRONG))
    wrong = wrong_about({key for keys in told for key in keys.split("; ")})
    served = any(bundles.RIGHT in verdicts for writer, verdicts in by_writer.items() if writer not in hurt)
    return f"{bundles.PARTLY} {' and '.join(hurt)}, {wrong}" if served else wrong


def wrong_about(keys: Collection[str]) -> str:
    """The verdict where rows of these keys are wrong."""
    return f"{bundles.WRONG}{'; '.join(key for key in HISTORIES if key in keys)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the tables are made")
    parser.add_argument("--bundles", nargs="+", choices=WRITERS, default=WRITERS)
    parser.add_argument("--kinds", nargs="+", default=(), help="some kinds of tables, by their names")
    parser.add_argument("--judge", action="store_true", help="judge what was played, and play nothing")
    parser.add_argument("--keep", action="store_true", help="write the results")
    given = parser.parse_args()
    if not given.judge:
        play(given.folder, given.bundles, given.kinds)
    found = list(verdicts(given.folder))
    for one in found:
        print(f"{one.cell.writer}, version {one.cell.version}, {one.cell.kind.name}, by {one.release}: {one.found}")
        for key, (before, after) in one.rows.items() if one.found.startswith("wrong") else ():
            print(f"    {key}: {before} became {after}")
    results = results_of(found)
    if given.keep:
        kept = dict(sorted({**bundles.results(), **results}.items()))  # of what is not in the folder, as it was
        RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    untrue = () if given.keep else tuple(not_as_kept(results))
    sys.exit("\n".join(untrue) or None)


def not_as_kept(results: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Where what was played contradicts what is kept; that is worse where a table of another writer was wrong."""
    for merging, by_release in results.items():
        for release, found in by_release.items():
            kept = bundles.results().get(merging, {}).get(release)
            if found != kept and (kept is None or kept == bundles.RIGHT):
                yield f"{merging}, by {release}: {found}, and not {kept}"


if __name__ == "__main__":
    main()
