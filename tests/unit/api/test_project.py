"""`Project` does what the commands do: over table folders for what needs no engine, over tables in memory for the rest."""

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime

import pytest

import etc_policy
from etc_policy import Project, writer_options
from etc_policy.errors import EngineError, PolicyError, SeveralErrors, StalePlanError, UsageError
from etc_policy.table.state import Instant
from tests.fakes import MemoryTable
from tests.unit.cli.test_apply import Outside
from tests.unit.hudi.table_folder import TableFolder, at, base, log
from tests.unit.plan.plan_cases import instant
from tests.unit.plan.states import STATE, C

MS = 1_711_846_800_123
POLICY = """version: 1
policies:
  - {name: orders_ro, table: lake/orders, event_time_column: ts, data_latency: 1h,
    strategy: {granularity: log_file}, tags: [a], verify: {level: metadata}}
  - {name: parked, table: lake/parked, event_time_column: ts, data_latency: 1h, enabled: false}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "a.yml").write_text(POLICY)
    table = TableFolder(tmp_path / "lake" / "orders")
    table.commit(at("00:00:00"), at("00:00:01"), base("f"))
    table.commit(at("00:02:00"), at("00:02:01"), log("f", min_event=MS))
    return tmp_path


def test_policies_and_their_faults(folder):
    project = Project(folder)
    assert project.parse() == ()
    assert [policy.name for policy in project.compile().policies] == ["orders_ro", "parked"]
    assert [policy.name for policy in project.policies("tag:a")] == ["orders_ro"]
    with pytest.raises(UsageError, match="no policy is left without `orders_ro`"):
        project.policies(exclude=["orders_ro"])
    with pytest.raises(UsageError, match="no policy `order_ro`"):
        project.policies("order_ro")
    (folder / "policies" / "a.yml").write_text(POLICY.replace("1h", "1 hour"))
    assert {str(issue.code) for issue in project.parse()} == {"ETC116"}
    with pytest.raises(PolicyError):
        project.compile()


def test_writer_options(folder):
    options = writer_options("orders_ro", folder)
    assert options["hoodie.payload.event.time.field"] == "ts"
    assert options == Project(folder).writer_options("orders_ro")
    assert Project(folder).flink_options("orders_ro")["compaction.async.enabled"] == "false"


@pytest.fixture
def locked(folder, monkeypatch):
    """The project with a lock whose address comes from the environment, where it is set."""
    url = "hoodie.write.lock.zookeeper.url: \"{{ env_var('ZK_URL') }}\""
    (folder / "policies" / "a.yml").write_text(POLICY.replace("tags: [a]", f"tags: [a], writer: {{lock: {{{url}}}}}"))
    monkeypatch.setenv("ZK_URL", "zookeeper:2181")
    return folder


def test_writers_get_the_values_of_the_environment(locked, monkeypatch):
    key = "hoodie.write.lock.zookeeper.url"
    with Project(locked, read_once=True) as project:
        assert writer_options("orders_ro", locked)[key] == "zookeeper:2181"
        assert project.flink_options("orders_ro")[key] == "zookeeper:2181"
        monkeypatch.delenv("ZK_URL")
        for verb in (project.writer_options, project.flink_options):
            with pytest.raises(EngineError, match="`ZK_URL` is not set") as error:
                verb("orders_ro")
            assert error.value.code == "ETC311"


def test_compile_says_what_its_files_are_without(locked):
    notes = []
    Project(locked, note=notes.append).compile()
    said = "the files for writers are without `hoodie.write.lock.zookeeper.url`, which comes from the environment"
    assert notes == [f"{said}: set it to `${{ZK_URL}}`"]
    for file in (locked / "target" / "writers").iterdir():
        assert "env_var" not in file.read_text()
        assert "zookeeper:2181" not in file.read_text()


def test_files_that_are_read_anew_may_have_another_target(folder):
    """A process that goes on would take new policies to the old store."""
    settings = """name: lake
profiles:
  p:
    target: t
    targets:
      t: {{jobs: {}, lock: {{hoodie.write.lock.url: "{{{{ env_var('ZK') }}}}"}}, spark: {{confs: {{spark.ui.port: 1}}}}}}
