"""A stranger's pull request: whatever its files say, nothing runs, nothing is sent and no variable is shown."""

import inspect
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from traceback import walk_stack

import pytest

from etc_policy.api.arguments import SAFE_VERBS
from etc_policy.api.project import Project
from etc_policy.errors import UsageError
from etc_policy.policy import suggestions
from tests.unit.cli.conftest import POLICY
from tests.unit.hudi.table_folder import TableFolder, at, base, log
from tests.unit.plan.plan_cases import epoch_ms

SECRET = "hunter2-of-the-runner"
COMMANDS = (
    "parse", "compile", "compile --explain", "ls", "plan --metadata-only", "plan", "plan --read-stats --explain", "freshness",
    "freshness --by partition --archived", "simulate", "docs generate",
)  # fmt: skip
#: Of these, such as show or keep different things.
SHOW = ("parse", "compile", "ls", "plan", "docs generate")
#: Where a stranger would have etc look; SERVER is one of theirs, and each would show them the variable.
PLACES = (
    "s3://evil/{{ env_var('ETC_TEST_TOKEN') }}", "s3://evil/x", "s3a://evil/y", "gs://evil/x", "hdfs://SERVER/x",
    "hdfs://SERVER/{{ env_var('ETC_TEST_TOKEN', 'none') }}", "abfs://c@SERVER/x", "abfss://c@evil.dfs.core.windows.net/x",
    "lake.orders", "`lake`.`other`", "/etc", "file:///usr", "file://localhost/var", "out", "out/of/here", "../../..", ".//../x",
    "{{ env_var('HOME') }}/x", "s3://allowed-not/x", "s3://allowed/x", "s3://allowed/../{{ env_var('HOME') }}",
)  # fmt: skip
TARGET = """profiles:
  p:
    target: t
    targets:
      t:
        spark:
          master: local[1]
          confs: {{spark.driver.extraJavaOptions: "-XX:OnOutOfMemoryError='touch {ran}'"}}
          packages: ["evil:evil:1"]
        bundle: ./evil.jar
        catalog: {catalog}
        storage: {{endpoint: "http://{server}", region: us-east-1, instance_role: true}}
notify: {{http: {{url: "http://{server}/notify"}}}}
"""
#: How its files name a place: by a policy, one with a template, a variable, `for_each`, a namespace, a root.
GLUE = ("variable", "namespace")
FORMS = ("policy", "template", "variable", "for_each", "namespace", "root")
REST = (
    "event_time_column: ts, data_latency: 1h, partition_time: {{from: dt=%Y-%m-%d}}, verify: {{suite: mine}}, "
    "done: {{success_file: _S, command: [touch, '{ran}'], http: {{url: 'http://{server}'}}}}"
)
SUITE = "name: mine\nexpectations: [{type: expect_column_values_to_not_be_null, kwargs: {column: id}}]\n"


class Events:
    """What Python was asked to start, and with whom it was asked to speak."""

    def __init__(self):
        self.are_noted, self.seen = False, []

    def note(self, event, arguments):
        if self.are_noted and event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "socket.connect"):
            calls = {frame.f_code.co_name for frame, _ in walk_stack(sys._getframe())}
            is_old = (
                type(threading.current_thread()).__name__ == "FinalizerWorker" or "_garbage_collect_object" in calls
            )
            if not is_old:  # of an earlier test's Spark, when Python, or a thread of its own, comes to it
                self.seen.append((event, str(arguments[:2])))

    @contextmanager
    def noted(self):
        self.seen, self.are_noted = [], True
        try:
            yield
        finally:
            self.are_noted = False


EVENTS = Events()
sys.addaudithook(EVENTS.note)


