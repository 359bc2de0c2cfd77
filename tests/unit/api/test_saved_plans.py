"""Saved plans of tables of files: `etc apply` looks for the event times that `etc plan` was asked for."""

import pytest

from etc_policy.api.project import Project
from etc_policy.api.saved_plans import created_ms, require_derived
from etc_policy.errors import StalePlanError
from tests.unit.hudi.log_file import avro
from tests.unit.hudi.table_folder import OF_HUDI_0, TableFolder, at, base, log

MS = 1_711_846_800_123
AS_OF = 1_767_225_600_000
POLICY = """version: 1
policies:
  - {name: orders_ro, table: orders, event_time_column: ts, data_latency: 1h}
"""


@pytest.fixture
def folder(tmp_path):
    """Two file groups: of f the commit knows the event times, of g the log file alone, and those are not due."""
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "a.yml").write_text(POLICY)
    table = TableFolder(tmp_path / "orders")
    table.commit(at("00:00:00"), at("00:00:01"), base("f"), base("g"))
    blocks = avro([AS_OF], "long")
    unknown = log("g", size=len(blocks))
    table.commit(at("00:02:00"), at("00:02:01"), log("f", min_event=MS), unknown)
    (table.base / "p" / unknown.name(at("00:02:00"))).write_bytes(blocks)
    return tmp_path


@pytest.mark.parametrize(("metadata_only", "groups"), [(False, ["f"]), (True, ["f", "g"])])
def test_a_plan_is_held_to_what_it_could_know(folder, metadata_only, groups):
    plan = Project(folder, metadata_only=metadata_only).plan(at=AS_OF)
    (table,) = plan.tables
    assert [one.file_id for one in table.operations] == groups
    project = Project(folder)
    (policy,) = project.compile().policies
    require_derived(project.environment, policy, table, created_ms(plan))
    half = table.model_copy(update={"operations": table.operations[1:]})
    with pytest.raises(StalePlanError, match="is due, and not in it") as error:
        require_derived(project.environment, policy, half, created_ms(plan))
    assert error.value.code == "ETC441"


def test_a_plan_that_did_not_read_log_files_is_not_carried_out_where_these_forbid_it(tmp_path):
    """Of table version 6 they alone show what a rollback has left (facts: rolled-back-blocks-shown)."""
    (tmp_path / "policies").mkdir()
    by_slice = POLICY.replace("1h}", "1h, strategy: {granularity: file_slice}}")
    (tmp_path / "policies" / "a.yml").write_text(by_slice)
    listed = {"hoodie.table.metadata.partitions": "files"}
    table = TableFolder(tmp_path / "orders", version=6, properties={**OF_HUDI_0, **listed})
    left = log("f", base_instant=at("00:00:00"))
    table.data(at("00:00:00"), base("f"), left)
    table.commit(at("00:05:00"), "", base("g"))
    table.archive_to_log(1, at("00:00:00"))
    (table.base / "p" / left.name(at("00:00:00"))).write_bytes(avro([MS], "long", header={0: at("00:02:00")}))
    plan = Project(tmp_path, metadata_only=True).plan(at=AS_OF)
    assert [one.action for one in plan.tables] == ["compact"]
    project = Project(tmp_path)
    assert [one.reason_code for one in project.plan(at=AS_OF).tables] == ["files_unclear"]
    (policy,) = project.compile().policies
    with pytest.raises(StalePlanError) as error:
        require_derived(project.environment, policy, plan.tables[0], created_ms(plan))
    assert error.value.code == "ETC441"
