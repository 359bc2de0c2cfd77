"""Every command block of the pages is run by a test, in order; those that need no Spark here, on small tables as files.

A new block belongs to a test in `RUN_BY`, or with a reason to `NOT_RUN` (tests/command_blocks.py).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
import yaml

from etc_policy.api.partitions import send_partition_events
from etc_policy.api.project import Project
from etc_policy.table.instants import add_ms
from tests.command_blocks import (
    NOT_RUN,
    REPOSITORY,
    RUN_BY,
    Shell,
    command_blocks,
    command_blocks_of,
    pages_with_commands,
)
from tests.unit.cli.test_wrong_times import DONE, REQUESTED, WEST_MS, hurt, written
from tests.unit.hudi.table_folder import TableFolder, at, base, log

#: 2026-01-01 08:30 UTC, when the small tables' events were.
EVENT_MS, DAY_MS = 1_767_256_200_000, 86_400_000
#: 2013-01-01 18:00 UTC, in the two days of the demo's flights.
FLIGHT_MS = 1_357_063_200_000
POLICY = """version: 1
policies:
  - name: orders_ro
    table: lake/orders
    event_time_column: {column: ts, unit: ms}
    data_latency: 30m
    verify: {level: metadata}
"""


def blocks_of(page, language):
    text = (REPOSITORY / page).read_text("utf-8")
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)
    return ["".join(line.removeprefix(indent) for line in body.splitlines(keepends=True)) for indent, body in found]


def make_table(folder, event_ms=EVENT_MS, *, due=True, column="ts"):
    """Three delta commits with event times, their files as old as their names say; without `due` of base files alone."""
    table = TableFolder(folder)
    columns = [{"name": name, "type": ["null", "long"]} for name in ("id", "p", column)]
    schema = {"schema": json.dumps({"type": "record", "name": "r", "fields": columns})}
    late = (log("f", min_event=event_ms), log("f", min_event=event_ms + 60_000)) if due else ()
    for hour, file in zip((9, 10, 11), (base("f"), *late), strict=False):
        instant, completed = at(f"{hour:02}:00:00"), at(f"{hour:02}:00:05")
        written(table.commit(instant, completed, file, extra=schema), completed)
    return table


@pytest.fixture
def project(tmp_path):
    """A project with one policy, whose table is not there yet."""
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "orders.yml").write_text(POLICY)
    return tmp_path


@pytest.fixture
def blocks(request):
    """The blocks that the test runs."""
    return command_blocks_of(request.node.originalname)


def test_every_block_is_run_or_has_a_reason():
    blocks = {(page, number) for page in pages_with_commands() for number in range(len(command_blocks(page)))}
    run = {(page, number) for pages in RUN_BY.values() for page, numbers in pages.items() for number in numbers}
    assert blocks - run - set(NOT_RUN) == set(), "a new block: give it to a test in RUN_BY, or a reason in NOT_RUN"
    assert run | set(NOT_RUN) == blocks
    assert run & set(NOT_RUN) == set()
    assert all(len(reason.split()) > 5 for reason in NOT_RUN.values())


@pytest.mark.extended
def test_a_wheel_and_git_give_the_command(tmp_path, blocks):
    """As the page says, in a clone and in an environment of its own; the address is that of the clone."""
    wheel, installed, git = blocks
    clone = tmp_path / "clone"
    clone.mkdir()
    for name in ("etc_policy", "templates", "policies"):
        shutil.copytree(REPOSITORY / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(REPOSITORY / name, clone / name)
    shell = Shell(clone)
    shell.succeeds(wheel)
    assert "\netc 0." in f"\n{shell.succeeds(installed)}"
    shell.succeeds(
        "git init -q . && git add pyproject.toml hatch_build.py README.md LICENSE NOTICE etc_policy templates policies"
    )
    shell.succeeds("git -c user.name=n -c user.email=n@example.com commit -qm n")
    shell.succeeds("python3 -m venv --without-pip from-git")
    into = f"pip --python {clone}/from-git/bin/python install --no-deps"
    shell.succeeds(f"export ETC_REPOSITORY=file://localhost{clone}\n{git.replace('pip install', into)}")
    (made,) = (clone / "from-git" / "lib").glob(
        "python3*/site-packages/etc_policy/templates/project/policies/orders.yml"
    )
    assert made.is_file()


def test_a_project_gets_the_files_that_run_etc(project, blocks):
    (block,) = blocks
    assert Shell(project).succeeds(block).splitlines() == [
        ".github/workflows/compaction.yml",
        "requirements.txt",
        ".pre-commit-config.yaml",
    ]


def test_a_reviewed_plan_and_a_job_that_waits(project, blocks):
    """On a table of which nothing is due; a plan with something to do is carried out by tests/integration/test_how_to.py."""
    make_table(project / "lake" / "orders", due=False)
    reviewed, wait = blocks
    shell = Shell(project)
    assert "nothing due" in shell.succeeds(reviewed)
    assert json.loads((project / "reviewed.plan.json").read_text())["tables"][0]["action"] == "nothing_due"
    assert "orders_ro  RO is complete until" in shell.succeeds(wait)


@pytest.mark.extended
def test_a_daily_job_starts_when_its_partition_is_complete(project, blocks):
    """The page's own policy; a run that is not etc's compacts the day while the job waits."""
    page = blocks_of("docs/how-to/partitions.md", "yaml")[0]
    (project / "policies" / "orders.yml").write_text(page)
    table, day = TableFolder(project / "lake" / "orders"), "dt=2026-01-01"
    schema = {"type": "record", "name": "r", "fields": [{"name": "placed_at", "type": "long"}]}
    first = base("f", partition=day), log("f", partition=day, min_event=EVENT_MS)
    instant = at("09:00:00"), at("09:00:05")
    written(table.commit(*instant, *first, extra={"schema": json.dumps(schema)}), instant[1])
    (ask,) = blocks
    shell = Shell(project)
    waited = subprocess.Popen(
        ["bash", "-c", ask.replace("--timeout 6h", "--timeout 60s --poll 1s")],
        cwd=project,
        env=shell.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert waited.stdout is not None
    shown = ""
    while f"closed {day}" not in " ".join(shown.split()):  # `etc freshness` has looked before the compaction
        line = waited.stdout.readline()
        assert line, shown
        shown += line
    time.sleep(3)
    assert waited.poll() is None
    done = base("f", partition=day, merged=1)
    written(
        table.compaction(at("10:00:00"), at("10:00:05"), done, extra={"schema": json.dumps(schema)}), at("10:00:05")
    )
    out = shown + waited.stdout.read() + waited.communicate(timeout=60)[0]
    assert f"closed {day}: RO complete until 2026-01-01 08:29:59.999 UTC" in " ".join(out.split())
    assert f"orders_ro  RO holds every row of {day}" in out
    assert waited.returncode == 0


def test_a_table_is_looked_at_before_it_is_adopted(tmp_path, blocks):
    """With the page's own files, and a folder in the place of its bucket."""
    make_table(tmp_path / "lake" / "orders", column="updated_at")
    start, look, compile_ = blocks
    policy, project, _ = blocks_of("docs/how-to/existing-table.md", "yaml")
    shell = Shell(tmp_path)
    shell.succeeds(start)
    assert shell.folder == tmp_path / "compaction"
    for shown, here in (
        ("event_time_column: updated_at\n", "event_time_column: {column: updated_at, unit: ms}\n"),
        ("table: /data/lake/orders\n", "table: orders\n"),  # as the page says for a bucket
    ):
        assert shown in policy
        policy = policy.replace(shown, here)
    (shell.folder / "policies" / "orders.yml").write_text(policy)
    (shell.folder / "etc_project.yml").write_text(project.replace("s3a://lake", str(tmp_path / "lake")))
    before = (tmp_path / "lake" / "orders" / ".hoodie" / "hoodie.properties").read_bytes()
    assert "1 to compact" in shell.succeeds(look)
    shell.succeeds(compile_)
    made = shell.folder / "target" / "writers"
    options = json.loads((made / "orders_ro.options.json").read_text())
    assert options["hoodie.payload.event.time.field"] == "updated_at"
    (shown,) = blocks_of("docs/how-to/existing-table.md", "json")
    assert json.loads(shown).items() <= {**options, "hoodie.write.table.version": "8"}.items()
    assert len(list(made.iterdir())) == 6
    assert (tmp_path / "lake" / "orders" / ".hoodie" / "hoodie.properties").read_bytes() == before