@pytest.fixture
def server():
    """A stranger's server: its address, and how often somebody came."""
    came = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept():
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                came.append(connection.getpeername())
                connection.close()

        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}", came
        listening.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def stranger(tmp_path, monkeypatch, server):
    """Writes a stranger's project of some form into a repository, and returns it."""
    monkeypatch.setenv("ETC_TEST_TOKEN", SECRET)
    monkeypatch.setenv("ETC_UNTRUSTED", "1")
    monkeypatch.setenv("ETC_ALLOW", "s3://allowed")
    monkeypatch.delenv("ETC_HUDI_BUNDLE", raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "key")

    def write(form, with_variables):
        catalog = "{type: glue, uri: 'http://SERVER'}" if form in GLUE else "{type: hive, uri: 'thrift://SERVER'}"
        project, ran = tmp_path / "warehouse", tmp_path / "ran"
        given = {"server": server[0], "ran": ran}
        (project / "policies").mkdir(parents=True)
        (project / "templates").mkdir()
        (project / "out").symlink_to(tmp_path.parent)
        (project / "suites").mkdir()
        (project / "suites" / "mine.yml").write_text(SUITE)
        places = [one.replace("SERVER", server[0]) for one in PLACES if with_variables or "env_var" not in one]
        files = dict(files_of(form, places, REST.format(**given)))
        settings = files.pop("etc_project.yml", "") + TARGET.format(
            catalog=catalog.replace("SERVER", server[0]), **given
        )
        for name, text in {"etc_project.yml": settings, **files, **bare(ran)}.items():
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            (project / name).write_text(text)
        for command in ("init -q", "add --force .", "-c user.name=n -c user.email=e commit -qm one"):
            subprocess.run(["git", *command.split()], cwd=tmp_path, check=True, capture_output=True)
        return project, ran

    return write


def bare(ran):
    """Files that git takes for a repository, and whose configuration names a program."""
    config = f'[core]\nrepositoryformatversion = 0\nbare = false\nworktree = .\nfsmonitor = "touch {ran}"\n'
    return {"HEAD": "ref: refs/heads/main\n", "config": config, "objects/.keep": "", "refs/heads/.keep": ""}


def test_a_repository_that_came_with_the_files_runs_nothing(tmp_path, monkeypatch, etc):
    """An archive may hold `.git`, whose configuration names a filter that git runs to compare a file."""
    ran, git = tmp_path / "ran", ("git", "-c", "user.name=n", "-c", "user.email=e")
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "a.yml").write_text(POLICY)
    (tmp_path / ".gitattributes").write_text("*.yml filter=theirs\n")
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *command], cwd=tmp_path, check=True, capture_output=True)
    subprocess.run([*git, "config", "filter.theirs.clean", f"touch '{ran}'; cat"], cwd=tmp_path, check=True)
    os.utime(tmp_path / "policies" / "a.yml", (0, 0))
    monkeypatch.chdir(tmp_path)
    for command in COMMANDS:
        etc(*command.split(), "--untrusted")
        assert not ran.exists(), command
    subprocess.run([*git, "status"], check=True, capture_output=True)
    assert ran.exists()


def files_of(form, places, rest):
    def policies(*lines):
        return "version: 1\npolicies:\n" + "".join(f"  - {{{line}}}\n" for line in lines)

    quoted = [json.dumps(place) for place in places]
    if form == "policy":
        yield "policies/a.yml", policies(*(f"name: p{n}, table: {one}, {rest}" for n, one in enumerate(quoted)))
    elif form == "template":
        yield "templates/t.yml", f"version: 1\ntemplate: {{{rest}}}\n"
        yield "policies/a.yml", policies(*(f"name: p{n}, extends: t, table: {one}" for n, one in enumerate(quoted)))
    elif form == "variable":
        names = "".join(f"  v{n}: {one}\n" for n, one in enumerate(quoted))
        yield "etc_project.yml", f"vars:\n{names}"
        yield (
            "policies/a.yml",
            policies(*(f"name: p{n}, table: \"{{{{ var('v{n}') }}}}\", {rest}" for n in range(len(quoted)))),
        )
    elif form == "for_each":
        yield (
            "policies/a.yml",
            policies(
                f'name: "p{{{{ each.n }}}}", table: "{{{{ each.t }}}}", {rest}, for_each: ['
                + ", ".join(f"{{n: {n}, t: {one}}}" for n, one in enumerate(quoted))
                + "]"
            ),
        )
    elif form == "namespace":
        globs = [json.dumps(f"{place}/*") for place in places if "." not in place.strip("./")]
        lines = [f'name: "p{n}_{{table}}", tables: {{path: {one}}}, {rest}' for n, one in enumerate(globs)]
        yield "policies/a.yml", policies(*lines, f'name: "c_{{table}}", tables: {{catalog: lake}}, {rest}')
    else:
        yield "etc_project.yml", f"vars: {{root: {quoted[0]}}}\n"
        yield "policies/a.yml", policies(f"name: p, table: \"{{{{ var('root') }}}}/x\", {rest}")


