"""Whether a change of the code has changed anything that a user gets of `etc`.

    python -m dev.same_output record DIR     before the change
    python -m dev.same_output compare DIR    after it: prints a diff and ends with 1 where something is another

Every command that needs no engine runs over some forty tables, made once, under a clock that stands still. What it says and
writes is kept byte by byte. DIR must be the same both times, as its path is part of what is written.
"""

from __future__ import annotations

import difflib
import importlib
import itertools
import os
import pkgutil
import shlex
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import etc_policy
from dev.options_page import leaf_commands
from etc_policy.cli.main import main as etc

EPOCH = 1_767_319_200  # 2026-01-02T02:00:00Z
EVENT_MS = EPOCH * 1000 - 16 * 3_600_000
ONE_AT_A_TIME = "name: all\nprofiles: {all: {target: dev, targets: {dev: {jobs: 1}}}}\n"
GOLDEN = Path(__file__).parents[1] / "tests" / "golden" / "errors"
#: Commands of one project, of one with tables, and of none; NAME is the first policy.
PROJECT = """
    parse; parse --output json; parse --github; parse --junit-xml out/parse.xml --summary out/parse.md; ls; ls --output json;
    parse --untrusted --allow lake; ls --output names --exclude tag:a; compile --explain; compile --output json;
    compile --form options; compile --form properties; compile --form spark-conf; compile --form tblproperties;
    compile --form flink; compile --form streamer"""
TABLES = """
    plan --out out/plan.json; plan --explain; plan --output json; plan --long --every 5m; plan --detailed-exitcode;
    plan --at 2024-03-04T11:00:00Z --github; plan --junit-xml out/plan.xml --summary out/plan.md; plan --untrusted;
    freshness; freshness --long --by partition; freshness --output json --archived; freshness --metadata-only --github;
    wait NAME --until 2024-01-01T01:00:00Z --timeout 0s; wait NAME --until 2027-01-01T01:00:00Z --timeout 0s --output json;
    metrics write out/etc.prom; simulate; simulate NAME --set data_latency=45m --output json; simulate --html out/s.html;
    history NAME; history --output json --select *_ro; history NAME --output json; cuts; cuts --output json;
    debug --metadata-only; debug --output json; verify --level metadata; verify --level logs --output json;
    verify --level metadata --github --long; verify --level data; docs generate; docs generate --out out/site;
    import lake --diff; import --output json lake; sync; finish; undo; apply --yes; apply out/plan.json --yes --output json;
    history NAME; ls --select result:error; ls --select freshness:error --output json; plan; retry --yes; docs generate;
    forget NAME --yes; freshness --output json"""
ANYWHERE = """
    --help; explain; explain ETC208; explain ETC101; metrics rules; metrics dashboard; cache show; completion bash;
    completion zsh; completion fish; schema --out schemas; schema plan; init new --with github; plan --selct x; nothing"""


def make_projects(root: Path) -> None:
    """All projects: of one folder each, with tables below `lake`."""
    made_up, bad_input = (importlib.import_module(f"tests.{name}") for name in ("site.made_up", "property.bad_input"))
    made_up.make_project(root / "site")
    made_up.add_odd_runs(root / "site")
    (root / "site" / "etc_project.yml").write_text(ONE_AT_A_TIME)
    bad_input.write(bad_input.FILES, root / "templates")
    make_lake(root / "lake")
    for case in sorted(GOLDEN.iterdir()):
        folder = root / "errors" / case.name
        shutil.copytree(case, folder, ignore=shutil.ignore_patterns("expected.txt"))
        (folder / "policies").mkdir(exist_ok=True)
        for path in folder.glob("policy.yml"):
            path.rename(folder / "policies" / path.name)


