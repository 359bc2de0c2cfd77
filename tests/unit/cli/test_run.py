"""`etc run` over tables in memory: rounds, what fails in them, and how it ends."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest

from etc_policy.api import namespaces
from etc_policy.api.project import Project
from etc_policy.cli import run as run_command
from etc_policy.cli.ci_forms import report_checks
from etc_policy.errors import EngineError, EtcError, Issue, RetryableError, SeveralErrors, TableError
from etc_policy.policy.project_schema import Target
from etc_policy.run import run_signs
from etc_policy.run.file_lease import FileLease
from etc_policy.run.lease_document import LeaseDocument
from etc_policy.run.lock_holder import Owner
from etc_policy.table.impossible_times import LateCommits, OtherTimes, doubt_text
from etc_policy.table.instants import instant_from_ms
from etc_policy.wiring import Environment, sessions
from tests.unit.api.hourly import HOURLY
from tests.unit.cli.test_apply import NOON, outside  # noqa: F401 - a fixture
from tests.unit.hudi.reading import OURS
from tests.unit.hudi.table_folder import TableFolder, Written, at, base


@pytest.fixture
def rounds(etc, outside, monkeypatch):  # noqa: F811
    """Runs that many rounds: exit code, what each said, and stderr."""
    began_ns, now_ns = time.monotonic_ns(), 1_767_268_800_000 * 1_000_000
    monkeypatch.setattr("etc_policy.wiring.time.time_ns", lambda: now_ns + time.monotonic_ns() - began_ns)
    before = signal.getsignal(signal.SIGTERM)

    def run(count, *arguments):
        code, out, err = etc("run", "--every", "10ms", *(("--rounds", str(count)) if count else ()), *arguments)
        return code, out.splitlines(), err

    yield run
    signal.signal(signal.SIGTERM, before)


def test_a_second_round_has_nothing_left_to_do(rounds):
    code, said, _ = rounds(2)
    assert code == 0
    assert [line.partition("UTC  ")[2] for line in said] == ["2 compacted", "2 nothing due"]


def test_each_round_that_works_on_tables_is_one_line_of_json(rounds):
    _, said, _ = rounds(2, "--output", "json")
    assert [[table["status"] for table in json.loads(line)["tables"]] for line in said] == [["compacted"] * 2]


def test_what_fails_is_shown_and_tried_again(rounds, outside):  # noqa: F811
    outside.lost.add("orders_ro")
    code, said, err = rounds(1)
    assert (code, [line.partition("UTC  ")[2] for line in said]) == (1, ["1 compacted, 1 failed (orders_ro)"])
    assert err.count("ETC211") == 1
    assert rounds(2)[0] == 1  # the second round does not try it again yet
    _, said, err = rounds(6)
    assert err.count("ETC211") > 1
    assert "1 nothing due" in {line.partition("UTC  ")[2] for line in said}


def test_what_fails_in_the_same_way_again_is_said_in_a_line(rounds, outside, opened):  # noqa: F811
    outside.lost.add("orders_ro")
    _, _, err = rounds(6)
    assert err.count("error[ETC211]") == 1
    assert err.count("as before: ETC211 (orders_ro)") > 1
    outside.lost.add("payments_ro")
    _, _, err = rounds(1)
    assert err.count("error[ETC211]") == 2
    _, _, err = rounds(6, "--log-format", "json")
    assert err.count('"code": "ETC211"') > 2


def test_a_warning_is_said_once_in_all_rounds(rounds, outside):  # noqa: F811
    file = outside.project_dir / "policies" / "a.yml"
    file.write_text(file.read_text().replace("data_latency: 1h,", "data_latency: 1h, writer: {compaction: async},", 1))
    code, said, err = rounds(3)
    assert (code, len(said), err.count("warning[ETC141]")) == (0, 3, 1)


#: What is found of a column in one round after the other, and how often it is to be said.
FOUND = {
    "late": ([LateCommits(2, 2, 9_000_000), LateCommits(3, 4, 8_000_000), LateCommits(5, 5, 9)], 1),
    "old": ([OtherTimes("old", 3, 0, 9), OtherTimes("old", 4, 0, 10**12), OtherTimes("old", 4, 1, 1)], 1),
    "numbers": (
        [OtherTimes("numbers", 0, 0, 9, 0, f"log file .{name}-0_1.log.1_0-1-0") for name in ("fe1", "a2b", "9c")],
        1,
    ),
    "another": ([LateCommits(2, 2, 9_000_000), LateCommits(4, 5, 7), OtherTimes("old", 3, 0, 9)], 2),
}


@pytest.mark.parametrize("kind", FOUND)
def test_a_warning_of_a_plan_is_said_once_until_its_kind_changes(rounds, monkeypatch, kind):
    found, times = FOUND[kind]
    looks = {"orders_ro": [*found], "payments_ro": [*found]}

    def column_warning(policy, _):
        left = looks[policy.name]
        one = left.pop(0) if len(left) > 1 else left[0]
        yield "; ".join(doubt_text(one, policy.event_time, policy.data_latency_ms, ()))

    monkeypatch.setattr("etc_policy.plan.builder.column_warning", column_warning)
    monkeypatch.setattr("etc_policy.api.running.Rounds.to_plan", lambda _, due, *rest: due)
    _, said, err = rounds(4)
    assert (len(said), err.count("warning: orders_ro: "), "take a column" in err) == (4, times, False), err


@pytest.fixture
def opened(monkeypatch):
    """An entry for each time that the project was opened: each has a Java of its own."""
    found, open_project = [], run_command.open_project

    def opens(*given, **named):
        found.append(given)
        return open_project(*given, **named)

    monkeypatch.setattr(run_command, "open_project", opens)
    monkeypatch.setattr("etc_policy.api.running.LONGEST_WAIT_MS", 1)  # what fails is tried in each round
    return found


@pytest.mark.parametrize(
    ("error", "javas"),
    [
        (EngineError("ETC304", "Hudi failed"), 3),
        (TableError("ETC208", "its metadata cannot be read"), 1),
        (EtcError("ETC405", "it cannot be compacted"), 1),
        (RetryableError("ETC403", "another run is at work"), 1),
    ],
)
def test_java_stays_until_the_engine_fails(rounds, outside, opened, monkeypatch, error, javas):  # noqa: F811
    """A new one costs half a minute, and mends nothing else."""

    def fails(*_, **__):
        raise error

    monkeypatch.setattr(outside, "apply", fails)
    code, _, err = rounds(3)
    assert (code, len(opened)) == (error.exit_code, javas), err


@pytest.mark.parametrize(
    ("error", "javas"), [(EngineError("ETC311", "no variable"), 3), (TableError("ETC208", "x"), 1)]
)
def test_java_stays_until_the_engine_fails_while_it_plans(rounds, opened, monkeypatch, error, javas):
    plain_plan, planned = Project.plan, []

    def fails(*given, **named):
        planned.append(given)
        if len(planned) > 1:
            raise SeveralErrors([error], error.exit_code)
        return plain_plan(*given, **named)

    monkeypatch.setattr(Project, "plan", fails)
    code, _, err = rounds(4)
    assert (code, len(opened)) == (3, javas), err


def test_rows_that_could_not_be_compared_are_compared_by_another_java(rounds, outside, opened, monkeypatch):  # noqa: F811
    """Also where nothing is due any more, as by `etc apply` every time."""
    file = outside.project_dir / "policies" / "a.yml"
    file.write_text(file.read_text().replace("level: metadata}}", "level: data}}", 1))
    plain_check, errors = outside.check, [EngineError("ETC330", "Spark did not read the view")]

    def fails_once(request):
        if errors:
            raise errors.pop()
        return plain_check(request)

    monkeypatch.setattr(outside, "check", fails_once)
    code, said, err = rounds(4)
    assert (code, len(opened), outside.checks) == (0, 2, ["orders_ro"]), err
    assert said[0].endswith("2 compacted, 1 not verified (orders_ro)")


def test_files_are_read_for_each_round(rounds, outside, monkeypatch):  # noqa: F811
    """An error in them ends the first round's process; later it is shown, and mended files are taken."""
    file = outside.project_dir / "policies" / "a.yml"
    right, plain_round = file.read_text(), run_command._round
    texts = iter([right, "version: 2", right])

    def changed(*given, **named):
        file.write_text(next(texts))
        return plain_round(*given, **named)

    monkeypatch.setattr(type(outside), "close", lambda _: None)
    monkeypatch.setattr(run_command, "_round", changed)
    code, said, err = rounds(3)
    assert (code, len(said)) == (0, 2), err
    assert "error[" in err
    file.write_text("version: 2")
    monkeypatch.setattr(run_command, "_round", plain_round)
    assert rounds(1)[0] == 1