def shown(folder):
    return [path for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


@pytest.mark.parametrize("with_variables", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_strangers_files_run_nothing_send_nothing_and_show_nothing(
    stranger, server, etc, monkeypatch, form, with_variables
):
    """Those with a variable in them are errors; the others are as right as can be, and are planned but for their places."""
    project, ran = stranger(form, with_variables)
    monkeypatch.chdir(project)
    for command in COMMANDS:
        with EVENTS.noted():
            _, out, err = etc(*command.split())
        assert "not trusted" in err
        assert "ETC009" not in err, (command, err)
        assert SECRET not in out + err, command
        assert EVENTS.seen == [], command
    assert (server[1], ran.exists(), shown(project)) == ([], False, [])
    refused = json.loads(etc("plan", "--output", "json")[1] or '{"tables": []}')["tables"]
    assert {one["action"] for one in refused} <= {"refused"}
    assert bool(refused) != with_variables, etc("parse")


def table_in(folder):
    table = TableFolder(folder)
    table.commit(at("10:00:00"), at("10:00:05"), base("f1"))
    table.commit(at("11:00:00"), at("11:00:05"), log("f1", min_event=epoch_ms("10:30:00")))


def test_what_is_allowed_is_planned(tmp_path, monkeypatch, etc):
    """Its own folder is; another one, and a variable, by their names."""
    lake, project = tmp_path / "lake", tmp_path / "project"
    (project / "policies").mkdir(parents=True)
    table_in(lake / "orders")
    table_in(project / "lake" / "payments")
    text = POLICY.replace("lake/orders", "\"{{ env_var('ETC_TEST_LAKE') }}/orders\"")
    (project / "policies" / "a.yml").write_text(text)
    monkeypatch.chdir(project)
    monkeypatch.setenv("ETC_TEST_LAKE", str(lake))
    at_noon = ("plan", "--at", "2026-01-01T12:00:00Z", "--untrusted", "--output", "json", "--allow", "ETC_TEST_LAKE")

    def actions(*allow):
        code, out, _ = etc(*at_noon, *allow)
        return code, {one["policy"]: one["action"] for one in json.loads(out)["tables"]}

    assert actions("--allow", str(lake)) == (0, {"orders_ro": "compact", "payments_ro": "compact"})
    assert actions("--allow", str(tmp_path / "lak")) == (1, {"orders_ro": "refused", "payments_ro": "compact"})
    code, _, err = etc(*at_noon[:-2])
    assert (code, "`ETC_TEST_LAKE` has no value" in err) == (1, True)


def of_spark(text):
    return {"etc_project.yml": f"profiles: {{p: {{target: t, targets: {{t: {{{text}}}}}}}}}\n"}


def of_policy(text):
    return {"policies/a.yml": POLICY.replace("data_latency: 30m,\n", f"data_latency: 30m, {text},\n", 1)}


GIVEN = "{{ env_var('ETC_TEST_TOKEN') }}"
FILE_LOCK = "hoodie.write.lock.provider: org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
#: Wherever files name a variable, or may have one filled in later.
USES = {
    "spark.x": of_spark(f'spark: {{confs: {{spark.x: "{GIVEN}"}}}}'),
    "spark.jars": of_spark(f'spark: {{confs: {{spark.jars: "{GIVEN}"}}}}'),
    "a jar": of_spark(f'spark: {{confs: {{spark.jars: "hudi-spark3.5-bundle_2.12-{GIVEN}.jar"}}}}'),
    "a release": of_spark(f'spark: {{confs: {{spark.jars: "hudi-spark3.5-bundle_2.12-1.2.0-{GIVEN}.jar"}}}}'),
    "packages": of_spark(
        f'spark: {{confs: {{spark.jars.packages: "org.apache.hudi:hudi-spark3.5-bundle_2.12:{GIVEN}"}}}}'
    ),
    "a default": of_spark(
        "spark: {confs: {spark.jars: \"hudi-spark3.5-bundle_2.12-{{ env_var('ETC_TEST_TOKEN', '1.1.1') }}.jar\"}}"
    ),
    "bundle": of_spark(f'bundle: "hudi-spark3.5-bundle_2.12-{GIVEN}.jar"'),
    "lock": of_spark(f'lock: {{{FILE_LOCK}, hoodie.write.lock.filesystem.path: "lake/{GIVEN}"}}'),
    "storage": of_spark(f'storage: {{endpoint: "http://127.0.0.1:1/{GIVEN}", region: "{GIVEN}"}}'),
    "catalog": of_spark(f'catalog: {{type: hive, uri: "thrift://{GIVEN}"}}'),
    "writer.lock": of_policy(f'writer: {{lock: {{{FILE_LOCK}, hoodie.write.lock.filesystem.path: "lake/{GIVEN}"}}}}'),
    "hudi_options": of_policy(f'hudi_options: {{hoodie.parquet.compression.codec: "{GIVEN}"}}'),
    "mergers": of_policy(f'hudi_options: {{hoodie.write.record.merge.custom.implementation.classes: "{GIVEN}"}}'),
    "done.http": of_policy(
        "partition_time: {from: dt=%Y-%m-%d}, "
        "done: {http: {url: 'http://127.0.0.1:1/', secret_headers: {Authorization: ETC_TEST_TOKEN}}}"
    ),
    "notify": {"etc_project.yml": "notify: {http: {url: 'http://127.0.0.1:1/', secret_headers: {X: ETC_TEST_TOKEN}}}\n"},
    "slack": {"etc_project.yml": "notify: {slack: {webhook: ETC_TEST_TOKEN}}\n"},
}  # fmt: skip


@pytest.mark.parametrize("use", USES)
def test_nothing_says_what_a_variable_holds_nor_whether_it_is_set(project, etc, monkeypatch, use):
    """All commands say and write the same whatever it holds: a secret, a release of Hudi, nothing, or not being there."""
    monkeypatch.delenv("ETC_HUDI_BUNDLE", raising=False)
    monkeypatch.setattr("etc_policy.wiring.time.time_ns", lambda: epoch_ms("12:00:00") * 1_000_000)
    table_in(project / "lake" / "orders")
    for name, text in USES[use].items():
        (project / name).write_text(text)

    def said(value):
        if value is None:
            monkeypatch.delenv("ETC_TEST_TOKEN", raising=False)
        else:
            monkeypatch.setenv("ETC_TEST_TOKEN", value)
        shutil.rmtree(project / "target", ignore_errors=True)
        told = [(command, *etc(*command.split(), "--untrusted")) for command in COMMANDS]
        kept = [(path.name, path.read_text()) for path in sorted((project / "target").rglob("*.*")) if path.is_file()]
        assert (SECRET in str(told), [name for name, text in kept if SECRET in text]) == (False, [])
        return [re.sub(r"\b[0-9a-f]{8,}\b|[\d ]+", "0", str(one)) for one in (*told, *kept)]

    without = said(None)
    for value in (SECRET, "1.0.2", ""):
        assert said(value) == without, value


@pytest.mark.parametrize(("allow", "release"), [((), None), (("--allow", "ETC_TEST_TOKEN"), "1.1.1")])
def test_a_variable_that_is_allowed_names_the_release(project, etc, monkeypatch, allow, release):
    monkeypatch.setenv("ETC_TEST_TOKEN", "1.1.1")
    monkeypatch.delenv("ETC_HUDI_BUNDLE", raising=False)
    table_in(project / "lake" / "orders")
    for name, text in USES["a jar"].items():
        (project / name).write_text(text)
    _, out, _ = etc("plan", "--at", "2026-01-01T12:00:00Z", "--untrusted", "--output", "json", *allow)
    assert json.loads(out)["tables"][0]["release"] == release


def test_each_other_verb_refuses(project, monkeypatch):
    """Those that act, and those that give variables away."""
    verbs = {name for name, one in inspect.getmembers(Project, inspect.isfunction) if not name.startswith("_")}
    assert SAFE_VERBS - {"__init__"} <= verbs
    monkeypatch.setenv("ETC_UNTRUSTED", "1")
    with Project(project) as opened:
        for verb in sorted(verbs - SAFE_VERBS):
            given = ["orders_ro"] * (
                verb in ("writer_options", "flink_options", "wait", "history", "kept_beside", "forget")
            )
            with pytest.raises(UsageError, match="not trusted"):
                getattr(opened, verb)(*(["options"] if verb == "writer_form" else given))
        with pytest.raises(UsageError, match="not trusted"):
            opened.freshness(notify=True)
    assert Project(project, untrusted=False).apply is not None


def test_a_region_is_no_part_of_another_server_s_name(project, etc):
    (project / "etc_project.yml").write_text(
        "profiles: {p: {target: t, targets: {t: {storage: {region: 'x.evil.example/'}}}}}\n"
    )
    code, _, err = etc("parse")
    assert (code, "evil.example" in err) == (1, True)
    assert os.environ.get("ETC_UNTRUSTED") is None


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """A stranger's project with one policy for a table of its own, and a folder of tables elsewhere, `payroll` in it."""
    monkeypatch.setenv("ETC_UNTRUSTED", "1")
    project, secret = tmp_path / "project", tmp_path / "secret"
    (project / "policies").mkdir(parents=True)
    table_in(project / "lake" / "orders")
    table_in(secret / "payroll")
    (project / "policies" / "a.yml").write_text(
        "version: 1\npolicies:\n  - {name: o, table: lake/orders, event_time_column: ts, data_latency: 1h}\n"
    )
    monkeypatch.chdir(project)
    return project, secret


REST = "event_time_column: ts, data_latency: 1h"


def declare(project, line):
    (project / "policies" / "b.yml").write_text(f"version: 1\npolicies:\n  - {{{line}, {REST}}}\n")


@pytest.mark.parametrize(
    "glob", ["SECRET/*", "../secret/*", "../*/*", "out/*", "./out/../out/p*", "{out}", "file://SECRET/*"]
)
@pytest.mark.parametrize("form", ["for_each", "namespace"])
def test_no_glob_shows_what_lies_elsewhere(beside, etc, form, glob):
    project, secret = beside
    (project / "out").symlink_to(secret)
    text = json.dumps(glob.replace("SECRET", str(secret)).replace("{out}", "*/*"))
    if form == "for_each":
        declare(project, f'name: "{{{{ each.name }}}}", table: "{{{{ each.path }}}}", for_each: {text}')
    else:
        declare(project, f'name: "x_{{table}}", tables: {{path: {text}}}')
    for command in SHOW:
        _, out, err = etc(*command.split())
        assert "payroll" not in out + err, command
    assert [path for path in project.rglob("*") if path.is_file() and b"payroll" in path.read_bytes()] == []


@pytest.mark.parametrize(
    "link",
    [
        "2026",
        ".hoodie/hoodie.properties",
        f".hoodie/timeline/{at('11:00:00')}_{at('11:00:05')}.deltacommit",
        ".hoodie/.etc",
        "dt=1/f.parquet",
    ],
)
def test_a_table_with_a_link_out_of_the_project_is_refused_alone(beside, etc, link):
    """Else its listing, or what cannot be read of it, would show what lies there, and so would what lies in `.git`."""
    project, secret = beside
    table_in(project / "lake" / "evil")
    place = project / "lake" / "evil" / link
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    place.symlink_to(secret / "payroll")
    declare(project, "name: evil, table: lake/evil")
    for at_noon in (("--at", "2026-01-01T12:00:00Z"), ()):
        _, out, err = etc("plan", *at_noon, "--output", "json")
        found = {one["policy"]: one["action"] for one in json.loads(out)["tables"]}
        assert (found["evil"], found["o"] != "refused") == ("refused", True)
        assert "it is a link, and none is followed there" in err
        assert "payroll" not in out + err
    declare(project, 'name: "x_{table}", tables: {path: "lake/e*"}')
    assert "payroll" not in "".join(map(str, etc("plan")))


@pytest.mark.parametrize(
    "folder", ["file://PROJECT/out/..", "file:PROJECT/out/..", "PROJECT/out/..", "out/..", "lake/../out/.."]
)
def test_no_link_changes_where_two_points_lead(beside, etc, folder):
    """In the text they lead to the project, and from what the link leads to beside that."""
    project, secret = beside
    (secret / "deep").mkdir()
    (project / "out").symlink_to(secret / "deep")
    place = folder.replace("PROJECT", str(project))
    each = "name: '{{ each.name }}', table: '{{ each.path }}', for_each: "
    for line in (f"name: evil, table: {json.dumps(f'{place}/payroll')}", f"{each}{json.dumps(f'{place}/*')}"):
        declare(project, line)
        _, out, _ = etc("plan", "--output", "json")
        found = {one["policy"]: one["action"] for one in json.loads(out or '{"tables": []}')["tables"]}
        assert found.pop("evil", "refused") == "refused"
        assert "payroll" not in found


@pytest.mark.parametrize("has_namespace", [False, True])
def test_no_message_says_where_a_link_beside_the_project_leads(beside, etc, has_namespace):
    """That two policies have one table was said where a link led to what the other one names, and not elsewhere."""
    project, secret = beside
    more = f"  - {{{REST}, name: '{{table}}_ro', tables: {{path: lake/*}}}}\n" if has_namespace else ""

    def said(link, guess):
        two = "".join(f"  - {{{REST}, name: {name}, table: {table}}}\n" for name, table in (("a", link), ("b", guess)))
        (project / "policies" / "b.yml").write_text(f"version: 1\npolicies:\n{two}{more}")
        return str([etc(command) for command in ("parse", "ls", "compile")]).replace(str(guess), "GUESS")

    (secret.parent / "hidden").symlink_to(secret / "payroll")
    (project / "out").symlink_to(secret.parent / "hidden")
    told = said("out", secret / "payroll")
    assert told == said("out", secret / "nothing")
    assert "ETC131" not in told
    (project / "own").symlink_to(project / "lake" / "flights")
    assert "ETC131" in said("own", "lake/flights")


def test_a_link_to_what_is_allowed_is_followed(beside, etc):
    project, secret = beside
    (project / "lake" / "more").symlink_to(secret / "payroll")
    declare(project, "name: more, table: lake/more")
    _, out, _ = etc("plan", "--at", "2026-01-01T12:00:00Z", "--output", "json", "--allow", secret.as_uri())
    assert {one["policy"]: one["action"] for one in json.loads(out)["tables"]} == {"o": "compact", "more": "compact"}


def test_a_link_is_no_way_to_what_git_keeps_or_to_names_of_suites(beside, etc):
    project, secret = beside
    (project / ".git").mkdir()
    (project / ".git" / "config").write_text("[http]\n\textraheader = AUTHORIZATION: basic payroll\n")
    (project / "policies" / "c.yml").symlink_to("../.git/config")
    (secret / "payroll.yml").touch()
    (project / "suites").symlink_to(secret)
    declare(project, "name: p, table: t, verify: {suite: nothing}")
    for command in SHOW:
        code, out, err = etc(*command.split())
        assert (code, "payroll" in out + err) == (1, False), command


@pytest.mark.parametrize("claim", ["name: same", "name: '{{ each.name }}_ro', sync: {ro_table: lake.same}"])
@pytest.mark.parametrize("place", ["hdfs://SERVER/x", "s3://any", "SECRET"])
def test_nobody_elsewhere_is_asked_which_of_two_tables_was_first(beside, etc, server, monkeypatch, place, claim):
    """It went to any server with a signature and the session token of the runner, and into any folder."""
    project, secret = beside
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "key")
    storage = f"{{storage: {{endpoint: 'http://{server[0]}', timeout: 2s}}}}"
    (project / "etc_project.yml").write_text(f"profiles: {{p: {{target: t, targets: {{t: {storage}}}}}}}\n")
    for name in "ab":
        table_in(project / "found" / name)
    table = f"{place}/{{{{ each.name }}}}".replace("SERVER", server[0]).replace("SECRET", str(secret))
    declare(project, f'{claim}, for_each: found/*, table: "{table}"')

    def said():
        return [(code, re.sub(r"\d", "", out + err)) for code, out, err in (etc(*one.split()) for one in SHOW)]

    before = said()
    (secret / "a" / ".hoodie" / ".etc").mkdir(parents=True)
    (secret / "a" / ".hoodie" / ".etc" / "place").write_text("secret/a")  # as etc has it where it worked
    assert (said(), server[1]) == (before, [])
    _, out, _ = etc("plan", "--output", "json")
    assert {one["policy"]: one["action"] for one in json.loads(out)["tables"]}["o"] != "refused"


def test_a_server_that_reads_like_an_allowed_one_is_not_asked(beside, etc, server, monkeypatch):
    project, _ = beside
    monkeypatch.setenv("ETC_ALLOW", "s3://lake http://127.0.0.1:1")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "key")
    declare(project, "name: p, table: s3://lake/t")
    for endpoint in (f"http://{server[0]}/../127.0.0.1:1", f"http://127.0.0.1:1@{server[0]}", f"http://{server[0]}"):
        storage = f"{{endpoint: {json.dumps(endpoint)}, timeout: 2s}}"
        (project / "etc_project.yml").write_text(
            f"profiles: {{p: {{target: t, targets: {{t: {{storage: {storage}}}}}}}}}\n"
        )
        code, _, _ = etc("plan")
        assert (code, server[1]) == (1, []), endpoint


