"""A table whose metadata files were cut short anywhere: an error of ours, or a plan that is as safe as the whole table's."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etc_policy.errors import EtcError
from etc_policy.hudi import properties as hudi_properties
from etc_policy.hudi import stable_reading
from etc_policy.hudi.log_times import fill_from_logs
from etc_policy.hudi.table import FileTableReader
from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.model import TablePlan
from etc_policy.policy.manifest import EventTime, Policy, Strategy
from etc_policy.storage.object_cache import ObjectCache
from tests.unit.hudi.reading import OURS
from tests.unit.hudi.table_folder import TableFolder, archived, at, base, log

NOON_MS = 1_767_268_800_000
EVENT_MS = NOON_MS - 3_600_000
POLICY = Policy(name="orders_ro", table="/t", event_time=EventTime(column="ts"), data_latency_ms=1_800_000)


def lived_in(folder, *, version, pending=False):
    """A table with every kind of file on its timeline; log files on both sides of the cut, and archived commits."""
    table = TableFolder(folder, version=version)
    named = {"base_instant": at("10:00:00")} if version < 8 else {}
    if version >= 8:
        first = (base("f1"), base("f2"), base("f3"), base("f9"))
        table.data(at("09:00:00"), *first)
        table.data(at("09:10:00"), log("f2", EVENT_MS))
        table.archive(
            archived(at("09:00:00"), at("09:00:01"), *first),
            archived(at("09:10:00"), at("09:10:01"), log("f2", EVENT_MS)),
        )
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"), base("f2") if version < 8 else log("f2", EVENT_MS))
    table.commit(at("10:01:00"), at("10:01:01"), log("f1", EVENT_MS, **named), log("f2", EVENT_MS, deletes=1, **named))
    table.compaction(at("10:02:00"), at("10:02:05"), base("f1"), extra=OURS, plan_extra=OURS)
    if version >= 8:
        table.replace(at("10:03:00"), at("10:03:05"), base("f5"), replaced={"p": ["f9"]})
        table.data(at("10:02:30"), log("f9", EVENT_MS))
        table.commit(at("10:04:00"), at("10:04:01"), log("f1", EVENT_MS), log("f3", EVENT_MS))
        table.log_compaction(at("10:04:30"), at("10:04:31"), log("f5"))
    table.rollback(at("10:05:00"), at("10:05:05"), log("f3").name(at("10:04:50")))
    table.clean(at("10:06:00"), at("10:06:05"), at("10:00:00"))
    table.commit(at("11:50:00"), at("11:50:01"), log("f1", NOON_MS, **named), log("f3", NOON_MS, **named))
    table.start(at("11:58:00"))
    if pending:
        table.plan(at("11:59:00"), OURS)
    if version >= 8:
        table.metadata_table((at("10:00:00"), at("10:00:00.900")), (at("11:50:00"), at("11:50:00.900")))
    return table


def plan_of(table, cache, granularity):
    policy = POLICY.model_copy(update={"strategy": Strategy(granularity=granularity)})
    state, history = FileTableReader().read_with_history(str(table.base), policy.event_time, archived=None)[:2]
    state = fill_from_logs(state, policy, ObjectCache(cache))
    return build_table_plan(policy, state, now_ms=NOON_MS, clock_ms=NOON_MS), history


def metadata_files(table, cache):
    found = [*table.meta.rglob("*"), *cache.rglob("*")]
    return sorted(path for path in found if path.is_file() and path.stat().st_size)


@pytest.fixture(scope="module", autouse=True)
def _no_pause():
    """Nobody is about to finish writing the file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hudi_properties, "PAUSE_SECONDS", 0)
        patch.setattr(stable_reading, "WRITTEN_SECONDS", 0)
        yield


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """(version, pending) -> table, cache and the whole table's plan."""
    made = {}
    for version, pending in ((9, False), (8, True), (6, False)):
        folder = tmp_path_factory.mktemp("cut_short")
        table, cache = lived_in(folder / "t", version=version, pending=pending), folder / "cache"
        granularity = "log_file" if version >= 8 else "file_slice"
        plan, _ = plan_of(table, cache, granularity)
        made[version, pending] = (table, cache, granularity, plan)
    return made


def test_the_whole_tables_have_plans(tables):
    actions = {key: plan.action for key, (_, _, _, plan) in tables.items()}
    assert actions == {(9, False): "compact", (8, True): "refused", (6, False): "refused"}


def is_as_safe(plan: TablePlan, whole: TablePlan) -> bool:
    """The same plan, save for what is only told or warned of and for what was seen; or nothing is done."""
    if plan.action == "refused":
        return True
    told = {"warnings": (), "seen": None}
    return plan.model_copy(update=told) == whole.model_copy(update=told)


@settings(max_examples=100)
@given(choice=st.integers(0, 2**32), share=st.floats(0, 1, exclude_max=True))
def test_cut_short(tables, choice, share):
    key = sorted(tables)[choice % len(tables)]
    table, cache, granularity, whole = tables[key]
    files = metadata_files(table, cache)
    path = files[choice // 7 % len(files)]
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    try:
        plan, _ = plan_of(table, cache, granularity)
    except EtcError:
        return
    finally:
        path.write_bytes(content)
    assert is_as_safe(plan, whole), f"{path.name} cut to {int(len(content) * share)} bytes: {plan}"