def test_a_report_is_started_by_an_event(project, blocks):
    """The page's own actions, but for those that need a server, and its own program; the report is the reader's."""
    day, page, zone = "dt=2026-01-01", "docs/how-to/partitions.md", 'partition_time: {from: "dt=%Y-%m-%d"}'
    (done,) = (block for block in blocks_of(page, "yaml") if block.startswith("    done:"))
    (program,) = blocks_of(page, "bash")
    done = re.sub(r" +(partition_property|http|url|secret_headers):.*\n", "", done)
    (project / "policies" / "orders.yml").write_text(f"{POLICY}    {zone}\n{done}")
    for name, text in (("on_partition.sh", program), ("daily_report", '#!/bin/sh\necho "$1" >> reports\n')):
        (project / name).write_text(text)
        (project / name).chmod(0o755)
    table = TableFolder(project / "lake" / "orders")
    written(table.commit(at("09:00:00"), at("09:00:05"), base("f", partition=day)), at("09:00:05"))
    for _ in range(2):
        with Project(project) as opened:
            (policy,) = opened.policies()
            send_partition_events(opened.environment, policy, EVENT_MS + 2 * DAY_MS)
    Shell(project).succeeds(blocks[0])
    unsent = re.findall(r"^etc_partition_events_unsent{.*} (.*)$", (project / "etc.prom").read_text(), re.MULTILINE)
    assert unsent == ["0.0", "0.0"]
    assert (table.base / day / "_SUCCESS").exists()
    assert len(os.listdir(project / "seen")) == 2, "the event tried by hand, and that of the day once"
    end = time.monotonic() + 30
    while (project / "reports").read_text() != "2026-01-01\n" * 2:
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_refused_table_is_explained(project, blocks):
    table = make_table(project / "lake" / "orders")
    table.file(at("10:30:00"), ".compaction.requested")
    plan, explain, look = blocks
    shell = Shell(project)
    refused = shell.run(plan)
    assert refused.returncode == 4
    assert "error[ETC405]: `orders_ro` cannot be compacted now (pending_service): a compaction at" in refused.stderr
    assert shell.succeeds(explain).startswith("ETC405 (pending_service)  The table cannot be compacted now\n")
    assert "etc finish --select orders_ro" in shell.succeeds(look)