@pytest.mark.parametrize("by_link", [False, True])
def test_a_project_that_takes_the_place_of_this_one_is_read(rounds, outside, monkeypatch, tmp_path, by_link):  # noqa: F811
    """Its folder is moved away, and another one, or a link to another one, gets its name; meanwhile none has."""
    here, steps = Path.cwd(), []
    first, second = here.parent / f"{here.name}-1", here.parent / f"{here.name}-2"
    shutil.copytree(here, second)
    (second / "policies" / "b.yml").write_text(
        (second / "policies" / "a.yml").read_text().replace("name: ", "name: new_")
    )
    (second / "policies" / "a.yml").unlink()
    if by_link:
        here.rename(first)
        here.symlink_to(first)
        monkeypatch.setenv("PWD", str(here))
    wait = run_command._wait

    def waits(*given):
        steps.append(len(steps))
        if len(steps) == 1:
            here.unlink() if by_link else here.rename(first)
        if len(steps) == 2:
            here.symlink_to(second) if by_link else second.rename(here)
        wait(*given)

    monkeypatch.setattr(run_command, "_wait", waits)
    _, said, err = rounds(3, "--output", "json")
    assert f"the folder `{here}`, where `etc run` began: No such file or directory" in err
    assert "etc init" not in err
    names = [[table["policy"] for table in json.loads(line)["tables"]] for line in said]
    assert [all(name.startswith("new_") for name in one) for one in names] == [False, True]


