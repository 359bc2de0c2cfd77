"""`--target` and ETC_TARGET: where tables lie and Spark runs; what the environment tells in secret stays secret."""

import json

import pytest

from etc_policy.api import workspace
from etc_policy.api.project import Project
from etc_policy.errors import EngineError, UsageError
from etc_policy.policy.manifest import Policy
from etc_policy.policy.reading import read_own_settings
from etc_policy.spark.client_options import lock_options
from etc_policy.wiring import Environment

PROJECT = """
name: warehouse
vars: {zone: eu}
profiles:
  warehouse:
    target: dev
    targets:
      dev:
        table_root: scratch
        spark: {master: "local[1]"}
      prod:
        table_root: "s3a://lake-{{ var('zone') }}/tables"
        bundle: "{{ env_var('BUNDLE', '/opt/hudi.jar') }}"
        spark:
          master: yarn
          packages: ["org.apache.hadoop:hadoop-aws:3.3.4"]
          confs:
            spark.executor.memory: 4g
            spark.ui.enabled: true
            spark.hadoop.fs.s3a.secret.key: "{{ env_var('S3_SECRET') }}"
        catalog: {type: hive, uri: "thrift://metastore:9083"}
        lock:
          hoodie.write.lock.provider: org.example.Lock
          hoodie.write.lock.password: "{{ env_var('LOCK_SECRET') }}"
"""
SECRETS = {"S3_SECRET": "hunter2-s3", "LOCK_SECRET": "hunter2-lock"}


@pytest.fixture
def targets(project, monkeypatch):
    """The project of conftest with two targets, and the secrets of one in the environment."""
    (project / "etc_project.yml").write_text(PROJECT)
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    return project


def test_variables_of_the_command_line_win(etc, targets):
    """Over those of the project file, and of the file itself; the target's own values are made with them too."""
    head = "vars: {lake: here}\nversion: 1"
    text = (targets / "policies" / "a.yml").read_text()
    (targets / "policies" / "a.yml").write_text(
        text.replace("version: 1", head).replace("lake/orders", "\"{{ var('lake') }}/orders\"")
    )
    for arguments, table in (
        ((), "s3a://lake-eu/tables/here/orders"),
        (("--vars", "zone: us"), "s3a://lake-us/tables/here/orders"),
        (("--vars", '{"lake": "there", "zone": "us"}'), "s3a://lake-us/tables/there/orders"),
    ):
        found = etc("compile", "--output", "json", "--target", "prod", *arguments)
        assert _tables(found[1])[0] == table, found[2]
    assert json.loads(found[1])["vars"] == {"lake": "there", "zone": "us"}
    with Project(targets, target="prod", variables={"zone": "us"}) as project:
        assert project.policies()[0].table == "s3a://lake-us/tables/here/orders"
        assert project.environment.target.table_root == "s3a://lake-us/tables"


NO_VARIABLES = ["", "lake", "[a]", "{zone:us}", "zone:", "{zone: }", "{zone: us, lake:/prod}", "{a: ", "a: 1\na: 2"]


@pytest.mark.parametrize("value", [*NO_VARIABLES, "!!python/name:os.system"])
def test_variables_that_cannot_be_read(etc, targets, value):
    code, out, err = etc("ls", "--vars", value)
    assert (code, out, "--vars" in err, err.count("error[ETC001]")) == (64, "", True, 1)


def test_a_variable_without_a_blank_is_shown_with_one(etc, targets):
    err = " ".join(etc("ls", "--vars", "{lake:/prod}")[2].split())
    assert "the variable `lake:/prod` has no value: put a blank after the colon: `lake: /prod`" in err