"""
    file = folder / "etc_project.yml"
    file.write_text(settings.format(2))
    with Project(folder, read_once=True) as project:
        project.policies()  # by which it is opened
        before, closed = project.environment, []
        before.close = lambda: closed.append(1)
        project.read_anew()
        assert project.environment is before
        file.write_text("name: [")
        project.read_anew()
        assert project.environment is before
        file.write_text(settings.format(3))
        project.read_anew()
        assert (before.jobs, project.environment.jobs, closed) == (2, 3, [1])


def test_looking_at_a_table_and_its_past(folder):
    table = folder / "lake" / "orders"
    project = Project(folder)
    found = {(finding.subject, finding.check): finding.status for finding in project.debug().findings}
    assert (found["orders_ro", "event times"], found["project", "files"]) == ("ok", "ok")
    assert project.history("orders_ro").base_path == str(table)
    (folder / "policies" / "b.yml").write_text("version: 2\n")
    assert {f.status for f in project.debug().findings if f.check == "files"} == {"error"}


@pytest.fixture
def memory(folder):
    """A project whose table lies in memory."""
    table = MemoryTable(replace(STATE, base_path=str(folder / "lake" / "orders")))
    project = Project(folder)
    project.__dict__["environment"] = Outside(folder, orders_ro=table)
    return project, table


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_apply_of_a_plan(memory):
    project, table = memory
    plan = project.plan(at=NOON)
    table.state = replace(table.state, properties_fingerprint="other")
    with pytest.raises(SeveralErrors, match=r"hoodie\.properties changed"):
        project.apply(plan, at=NOON)
    assert [table.status for table in project.apply(plan, at=NOON, check=False).tables] == ["stale"]


def test_apply_of_a_plan_holds_the_project_to_it_as_the_command_does(memory, folder):
    """A policy that was changed since, or a plan that was, is not carried out; nothing is touched."""
    project, table = memory
    plan = project.plan(at=NOON)
    other = plan.model_copy(update={"tables": tuple(t.model_copy(update={"threshold_ms": 1}) for t in plan.tables)})
    with pytest.raises(UsageError, match="the plan was edited"):
        project.apply(other, at=NOON)
    (folder / "policies" / "a.yml").write_text(POLICY.replace("1h", "2h"))
    with pytest.raises(StalePlanError, match=r"policy `orders_ro` was changed since the plan was made: data_latency"):
        project.apply(plan, at=NOON)
    (folder / "policies" / "a.yml").write_text(POLICY.replace("orders_ro", "other_ro"))
    with pytest.raises(StalePlanError, match="a policy `orders_ro` that this project does not have"):
        project.apply(plan, at=NOON)
    assert table.commits == {}


def test_apply_of_a_plan_touches_only_its_own_tables(memory, folder):
    project, _ = memory
    plan = project.plan(at=NOON)
    (folder / "policies" / "b.yml").write_text(POLICY.replace("orders", "more").replace("parked", "left"))
    assert [result.policy for result in project.apply(plan, at=NOON).tables] == ["orders_ro"]
    assert project.apply(plan, exclude="orders_ro", at=NOON).tables == ()


def test_apply_tells_a_refusal_and_a_failed_verdict(memory):
    project, table = memory
    refused = replace(STATE, instants=(*STATE.instants, Instant(instant("11:59:00"), "clustering", "requested")))
    table.state, whole = refused, table.state
    with pytest.raises(SeveralErrors, match="cannot be compacted now"):
        project.apply(at=NOON)

    def undone(state):  # the log files are back: what the run did is not there when it is verified
        return replace(whole, last_compaction=state.last_compaction) if C in table.commits else state

    table.state = whole
    table.changes = [undone] * 20
    with pytest.raises(SeveralErrors, match="verification of `orders_ro`: fail") as error:
        project.apply(at=NOON)
    assert error.value.exit_code == 1


def test_only_what_is_public_is_there():
    assert dir(etc_policy) == ["Project", "__version__", "writer_options"]
    with pytest.raises(AttributeError, match="has no attribute 'Projekt'"):
        etc_policy.Projekt  # noqa: B018


def test_importing_it_loads_no_engine(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, etc_policy\n"
        "assert 'pydantic' not in sys.modules\n"
        "from etc_policy import Project\n"
        "Project('.')\n"
        "print('LOADED', [n for n in ('pyspark', 'great_expectations', 'pyarrow', 'click') if n in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "LOADED []\n"
