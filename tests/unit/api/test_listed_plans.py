"""`etc plan` of tables in a bucket takes the listing from their metadata tables; what `etc apply` does never rests on it."""

from urllib.parse import parse_qs, urlsplit

import pytest

from etc_policy.api.derived_plans import created_ms, require_derived
from etc_policy.api.planning import plan_tables
from etc_policy.api.project import Project
from etc_policy.errors import StalePlanError
from tests.faulty_proxy import faulty_proxy
from tests.unit.adapters.metadata_folder import FIRST, LISTED, MetadataFolder
from tests.unit.adapters.table_folder import TableFolder, archived, at, base, log

MS = 1_711_846_800_123
AS_OF = 1_767_225_600_000
PROJECT = """name: lake
profiles:
  lake:
    target: store
    targets: {{store: {{table_root: "{root}", storage: {{endpoint: "{endpoint}"}}}}}}
"""
POLICY = """version: 1
policies:
  - {name: orders_ro, table: orders, event_time_column: {column: ts, unit: ms}, data_latency: 1h}
"""
OLD = at("00:00:00")
#: Of commits that are archived, so that nothing on the timeline records them.
BASES = {base(one).name(OLD): 100 for one in "fgh"}
LOGS = {log(one).name(at("00:01:00")): 10 for one in "fg"}
LIES = {
    "a log file is hidden": {log("f").name(at("00:01:00")): None},
    "a file group is hidden": {base("g").name(OLD): None, log("g").name(at("00:01:00")): None},
    "a log file is invented": {log("h").name(at("00:01:00")): 10},
    "a base file is hidden": {base("f").name(OLD): None},
    "an invented base file": {base("f").name(at("00:01:00")): 100},
}


@pytest.fixture
def project(tmp_path, moto_server, s3_variables):
    """Makes the project of a table in a bucket whose metadata table says also what is given."""

    def make(lie=None):
        (tmp_path / "policies").mkdir()
        (tmp_path / "policies" / "a.yml").write_text(POLICY)
        table = TableFolder(tmp_path / "lake" / "orders", properties=LISTED)
        old = [archived(OLD, at("00:00:01"), *map(base, "fgh"))]
        logs = [log(one, min_event=MS) for one in "fg"]
        table.data(OLD, *map(base, "fgh"))
        table.data(at("00:01:00"), *logs)
        table.archive(*old, archived(at("00:01:00"), at("00:01:01"), *logs))
        table.commit(at("00:02:00"), at("00:02:01"), log("f", min_event=MS))
        own = MetadataFolder(table)
        own.base(FIRST, at("00:00:00"), {"p": {**BASES, **LOGS}}, "deltacommit")
        written = {log("f").name(at("00:02:00")): 10}
        own.log(at("00:02:00"), at("00:02:00.900"), {"p": {**written, **(lie or {})}})
        root = moto_server.upload(table.base, moto_server.make_bucket(), "lake/orders").removesuffix("/orders")
        settings = tmp_path / "etc_project.yml"
        settings.write_text(PROJECT.format(root=root, endpoint=moto_server.endpoint))
        return Project(tmp_path), settings, root

    return make


def as_applied(project):
    """The plan that `etc apply` makes for itself."""
    return plan_tables(project.environment, project.policies(), AS_OF, read_stats=True).tables[0]


def same(table):
    """What of a plan does not depend on the moment at which it is made."""
    return table.operations, table.watermark_before_ms, table.watermark_after_ms, table.seen


def lists_data(request):
    """Whether it lists the partition, or all that is in the table."""
    query = parse_qs(urlsplit(request[1]).query)
    return "list-type" in query and "delimiter" not in query and ".hoodie" not in query["prefix"][0]


def test_no_folder_is_listed(project, moto_server):
    made, settings, root = project()
    with faulty_proxy(moto_server.endpoint) as proxy:
        settings.write_text(PROJECT.format(root=root, endpoint=proxy.endpoint))
        (table,) = made.plan(at=AS_OF).tables
        count = len(proxy.requests)
        assert not any(map(lists_data, proxy.requests))
        assert same(table) == same(as_applied(made))
        assert any(map(lists_data, proxy.requests[count:]))
    assert [one.file_id for one in table.operations] == ["f", "g"]


def test_a_saved_plan_by_a_right_listing_may_be_carried_out(project):
    made, _, _ = project()
    plan = made.plan(at=AS_OF)
    (policy,) = made.policies()
    require_derived(made.environment, policy, plan.tables[0], created_ms(plan))


@pytest.mark.parametrize("lie", LIES)
def test_a_plan_by_a_lying_listing_is_never_carried_out(project, lie):
    made, _, _ = project(LIES[lie])
    plan = made.plan(at=AS_OF)
    (table,), (policy,) = plan.tables, made.policies()
    right = as_applied(made)
    assert {one.file_id: len(one.log_files_compacted) for one in right.operations} == {"f": 2, "g": 1}
    assert same(table) != same(right)
    with pytest.raises(StalePlanError) as error:
        require_derived(made.environment, policy, table, created_ms(plan))
    assert error.value.code == "ETC441"
    assert "`etc plan --out FILE` and `etc apply` without a plan go by the folders" in error.value.issues[0].hint


@pytest.mark.parametrize("lie", LIES)
def test_a_plan_that_is_saved_to_a_file_goes_by_the_folders(project, lie, tmp_path):
    made, _, _ = project(LIES[lie])
    plan = made.plan(at=AS_OF, out=tmp_path / "saved.json")
    (policy,) = made.policies()
    assert same(plan.tables[0]) == same(as_applied(made))
    require_derived(made.environment, policy, plan.tables[0], created_ms(plan))