@pytest.mark.parametrize(
    ("text", "given", "hint"),
    [
        ("", "{zon: us}", "did you mean `zone`?"),
        ("", "{lake: x}", "the variables are zone"),
        ("vars: {lake: a}\n", "{lke: /prod}", "did you mean `lake`?"),
        ("# {% if false %}{{ var('lake', 1) }}{% endif %}\n", "{lke: /prod}", "did you mean `lake`?"),
    ],
)
def test_a_variable_that_no_file_knows_is_refused(etc, targets, text, given, hint):
    """It would have no effect, and the command would work on the lake that the files name."""
    file = targets / "policies" / "a.yml"
    file.write_text(text + file.read_text())
    for command in ("ls", "parse", "plan"):
        code, out, err = etc(command, "--vars", given)
        assert (code, out) == (64, "")
        assert "error[ETC001]: no file declares or uses the variable `" in err
        assert f"hint: {hint}" in err
    name, value = given.strip("{}").split(": ")
    with Project(targets, variables={name: value}) as opened, pytest.raises(UsageError, match="no file declares"):
        opened.policies()


@pytest.mark.parametrize(
    "text",
    [
        "vars: {lake: a}\n",
        "# {{ var('lake', 1) }}\n",
        "# {% if false %}{{ var('lake') }}{% endif %}\n",
        "# {% set which = 'lake' %}{{ var(which) }}\n",
        "# {% if false %}{{ var('la' ~ 'ke') }}{% endif %}\n",
        "# {% set look = var %}{{ look('lake', 1) }}\n",
    ],
)
def test_a_variable_that_some_file_may_know_is_taken(etc, targets, text):
    file = targets / "policies" / "a.yml"
    file.write_text(text + file.read_text())
    assert etc("parse", "--vars", "{lake: /prod}")[0] == 0


def test_the_state_of_another_target_is_refused(etc, targets):
    assert etc("compile", "--target-dir", "before")[0] == 0
    assert etc("ls", "-s", "state:modified", "--state", "before", "--output", "names")[:2] == (0, "")
    for arguments in (("--target", "prod"), ("--vars", "zone: us")):
        code, out, err = etc("ls", "-s", "state:modified", "--state", "before", *arguments)
        assert (code, out, err.count("error[ETC007]")) == (64, "", 1)


def _tables(out):
    return [policy["table"] for policy in json.loads(out)["policies"]]


def test_tables_start_from_the_root_of_the_target(etc, targets, monkeypatch):
    def orders(*arguments):
        return _tables(etc("compile", "--output", "json", *arguments)[1])[0]

    assert orders() == f"{targets}/scratch/lake/orders"
    assert orders("--target", "prod") == "s3a://lake-eu/tables/lake/orders"
    monkeypatch.setenv("ETC_TARGET", "prod")
    assert orders() == "s3a://lake-eu/tables/lake/orders"
    assert orders("--target", "dev") == f"{targets}/scratch/lake/orders"


@pytest.mark.parametrize(
    ("name", "hint"), [("prdo", "did you mean `prod`?"), ("x", "the targets are dev, prod"), ("default", "dev, prod")]
)
def test_an_unknown_target_is_a_usage_error(etc, targets, name, hint):
    code, out, err = etc("parse", "--target", name)
    assert (code, out) == (64, "")
    assert err.startswith(f"error[ETC005]: there is no target `{name}`")
    assert hint in err


def test_a_project_without_profiles_has_no_targets(etc, project):
    assert etc("parse", "--target", "prod")[0] == 64
    assert etc("parse", "--target", "default")[0] == 0


def test_a_secret_is_asked_for_when_spark_starts_and_not_before(etc, targets, monkeypatch):
    monkeypatch.delenv("S3_SECRET")
    opened = []
    monkeypatch.setattr(workspace, "Environment", lambda *a, **o: opened.append(Environment(*a, **o)) or opened[-1])
    assert etc("parse", "--target", "prod")[0] == 0
    etc("plan", "--target", "prod")
    with pytest.raises(EngineError) as error:
        _ = opened[0].spark
    assert (error.value.code, "`S3_SECRET`" in error.value.message) == ("ETC311", True)
    monkeypatch.setenv("S3_SECRET", "hunter2")
    assert "hunter2" in opened[0]._given_confs().values()