def test_no_other_server_is_asked_than_the_one_that_is_allowed(beside, etc, monkeypatch):
    """Nor the provider of a bucket's name where an owner has a server of their own, nor the machine for its role."""
    project, _ = beside
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "key")
    declare(project, "name: p, table: s3://lake/t")
    monkeypatch.setenv("ETC_ALLOW", "s3://lake http://127.0.0.1:1")
    assert "by the server that is allowed alone" in etc("plan")[2]
    storage = "{endpoint: 'http://127.0.0.1:1', instance_role: true, timeout: 2s}"
    (project / "etc_project.yml").write_text(
        f"profiles: {{p: {{target: t, targets: {{t: {{storage: {storage}}}}}}}}}\n"
    )
    assert "may not use `instance_role`" in etc("plan")[2]
    monkeypatch.setenv("ETC_ALLOW", "s3://lake http://127.0.0.1:1 instance_role")
    assert "ETC008" not in etc("plan")[2]


@pytest.mark.parametrize("command", ["freshness", "simulate"])
def test_a_table_that_is_named_by_its_path_is_none_of_a_stranger(beside, etc, command, monkeypatch):
    code, _, err = etc(command, "./lake")
    assert (code, "PATH is a table of your own" in err) == (64, True)
    monkeypatch.setenv("ETC_UNTRUSTED", "0")
    assert "PATH is a table of your own" not in etc(command, "./lake")[2]