def test_a_policy_that_is_disabled_pauses(rounds, outside):  # noqa: F811
    file = outside.project_dir / "policies" / "a.yml"
    file.write_text(file.read_text().replace("{name: orders_ro,", "{name: orders_ro, enabled: false,"))
    assert [line.partition("UTC  ")[2] for line in rounds(1)[1]] == ["1 compacted"]


def test_what_is_beyond_the_budget_waits(rounds):
    _, said, _ = rounds(1, "--max-io", "1B")
    assert [line.partition("UTC  ")[2] for line in said] == ["1 compacted, 1 beyond the budget"]
    _, said, _ = rounds(1, "--max-time", "1s")  # what waited is compacted, and the other table is only looked at
    assert [line.partition("UTC  ")[2] for line in said] == ["1 compacted, 1 nothing due"]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--max-io", "much", "`much`"),
        ("--max-io", "0B", "a size is between 1 byte"),
        ("--max-time", "0s", "`--max-time` must be longer than 0s"),
        ("--every", "0s", "`--every` must be longer than 0s"),
        ("--listen", "9864", "is not of the form HOST:PORT"),
        ("--listen", "127.0.0.1:70000", "is not of the form HOST:PORT"),
        ("--alive", "/no/such/folder/file", "cannot write `/no/such/folder/file`"),
    ],
)
def test_what_its_options_do_not_take(etc, outside, option, value, message):  # noqa: F811
    code, _, err = etc("run", "--rounds", "1", option, value)
    assert code == 64
    assert message in err