@pytest.mark.parametrize(
    ("given", "local"),
    [
        ((), True),
        (("--target", "prod"), False),
        (("--target", "prod", "--conf", "spark.master=local[2]"), True),
        (("--conf", "spark.master=local-cluster[2,1,1024]"), False),
    ],
)
def test_work_on_a_cluster_may_outlive_this_machine(etc, targets, monkeypatch, given, local):
    """Else a killed run would be taken for dead at once, though its executors go on writing."""
    opened, leases = [], []
    monkeypatch.setattr(workspace, "Environment", lambda *a, **o: opened.append(Environment(*a, **o)) or opened[-1])
    monkeypatch.setattr("etc_policy.run.file_lease.FileLease", lambda _, local, **__: leases.append(local))
    etc("plan", *given)
    opened[0].runner().lease("/t")
    assert leases == [local]


def test_the_settings_of_a_spark_submit_win(etc, targets, monkeypatch):
    """It has started Java with them: work on its cluster outlives this machine, and its bundle is the one that compacts."""
    opened, leases = [], []
    monkeypatch.setattr(workspace, "Environment", lambda *a, **o: opened.append(Environment(*a, **o)) or opened[-1])
    monkeypatch.setattr("etc_policy.run.file_lease.FileLease", lambda _, local, **__: leases.append(local))
    jar = "file:///opt/jars/org.apache.hudi_hudi-spark3.5-bundle_2.12-1.1.1.jar"
    submitted = {"spark.master": "spark://master:7077", "spark.jars": jar}
    monkeypatch.setattr("etc_policy.spark.session.submitted_confs", lambda: submitted)
    etc("plan", "--conf", "spark.master=local[2]")
    opened[0].runner().lease("/t")
    assert leases == [False]
    assert opened[0]._named_bundle == jar


def test_the_target_decides_how_spark_starts(etc, targets, monkeypatch):
    opened = []
    monkeypatch.setattr(workspace, "Environment", lambda *a, **o: opened.append(Environment(*a, **o)) or opened[-1])
    started = []
    monkeypatch.setattr("etc_policy.spark.session.start_spark", lambda *told, **_: started.append(told))
    etc("plan", "--target", "prod", "--conf", "spark.executor.memory=8g")
    opened[0].spark  # noqa: B018 - starts it
    given = {
        "spark.master": "yarn",
        "spark.executor.memory": "8g",
        "spark.ui.enabled": "true",
        "spark.hadoop.fs.s3a.secret.key": SECRETS["S3_SECRET"],
        "spark.hadoop.hive.metastore.uris": "thrift://metastore:9083",
    }
    without = {**given, "spark.sql.catalogImplementation": "in-memory"}
    confs, *others = started[0]
    assert without.items() <= confs.items()
    hidden = confs["spark.redaction.regex"].rpartition("|")[2]
    assert hidden == r"^(?:spark\.hadoop\.fs\.s3a\.secret\.key)$".rpartition("|")[2]
    more = confs.keys() - without.keys() - {"spark.redaction.regex"}
    assert {key[:18] for key in more} == {"spark.hadoop.fs.s3"}  # tables lie there
    assert others == [opened[0].spark_log, "/opt/hudi.jar", ("org.apache.hadoop:hadoop-aws:3.3.4",), 300.0]
    opened[0].session = None
    opened[0].catalog_spark  # noqa: B018 - starts it
    assert started[1][0] == {
        **confs,
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.hive.metastore.client.socket.timeout": "60s",
    }


@pytest.mark.parametrize(
    ("arguments", "mode"),
    [([], None), (["--jobs", "2"], "FAIR"), (["--jobs", "2", "--conf", "spark.scheduler.mode=FIFO"], "FIFO")],
)
def test_tables_share_the_cores_where_several_are_worked_on(etc, targets, monkeypatch, arguments, mode):
    opened, started = [], []
    monkeypatch.setattr(workspace, "Environment", lambda *a, **o: opened.append(Environment(*a, **o)) or opened[-1])
    monkeypatch.setattr("etc_policy.spark.session.start_spark", lambda *told, **_: started.append(told))
    etc("plan", *arguments)
    opened[0].spark  # noqa: B018 - starts it
    assert started[0][0].get("spark.scheduler.mode") == mode