OUTPUTS = (
    "parse --junit-xml target/parse.xml", "plan --junit-xml target/parse.xml", "freshness --summary target/parse.xml",
    "plan --out target/parse.xml", "simulate --html target/parse.xml", "docs generate --out target/parse.xml",
    "compile", "plan --target-dir target", "parse --junit-xml ./target/parse.xml",
)  # fmt: skip


@pytest.mark.parametrize("link", ["target", "target/parse.xml"])
@pytest.mark.parametrize("command", OUTPUTS)
def test_nothing_is_written_through_a_link_that_came_with_the_files(beside, etc, command, link):
    """Neither out of the project nor in it, where `policies` or `.git` would get files that other commands read."""
    project, secret = beside
    for leads_to in (secret, project / "policies"):
        place = project / link
        place.parent.mkdir(exist_ok=True)
        place.symlink_to(leads_to if link == "target" else leads_to / "file.xml")
        before = sorted(leads_to.rglob("*"))
        code, _, err = etc(*command.split())
        if link == "target" or "parse.xml" in command:
            assert (code in (3, 64), "link" in err) == (True, True), (command, err)
        assert sorted(leads_to.rglob("*")) == before
        place.unlink()


def test_a_project_s_folder_that_is_a_link_is_not_opened(beside, etc, monkeypatch):
    """Else its own folder, which may always be reached, would be another one."""
    project, _ = beside
    monkeypatch.chdir(project)
    (project / "warehouse").symlink_to(project.parent)
    for folder in ("warehouse", "./warehouse/project", str(project / "warehouse")):
        code, out, err = etc("ls", "--project-dir", folder)
        assert (code, out, f"`{project / 'warehouse'}` is a link" in err) == (64, "", True)
    monkeypatch.chdir("/")
    code, _, err = etc("ls", "--project-dir", str(project / "warehouse"))
    assert (code, "is a link" in err) == (64, True)
    monkeypatch.setenv("ETC_UNTRUSTED", "0")
    assert etc("ls", "--project-dir", str(project / "warehouse" / "project"))[0] == 0