def test_the_writers_lock_is_declared(project, blocks):
    make_table(project / "lake" / "orders")
    with (project / "policies" / "orders.yml").open("a") as policy:
        policy.write(blocks_of("docs/how-to/locks.md", "yaml")[0])
    look, compile_ = blocks
    shell = Shell(project)
    assert "declared (FileSystemBasedLockProvider)" in shell.succeeds(look)
    shell.succeeds(compile_)
    options = json.loads((project / "target" / "writers" / "orders_ro.options.json").read_text())
    assert options["hoodie.write.lock.filesystem.expire"] == "10"


@pytest.mark.extended
def test_a_lake_becomes_a_project(tmp_path, blocks):
    make_table(tmp_path / "lake" / "orders")
    figures, found, parsed, planned, compared = blocks
    shell = Shell(tmp_path)
    assert "stock, every hour" in shell.succeeds(figures)
    assert not (tmp_path / "policies").exists()
    assert "1 table: 1 written" in shell.succeeds(found)
    shell.succeeds(parsed)
    file = tmp_path / "policies" / "orders.yml"
    answered = file.read_text().replace("# ? ", "# ").replace("# data_latency: 1h", "data_latency: 3h")
    file.write_text(answered)
    assert "1 to compact" in shell.succeeds(planned)
    assert "1 table: 1 in project" in shell.succeeds(compared)