def test_it_answers_whether_it_lives_and_touches_a_file(rounds, outside, tmp_path, monkeypatch):  # noqa: F811
    """A process that has made no step for an hour counts as stuck."""
    answers, alive, plain_round = [], tmp_path / "alive", run_command._round

    def asked(*given, **named):
        (url,) = [line.split(" and ")[0].removesuffix("metrics") for line in notes]
        for _ in range(2):
            try:
                answers.append(urllib.request.urlopen(f"{url}healthz").read())
            except urllib.error.HTTPError as error:
                answers.append(error.read())
            monkeypatch.setattr(run_command, "_STUCK_SECONDS", -1)
        answers.append(b"etc_" in urllib.request.urlopen(f"{url}metrics").read())
        return plain_round(*given, **named)

    notes = []
    monkeypatch.setattr(run_command, "show_note", notes.append)
    monkeypatch.setattr(run_command, "_round", asked)
    monkeypatch.setattr(type(outside), "target", Target(), raising=False)
    code, _, err = rounds(1, "--listen", "127.0.0.1:0", "--alive", str(alive))
    assert code == 0, err
    assert answers == [b"ok\n", b"no step for 0ms\n", True]
    assert alive.exists()


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_long_compaction_lives_while_its_run_shows_signs(etc, project, monkeypatch, goes_on):
    """`/healthz` said after an hour that a process was stuck which compacted a large table: it was killed, again and again."""
    monkeypatch.setattr(run_command, "_BEAT_SECONDS", 0.02)
    table = TableFolder(project / "lake" / "orders")
    table.commit(at("08:00:00"), at("08:00:05"), base("f1"))
    beats = [table.meta / ".temp" / at("09:00:00") / f"{number}.marker.CREATE" for number in range(3)]
    life = run_command._Life()
    with Project(project) as opened, FileLease(str(table.base), local=True, progress=lambda _: None) as lease:
        lease.mark(at("09:00:00"))
        with run_command._watched(opened, life):
            life.at_work = opened.policies("orders_ro")
            for marker in beats:
                time.sleep(0.3)
                if goes_on:
                    marker.parent.mkdir(parents=True, exist_ok=True)
                    marker.touch()
            time.sleep(0.2)
            silent_seconds = time.monotonic() - life._at
    assert (silent_seconds < 0.5) == goes_on


@pytest.mark.parametrize("fault", ["a forged lease", "a storage that fails", "a look that fails"])
def test_no_table_ends_the_signs_of_the_others(project, monkeypatch, fault):
    """By a forged lease one table ended the thread: `/healthz` said of a process at work on another that it was stuck."""
    monkeypatch.setattr(run_command, "_BEAT_SECONDS", 0.02)
    for name in ("orders", "payments"):
        TableFolder(project / "lake" / name).commit(at("08:00:00"), at("08:00:05"), base("f1"))
    bad, good = (project / "lake" / name for name in ("orders", "payments"))
    (bad / ".hoodie" / ".etc").mkdir(parents=True)
    forged = LeaseDocument(Owner("t"), instant="/\n::error file=x::forged" if fault == "a forged lease" else "")
    (bad / ".hoodie" / ".etc" / "apply.lease").write_bytes(forged.as_bytes())
    life, sign, look = run_command._Life(), run_signs.sign_of_run, Environment.signs_of_runs
    once = iter((MemoryError(), ValueError()))

    def of_table(storage):
        if fault == "a storage that fails" and storage.location == str(bad):
            raise ValueError("not foreseen")
        return sign(storage)

    def of_all(environment, policies):
        for failure in once if fault == "a look that fails" else ():
            raise failure
        return look(environment, policies)

    monkeypatch.setattr(run_signs, "sign_of_run", of_table)
    monkeypatch.setattr(Environment, "signs_of_runs", of_all)
    with Project(project) as opened, FileLease(str(good), local=True, progress=lambda _: None) as lease:
        lease.mark(at("09:00:00"))
        with run_command._watched(opened, life):
            life.at_work = opened.policies()
            time.sleep(0.3)
            marker = good / ".hoodie" / ".temp" / at("09:00:00") / "1.marker.CREATE"
            marker.parent.mkdir(parents=True)
            marker.touch()
            time.sleep(0.3)
            assert time.monotonic() - life._at < 0.4