def copy(source: Path, place: Path) -> None:
    """A copy in place of what is there, all of whose files are of one time."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(source, place, symlinks=True)
    for path in place.rglob("*"):
        os.utime(path, (EPOCH - 86_400, EPOCH - 86_400), follow_symlinks=False)


def make_lake(project: Path, tables: int = 40) -> None:
    """A project with so many tables of all kinds, of which `make_tables` has about forty."""
    policies = list[str]()
    for number, (name, settings) in zip(range(tables), make_tables(project / "lake"), strict=False):
        common = f"name: {name}_ro, table: lake/{name}, event_time_column: {{column: ts, unit: ms}}, tags: [{'ab'[number % 2]}]"
        policies.append(f"  - {{{common}, data_latency: 1h{settings}}}\n")
    (project / "etc_project.yml").write_text(ONE_AT_A_TIME)
    (project / "policies").mkdir()
    (project / "policies" / "lake.yml").write_text(f"version: 1\npolicies:\n{''.join(policies)}")


def make_tables(lake: Path) -> Iterator[tuple[str, str]]:
    """The name of each table, and what its policy has beside what all have."""
    names = ("unit.hudi.table_folder", "property.lifetimes", "property.test_exact_split", "hostile.kinds")
    folders, lifetimes, split, kinds = (importlib.import_module(f"tests.{name}") for name in names)
    yield from tables_of_versions(lake, folders)
    yield table_of_days(lake, folders)
    for seed in range(8):
        life = lifetimes.Lifetime(Random(seed).randbytes(600), lake / f"life{seed}")
        for _ in range(25):
            life.step()
        yield (
            f"life{seed}",
            ("", ", strategy: {max_io: 1 GiB}", ", strategy: {every: 5m}, freshness: {target: 3h}")[seed % 3],
        )
    for seed in range(2):
        split.play(lake / f"split{seed}", Random(seed))
        yield f"split{seed}", ", strategy: {granularity: record, at: 01:00 UTC, keep: 3}, writer: {index: bucket}"
    for kind in ("avro", "json", "times", "properties", "pending"):
        for seed in range(3):
            kinds.hostile_table(lake / f"{kind}{seed}", seed, kind)
            yield f"{kind}{seed}", ", strategy: {type: log_file_num, min_log_files: 2}" if kind == "json" else ""


def tables_of_versions(lake: Path, folders: Any) -> Iterator[tuple[str, str]]:
    """One of each version and granularity, with late rows, rows of unknown time, deletes, and a write under way."""
    at, day = folders.at, "dt=2025-12-31"
    for version, granularity in itertools.product((6, 8, 9), ("file_slice", "log_file", "record")):
        name = f"v{version}_{granularity}"
        table = folders.TableFolder(lake / name, version=version)
        table.commit(at("08:00:00"), at("08:00:05"), folders.base("f"), folders.base("g", partition=day))
        begun = {"base_instant": at("08:00:00")} if version == 6 else {}
        for hour, event_ms in ((9, EVENT_MS), (10, EVENT_MS - 4 * 3_600_000), (11, None)):
            log = folders.log("f", event_ms, version=hour - 8, deletes=int(hour == 10), rows=10, **begun)
            table.commit(at(f"{hour:02}:00:00"), at(f"{hour:02}:00:05"), log)
        table.start(at("12:00:00"), folders.log("g", EVENT_MS, partition=day, **begun))
        carry = ", carry: auto" if version == 6 and granularity == "log_file" else ""
        yield name, f", strategy: {{type: event_time, granularity: {granularity}{carry}}}"


def table_of_days(lake: Path, folders: Any) -> tuple[str, str]:
    """One of partitions that are done, and one that is not."""
    at, table = folders.at, folders.TableFolder(lake / "days")
    for hour, day in enumerate(("2025-12-30", "2025-12-31", "2026-01-01"), 1):
        table.commit(at(f"0{hour}:00:00"), at(f"0{hour}:00:09"), folders.base(f"d{hour}", partition=f"dt={day}"))
    log = folders.log("d3", EVENT_MS, partition="dt=2026-01-01", max_event=EVENT_MS)
    table.commit(at("05:00:00"), at("05:00:09"), log)
    table.savepoint(at("05:00:00"), at("05:01:00"))
    done = "{since: dt=2025-12-30, success_file: _DONE}"
    return "days", f", partition_time: {{from: 'dt=%Y-%m-%d'}}, done: {done}, sync: {{ro_table: lake.days}}"


def record(root: Path, kept: Path, projects: Mapping[str, str]) -> None:
    """Run the commands of each project, and keep what they say and write."""
    for package in ("api", "cli", "hudi", "storage", "report", "run", "verify", "policy"):
        for module in pkgutil.iter_modules([str(Path(etc_policy.__file__).parent / package)]):
            importlib.import_module(f"etc_policy.{package}.{module.name}")
    importlib.import_module("pyarrow.parquet")
    for project, commands in projects.items():
        before = files_of(root / project)
        for number, command in enumerate(map(str.strip, commands.split(";"))):
            place = kept / project / f"{number:02} {command[:60].replace('/', '_')}"
            place.mkdir(parents=True)
            run(root / project, command, place)
            after = files_of(root / project)
            keep_files(root / project, place / "files", before, after)
            before = after


def run(folder: Path, command: str, place: Path) -> None:
    """A command in a child of this process, which has everything imported already."""
    child = os.fork()
    if not child:
        try:
            os._exit(as_child(folder, command, place))
        finally:
            traceback.print_exc()
            os._exit(99)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    (place / "code").write_text(f"{code}\n")


def as_child(folder: Path, command: str, place: Path) -> int:
    """The exit code of a command of the base install, whose clock stands still."""
    signal.alarm(60)
    folder.mkdir(exist_ok=True)
    os.chdir(folder)
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(place / name, os.O_WRONLY | os.O_CREAT), number)
        setattr(sys, name, open(number, "w", encoding="utf-8", errors="backslashreplace", closefd=False))  # noqa: SIM115
    home = {"HOME": str(folder.parent), "PATH": os.environ["PATH"], "USER": "me", "ETC_TEST_TOKEN": "hunter2"}
    os.environ.clear()
    os.environ.update(home, COLUMNS="120", TZ="UTC", ETC_CACHE=str(folder.parent / "cache"))
    seconds = 1_709_553_600 if folder.name == "site" else EPOCH
    time.time, time.time_ns, time.monotonic = lambda: float(seconds), lambda: seconds * 1_000_000_000, lambda: 0.0
    os.getpid = lambda: 4_242
    for module, name in itertools.product(list(sys.modules.values()), ("note_time", "monotonic")):
        if module.__name__.startswith("etc_policy.") and hasattr(module, name):
            setattr(module, name, lambda *_: 0.0)
    sys.modules["pyspark"] = None  # type: ignore[assignment]
    sys.executable, etc_policy.errors._direct_url = "python3", dict  # hints name an index, wherever the checkout is
    first = next((one.name for one in sorted(folder.glob("lake/*"))), "")
    code = etc(shlex.split(command.replace("NAME", f"{first}_ro")))
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def files_of(folder: Path) -> dict[str, bytes]:
    """The content of each file below a folder."""
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def keep_files(folder: Path, place: Path, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> None:
    """Keep what a command has written, and the names of what it has removed."""
    for name in after:
        if before.get(name) != after[name]:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(after[name])
    if gone := sorted(before.keys() - after.keys()):
        (place.parent / "removed").write_text("\n".join(gone) + "\n")


def differences(was: Path, now: Path) -> Iterator[str]:
    """A diff of all that is another."""
    names = {str(path.relative_to(side)) for side in (was, now) for path in side.rglob("*") if path.is_file()}
    for name in sorted(names):
        before, after = (path.read_bytes() if (path := side / name).exists() else b"" for side in (was, now))
        if before != after or (was / name).exists() != (now / name).exists():
            a, b = (content.decode("utf-8", "backslashreplace").splitlines() for content in (before, after))
            lines = difflib.unified_diff(a, b, f"was/{name}", f"now/{name}", lineterm="", n=1)
            yield "\n".join(lines) or f"{name}: ends of lines, or an empty file"


def main() -> int:
    """The command: 0 where all is the same."""
    if len(sys.argv) != 3 or sys.argv[1] not in ("record", "compare"):
        raise SystemExit(__doc__)
    root, made, was, now = (Path(sys.argv[2]).absolute() / name for name in ("work", "made", "was", "now"))
    kept = was if sys.argv[1] == "record" else now
    shutil.rmtree(kept, ignore_errors=True)
    if kept == was:
        shutil.rmtree(root, ignore_errors=True)
        make_projects(root)
        copy(root, made)
    copy(made, root)
    errors = {f"errors/{one.name}": "parse" for one in sorted((root / "errors").iterdir())}
    helps = ";".join(f"{name.removeprefix('etc ')} --help" for name, _ in leaf_commands())
    tables = dict.fromkeys(("site", "lake"), f"{PROJECT};{TABLES}")
    record(root, kept, {"empty": f"{ANYWHERE};{helps}", "templates": PROJECT, **errors, **tables})
    found = list(differences(was, kept))
    print(*found, f"{sum(1 for _ in kept.rglob('code'))} commands, {len(found)} differences", sep="\n")
    return min(len(found), 1)


if __name__ == "__main__":
    sys.exit(main())