def test_outputs_of_the_runner_are_written(beside, etc, tmp_path):
    """A link beside the checkout is the runner's, as are devices."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert etc("parse", "--junit-xml", str(tmp_path / "link" / "a.xml"), "--summary", "/dev/stderr")[0] == 0
    assert (tmp_path / "real" / "a.xml").exists()


@pytest.mark.parametrize("form", ["variables", "templates", "expectations"])
def test_few_words_are_looked_for_in_a_project(beside, etc, monkeypatch, form):
    """Each may take a tenth of a second, and a file of 1 MiB has ten thousand."""
    project, _ = beside
    looked_for, names = [], [f"{'a' * 40}{number:06d}" for number in range(700)]
    look = suggestions.get_close_matches
    monkeypatch.setattr(
        suggestions,
        "get_close_matches",
        lambda word, known, **how: looked_for.append(len(known)) or look(word, known[:1], **how),
    )
    rest, more = "event_time_column: ts, data_latency: 1h", ""
    if form == "variables":
        more = "vars:\n" + "".join(f"  {name}: 1\n" for name in names)
        lines = [f"{{name: p{n}, table: \"{{{{ var('{one}b') }}}}\", {rest}}}" for n, one in enumerate(names)]
    elif form == "templates":
        (project / "templates").mkdir()
        for name in names[:300]:
            (project / "templates" / f"{name}.yml").write_text("version: 1\ntemplate: {tags: [a]}\n")
        lines = [f"{{name: p{n}, table: t{n}, extends: {one}b, {rest}}}" for n, one in enumerate(names)]
    else:
        (project / "suites").mkdir()
        suite = "".join(f"  - type: expect_column_values_to_be_betwxeen_{n}\n" for n in range(500))
        (project / "suites" / "mine.yml").write_text(f"name: mine\nexpectations:\n{suite}")
        lines = [f"{{name: p, table: t, verify: {{suite: mine}}, {rest}}}"]
    text = f"version: 1\n{more}policies:\n" + "".join(f"  - {line}\n" for line in lines)
    (project / "policies" / "b.yml").write_text(text)
    code, _, err = etc("parse")
    assert (code, "errors" in err) == (1, True), err
    assert 0 < len(looked_for) <= 50
    assert max(looked_for) <= 600


def test_a_version_that_is_wanted_is_quoted_to_paste(beside, etc):
    project, _ = beside
    (project / "etc_project.yml").write_text('require_etc: "===`touch${IFS}here`"\n')
    assert "run `pip install 'etc-policy===`touch${IFS}here`'`" in etc("parse")[2]


@pytest.mark.parametrize("place", ["cache", "PROJECT/lake", "link"])
def test_a_cache_among_their_files_is_not_believed(beside, etc, monkeypatch, place):
    project, secret = beside
    (secret / "link").symlink_to(project)
    monkeypatch.setenv("ETC_CACHE", str(secret / "link") if place == "link" else place.replace("PROJECT", str(project)))
    code, _, err = etc("plan")
    assert (code, "lies among files that are not trusted" in err) == (64, True)
    monkeypatch.setenv("ETC_CACHE", str(secret / "cache"))
    assert etc("plan")[0] == 0
    monkeypatch.setenv("ETC_CACHE", place)
    monkeypatch.setenv("ETC_UNTRUSTED", "0")
    assert etc("plan")[0] == 0


def test_no_files_are_made_of_a_stranger_s_project(beside, etc, monkeypatch):
    """They would hold what its files make of any variable."""
    project, _ = beside
    monkeypatch.setenv("DEPLOY_TOKEN", "hunter2")
    declare(project, """name: b, table: "s3://b/{{ env_var('DEPLOY_TOKEN') | reverse }}/x\"""")
    code, _, err = etc("init", str(project), "--with", "github")
    assert (code, "`init` is not for files that are not trusted" in err) == (64, True)
    assert not (project / ".github").exists()
    assert etc("init", str(project / "new"), "--with", "github")[0] == 0