def test_what_failed_of_tables_that_are_gone_is_not_kept(etc, project, monkeypatch):
    """Whoever may make folders below a glob filled the memory of the service with what was wrong in each."""
    (project / "policies" / "a.yml").write_text(
        "version: 1\npolicies:\n  - {name: '{table}', tables: {path: lake/*}, event_time_column: ts, data_latency: 1h}\n"
    )
    kept = []

    def another(_until_ms, _stop, life):
        kept.append({name for name, _ in life.failed})
        (project / "lake" / f"bad{len(kept)}").rename(project / "lake" / f"bad{len(kept) + 1}")

    monkeypatch.setattr(run_command, "_wait", another)
    (project / "lake" / "bad1" / ".hoodie" / "hoodie.properties").mkdir(parents=True)
    etc("run", "--rounds", "4", "--every", "10ms")
    assert kept == [{"bad1"}, {"bad2"}, {"bad3"}]


def test_nothing_is_looked_up_beside_a_round(etc, project, monkeypatch):
    """A look-up begins by forgetting which tables are refused, such as two of one name: the round then worked on them."""
    (project / "policies" / "a.yml").write_text(
        "version: 1\npolicies:\n  - {name: '{table}', tables: {path: lake/*}, event_time_column: ts, data_latency: 1h}\n"
    )
    for name in ("orders", "ORDERS"):
        TableFolder(project / "lake" / name).commit(at("08:00:00"), at("08:00:05"), base("f1"))
    monkeypatch.setattr(run_command, "_BEAT_SECONDS", 0.01)
    by, plain, refused = [], namespaces.with_found_tables, []

    def slow(reading, environment, last_tables):
        by.append(threading.current_thread() is threading.main_thread())
        time.sleep(0.2)
        found = plain(reading, environment, last_tables)
        time.sleep(0.2)
        refused.append(len(environment.refused))
        return found

    monkeypatch.setattr(namespaces, "with_found_tables", slow)
    code, _, err = etc("run", "--rounds", "1", "--every", "1s")
    assert (code, err.count("would have one `name`") > 0) == (1, True), err
    assert (set(by), set(refused)) == ({True}, {2})


def test_the_log_of_a_java_that_lives_for_weeks_is_emptied_and_goes_on(etc, project):
    log = project / "target" / "spark.log"
    log.parent.mkdir(exist_ok=True)
    java = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for size, stays in ((sessions.MAX_LOG_BYTES, True), (sessions.MAX_LOG_BYTES + 1, False)):
        os.ftruncate(java, size)
        etc("run", "--rounds", "2", "--every", "10ms")
        os.write(java, b"the last line")
        assert (log.stat().st_size > size) == stays
    os.close(java)
    assert log.read_bytes() == b"the last line"


def test_metrics_are_answered_while_the_files_have_an_error(rounds, outside, monkeypatch):  # noqa: F811
    """They are of the policies as they were; the rounds say what is wrong."""
    file, plain_round, answers, notes = outside.project_dir / "policies" / "a.yml", run_command._round, [], []
    right = file.read_text()

    def asked(*given, **named):
        url = notes[0].split(" and ")[0]
        for text in (right, "version: 2", right):
            file.write_text(text)
            answers.append(b'policy="orders_ro"' in urllib.request.urlopen(url).read())
        return plain_round(*given, **named)

    monkeypatch.setattr(run_command, "show_note", notes.append)
    monkeypatch.setattr(run_command, "_round", asked)
    monkeypatch.setattr(run_command, "_MAX_AGE_SECONDS", 0)
    monkeypatch.setattr(type(outside), "target", Target(), raising=False)
    code, _, err = rounds(1, "--listen", "127.0.0.1:0")
    assert (code, answers) == (0, [True] * 3), err


def test_sigterm_ends_it_after_its_round(rounds, monkeypatch):
    plain_round, begun = run_command._round, []

    def ended_in_the_second(*given, **named):
        begun.append(given)
        if len(begun) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return plain_round(*given, **named)

    monkeypatch.setattr(run_command, "_round", ended_in_the_second)
    code, said, err = rounds(None)
    assert code == 0
    assert len(said) > 1
    assert "ended by SIGTERM" in err