@pytest.mark.extended
def test_a_part_of_many_tables(tmp_path, blocks):
    """The page's own project; its production lies in the test's folder."""
    defaults, template, extending, loop, _, targets = blocks_of("docs/how-to/many-tables.md", "yaml")
    files = {
        "etc_project.yml": defaults + targets.replace("/mnt/lake", str(tmp_path / "mnt")),
        "templates/hourly.yml": template,
        "policies/sales/orders.yml": extending,
        "policies/payments.yml": loop,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for name, column in (("orders", "updated_at"), ("payments", "paid_at"), ("refunds", "refunded_at")):
        make_table(tmp_path / "mnt" / name, column=column)
        make_table(tmp_path / "lake" / name, due=False, column=column)
    prod, part = blocks
    shell = Shell(tmp_path)
    assert "3 to compact, 0 with nothing due, 0 refused" in shell.succeeds(prod)
    shell.succeeds("etc compile --target-dir main/target")  # as the page says of the main branch's manifest
    said = shell.succeeds(part)
    assert "0 to compact, 2 with nothing due, 0 refused" in said


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def test_the_exporter_answers(project, blocks):
    make_table(project / "lake" / "orders")
    (serve,) = blocks
    port = free_port()
    command = serve.replace("9864", str(port)).split()
    assert command != serve.split()
    with subprocess.Popen(
        [sys.executable, "-m", "etc_policy.cli.main", *command[1:]], cwd=project, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline().strip() == f"http://127.0.0.1:{port}/metrics"
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
                assert b'etc_log_files{policy="orders_ro"' in answer.read()
        finally:
            process.terminate()


@pytest.mark.extended
def test_metrics_rules_and_dashboard_are_written(project, blocks):
    make_table(project / "lake" / "orders")
    (block,) = blocks
    Shell(project).succeeds(block.replace("/var/lib/prometheus/node-exporter", str(project)))
    assert "etc_table_readable" in (project / "etc.prom").read_text()
    assert yaml.safe_load((project / "etc_rules.yml").read_text())["groups"]
    assert json.loads((project / "etc_dashboard.json").read_text())["panels"]


@pytest.mark.extended
def test_a_wrong_time_is_shown_renamed_and_proved(project, blocks):
    table = make_table(project / "lake" / "orders")
    metadata = TableFolder(table.base / ".hoodie" / "metadata")
    wrong = written(metadata.commit(REQUESTED, add_ms(DONE, WEST_MS)), DONE), hurt(table)
    right = [path.with_name(f"{REQUESTED}_{DONE}{path.suffix}") for path in wrong]
    for path in wrong:
        path.with_name(f".{path.name}.crc").touch()
    show, rename, prove = blocks
    shell = Shell(project)
    assert f"its true time is {DONE} (8h off)" in " ".join(shell.run(show).stdout.split())
    rename = rename.replace("/mnt/lake/orders", str(table.base))
    names = re.findall(r"\d{17}_\d{17}\.\w+", rename)
    for shown, real in zip(names, (wrong[0], right[0], wrong[1], right[1]), strict=True):
        rename = rename.replace(shown, real.name)
    shell.succeeds(rename)
    assert not [path for path in table.base.rglob("*") if wrong[0].stem in path.name]
    assert all(path.exists() for path in right)
    assert f"its true time is {DONE}" not in " ".join(shell.run(show).stdout.split())
    assert "PASS" in shell.succeeds(prove)


@pytest.mark.extended
def test_late_data_are_shown(project, blocks):
    make_table(project / "lake" / "orders", event_ms=int(time.time() * 1000) - 60_000)
    (block,) = blocks
    said = Shell(project).succeeds(block)
    assert said.startswith("no target orders_ro")
    assert json.loads(said[said.index("{") :])["tables"][0]["status"] == "no_target"


def test_the_tutorial_up_to_its_first_run(tmp_path, blocks):
    """On a table in the place of the demo's; the whole of it is run by tests/integration/test_how_to.py."""
    (tmp_path / "policies").mkdir()
    shutil.copy(REPOSITORY / "policies" / "flights.yml", tmp_path / "policies" / "flights.yml")
    make_table(tmp_path / "demo" / "flights", FLIGHT_MS, column="event_time_ms")
    look, plan = blocks
    shell = Shell(tmp_path)
    assert "1 policy OK" in shell.succeeds(look)
    assert shell.succeeds(plan).count("Plan ") == 2