@pytest.mark.parametrize("command", ["parse", "compile", "plan", "freshness", "verify"])
@pytest.mark.parametrize("form", ["text", "json"])
def test_no_secret_reaches_a_file_or_the_terminal(etc, targets, command, form):
    _, out, err = etc(command, "--target", "prod", "--output", form)
    written = "".join(file.read_text() for file in (targets / "target").rglob("*") if file.is_file())
    assert "hunter2" not in out + err + written
    assert "hunter2" not in repr(read_own_settings(str(targets), SECRETS, "prod").target)
    if command == "compile":
        assert "{{ env_var('LOCK_SECRET') }}" in written


def test_the_engine_gets_the_secret(etc, targets, monkeypatch):
    _, out, _ = etc("compile", "--target", "prod", "--output", "json")
    writer = Policy.model_validate(json.loads(out)["policies"][0]).writer
    assert lock_options(writer)["hoodie.write.lock.password"] == SECRETS["LOCK_SECRET"]
    monkeypatch.delenv("LOCK_SECRET")
    with pytest.raises(EngineError, match="LOCK_SECRET"):
        lock_options(writer)


def test_a_policy_with_a_lock_of_its_own_keeps_it(etc, targets):
    text = (targets / "policies" / "a.yml").read_text()
    own = "data_latency: 30m, writer: {lock: {hoodie.write.lock.provider: org.example.Mine}},"
    (targets / "policies" / "a.yml").write_text(text.replace("data_latency: 30m,", own, 1))
    _, out, _ = etc("compile", "--target", "prod", "--output", "json")
    locks = [policy["writer"]["lock"] for policy in json.loads(out)["policies"]]
    assert locks[0] == {"hoodie.write.lock.provider": "org.example.Mine"}
    assert locks[1]["hoodie.write.lock.provider"] == "org.example.Lock"


def test_the_project_file_may_end_in_yaml(etc, targets):
    """It was ignored, with its root of tables, defaults and profiles."""
    (targets / "etc_project.yml").rename(targets / "etc_project.yaml")
    assert etc("parse", "--target", "prod")[0] == 0
    assert _tables(etc("compile", "--output", "json")[1])[0] == f"{targets}/scratch/lake/orders"


def test_a_suite_that_ends_in_yaml_is_checked(etc, project):
    (project / "suites").mkdir()
    (project / "suites" / "a.yaml").write_text("name: a\nexpectations: [\n")
    code, _, err = etc("parse")
    assert (code, "suites/a.yaml:3:1" in err) == (1, True)


def test_a_shipped_suite_is_not_replaced_in_silence(etc, project):
    (project / "suites").mkdir()
    (project / "suites" / "ro_complete.yml").write_text("name: mine\nexpectations: [{type: expect_no_key_twice}]\n")
    code, _, err = etc("parse")
    assert (code, err.count("warning[ETC220]"), err.count("warning[ETC222]: `name` is `mine`")) == (0, 1, 1)
    assert "hint: write `name: ro_complete`, or rename the file" in err


def test_two_policies_do_not_govern_one_table_through_a_link(etc, project):
    """Each would plan to compact it."""
    (project / "store" / "orders").mkdir(parents=True)
    (project / "lake").symlink_to("store")
    (project / "policies" / "b.yml").write_text(
        "version: 1\npolicies:\n  - {name: again_ro, table: store/orders, event_time_column: ts, data_latency: 1h}\n"
    )
    code, _, err = etc("parse")
    assert (code, err.count("error[ETC131]"), "the first is at policies/a.yml" in err) == (1, 1, True)


@pytest.mark.parametrize(
    ("root", "fault"),
    [("hdfs://nn:8020/", None), ("s3://lake", None), ("ftp://lake", "scheme"), ("s3://", "no bucket")],
)
def test_a_root_of_tables_is_a_location_too(etc, project, root, fault):
    (project / "etc_project.yml").write_text(
        f"name: x\nprofiles: {{x: {{target: a, targets: {{a: {{table_root: '{root}'}}}}}}}}\n"
    )
    code, _, err = etc("parse")
    assert (code, "error[ETC132]: the target's `table_root`" in err) == (bool(fault), bool(fault))
    assert (fault or "") in err