def test_sigterm_ends_a_wait_for_a_run_that_may_be_alive(tmp_path):
    """Whoever may write a table leaves such signs there; and a table of somebody else waited behind it."""
    table = TableFolder(tmp_path / "lake" / "orders")
    pending = at("10:00:06")
    table.plan(pending, OURS)
    beat = table.base / ".hoodie" / ".heartbeat" / pending
    beat.parent.mkdir()
    beat.touch()
    os.utime(beat, (4_070_908_800,) * 2)
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "a.yml").write_text(HOURLY)
    command = [sys.executable, "-m", "etc_policy.cli.main", "run", "--every", "1h"]
    with subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as running:
        try:
            said = next(line for line in running.stderr if "to see whether it is dead" in line)
            running.terminate()
            rest = running.communicate(timeout=20)[1]
        finally:
            running.kill()
    assert "wrote 0 s ago" in said
    assert (running.returncode, "ended by SIGTERM" in rest, "this process is to end" in rest) == (0, True, True), rest


def test_a_round_ends_after_the_tables_that_it_works_on(outside):  # noqa: F811
    """And those that are to go first do."""

    def none_is_compacted():
        return not any("commit" in table.calls for table in outside.tables.values())

    project = Project()
    results = project.apply(
        at=datetime.fromisoformat(NOON), first=["payments_ro"], goes_on=none_is_compacted, check=False
    )
    assert [(one.policy, one.status) for one in results.tables] == [("payments_ro", "compacted")]
    results = project.apply(at=datetime.fromisoformat(NOON), check=False)
    assert [(one.policy, one.status) for one in results.tables] == [
        ("orders_ro", "compacted"),
        ("payments_ro", "nothing_due"),
    ]


def test_a_table_is_read_again_once_something_has_happened_on_it(etc, tmp_path, monkeypatch):
    """Nothing is due, and what is left is not due for a day."""
    table, now_ms = TableFolder(tmp_path / "orders"), time.time_ns() // 1_000_000
    times = [instant_from_ms(now_ms - ago_ms, UTC) for ago_ms in (30_000, 20_000, 10_000)]
    of_group = {"min_event": now_ms - 60_000, "rows": 1}
    table.commit(times[0], times[0], base("f1"))
    table.commit(times[1], times[1], Written("f1", log=True, **of_group))
    (tmp_path / "policies").mkdir()
    text = "version: 1\npolicies: [{name: orders, table: orders, event_time_column: {column: ts, unit: ms}, data_latency: 1d}]"
    (tmp_path / "policies" / "a.yml").write_text(text)
    read, plain_round, reads = Environment.read_state, run_command._round, []
    rounds = 0

    def counted(*given, **named):
        nonlocal rounds
        rounds += 1
        if rounds == 5:
            table.commit(times[2], times[2], Written("f1", log=True, **of_group))
        reads.append(0)
        return plain_round(*given, **named)

    def reading(*given, **named):
        reads[-1] += 1
        return read(*given, **named)

    monkeypatch.setattr(Environment, "read_state", reading)
    monkeypatch.setattr(run_command, "_round", counted)
    code, out, err = etc("run", "--every", "10ms", "--rounds", "6", "--project-dir", str(tmp_path))
    assert code == 0, err
    assert len(out.splitlines()) == 6
    assert reads[0] > 0
    assert reads[1:] == [1, 0, 0, 1, 0]


def test_a_line_that_cannot_be_written_ends_no_round(rounds, monkeypatch):
    """Its standard output was a file on a full disk: no table was compacted any more."""

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(run_command, "say", full)
    code, said, err = rounds(2)
    assert (code, said, err.count("warning[ETC351]")) == (0, [], 2)


def test_what_nobody_has_foreseen_ends_no_service(rounds, monkeypatch):
    policies, asked = Project.policies, []

    def broken(*given, **named):
        asked.append(1)
        if len(asked) == 2:
            raise ValueError("nobody thought of that")
        return policies(*given, **named)

    monkeypatch.setattr(Project, "policies", broken)
    _, said, err = rounds(3)
    assert len(said) == 2
    assert err.count("error[ETC009]: unexpected ValueError: nobody thought of that") == 1


def test_warnings_of_rounds_are_not_kept():
    with click.Context(click.Command("run")) as context:
        report_checks([Issue("ETC154", "a warning", level="warning")])
        assert not context.meta