def test_so_it_is_where_another_variable_names_its_folder(beside, etc, monkeypatch):
    """As CI does that keeps a checkout's `.cache`; the project may lie in a folder of the checkout."""
    project, _ = beside
    monkeypatch.delenv("ETC_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(project.parent / ".cache"))
    monkeypatch.chdir(project.parent)
    code, _, err = etc("plan", "--project-dir", str(project))
    assert (code, "lies among files that are not trusted" in err) == (64, True)


LONG = (
    "# ? one\n" * 100_000 + "version: 1\npolicies: []\n",
    'version: 1\npolicies: [{name: p, table: "'
    + "{{ 1 }}" * 100_000
    + '", event_time_column: ts, data_latency: 1h}]\n',
    "version: 1\npolicies: [{name: p, table: x, event_time_column: {column: ts, format: "
    + "y" * 900_000
    + "}, data_latency: 1h}]\n",
)


@pytest.mark.parametrize("text", LONG, ids=["questions", "expressions", "pattern"])
def test_the_time_of_a_file_goes_by_its_length(beside, etc, text):
    """And not by the square of it, which were ten minutes of each of these."""
    project, _ = beside
    (project / "policies" / "b.yml").write_text(text)
    began = time.thread_time()
    etc("parse")
    assert time.thread_time() - began < 15
