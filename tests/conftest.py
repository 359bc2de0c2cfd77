"""How the workers share the tests: one of them has a Spark, and integration tests come first, as they last longest."""

import os
import sys
import tempfile
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from tests.cloud_servers import azure_container, azurite, cloud_keys, fake_gcs, gcs_bucket
from tests.hdfs_cluster import hdfs_cluster
from tests.s3_servers import moto_server, s3_server, s3_variables, versity_server

__all__ = ["azure_container", "azurite", "cloud_keys", "fake_gcs", "gcs_bucket"]
__all__ += ["hdfs_cluster", "moto_server", "s3_server", "s3_variables", "versity_server"]

# How long an example takes says how busy the machine is.
settings.register_profile("etc", deadline=None)
settings.load_profile("etc")

#: Tests, or whole files of them, that start Spark in processes of their own: first those that need none of the tables that the
#: worker with a Spark writes, then the longest first.
OWN_PROCESSES = (
    "test_how_to.py::test_the_demo",
    "test_how_to.py::test_the_demo_as_of_midnight",
    "test_sync.py",
    "test_object_store.py",
    "test_gcs.py",
    "test_soak.py",
    "test_version_6.py::test_every_view_is_right_under_earlier_bundles",
    "test_kills_between_writes.py",
    "test_kills.py",
    "test_how_to.py::test_the_whole_tutorial",
    "test_hdfs.py",
    "test_version_6.py::test_two_kills_and_one_run_that_mends_them",
    "test_left_locks.py",
    "test_left_rollback.py",
    "test_streaming_writers.py",
    "test_ordering.py",
    "test_bundles.py",
    "test_flink.py",
    "test_altered_schema.py::test_so_it_is_under_older_bundles_and_with_carried_log_files",
    "test_apply_process.py",
    "test_stock_strategies.py::test_applied_verified_killed_and_finished",
    "test_cluster.py",
    "test_yarn.py",
    "test_apply_side_by_side.py",
    "test_predicted.py::test_flights",
)
#: Files that start the same servers or the same browser, each of which is started once for all of them.
TOGETHER = {
    "test_storage_behaviour.py": "servers",
    "test_hdfs_storage.py": "servers",
    "test_object_storage.py": "servers",
    "test_apply_state.py": "servers",
    "test_lease_behaviour.py": "servers",
    "test_hdfs_lease.py": "servers",
    "test_tables_on_object_stores.py": "servers",
    "test_object_stores.py": "servers",
    "test_site_in_chromium.py": "browser",
    "test_many_tables.py": "browser",
}


def place_of(nodeid):
    """What it is, and its place among its like: 0 a test of the one Spark, 1 one with processes of its own, 2 any other."""
    folder, _, name = nodeid.partition("::")[0].rpartition("/")
    if not folder.endswith("integration"):
        return (2, {"browser": 0, "servers": 2}.get(TOGETHER.get(name), 3))
    test = f"{name}::{nodeid.partition('::')[2].partition('[')[0]}"
    for place, own in enumerate(OWN_PROCESSES):
        if own in (name, test):
            return (1, place)
    return (0, 0)


def turn_of(item):
    """Its place in the queue: a table that others wait for is written first, and they come while it is there.

    A worker gets its second file or test at once: behind the demo, which is long, that must not be one that is long too.
    """
    kind, place = place_of(item.nodeid)
    has_table = "written_table" in item.fixturenames
    return {0: (0, not has_table), 1: (2, 1) if has_table else (1, place)}.get(kind, (kind, place))


class OneSpark(LoadScopeScheduling):
    """Sends all tests of a Spark in the same process to one worker, as its Java has compiled what they run only once; tests
    with processes of their own one by one; and of all others whole files, so that what they share is made once.
    """

    def _split_scope(self, nodeid):
        place, _ = place_of(nodeid)
        file = nodeid.split("::", 1)[0]
        return ("spark", nodeid, TOGETHER.get(file.rpartition("/")[2], file))[place]


def pytest_runtest_setup(item):
    """What takes longest, the worker with a Spark and the demo, goes before all else that wants the same processor."""
    if place_of(item.nodeid) > (1, 0):
        os.setpriority(os.PRIO_PROCESS, 0, max(5, os.getpriority(os.PRIO_PROCESS, 0)))


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items):
    """The order in which workers get them; what runs at night alone is looked at too."""
    ends_spark = [item.nodeid for item in items if "no_spark" in item.fixturenames and not place_of(item.nodeid)[0]]
    if ends_spark:
        raise pytest.UsageError(f"OWN_PROCESSES in tests/conftest.py lacks {ends_spark}")
    for item in filter(_on_hdfs, items):  # a cluster starts in 20 s, once Maven has fetched it
        item.add_marker(pytest.mark.extended)
    yield
    items.sort(key=turn_of)


def _on_hdfs(item):
    return "hdfs_cluster" in item.fixturenames or (
        hasattr(item, "callspec") and "hdfs" in item.callspec.params.values()
    )


def pytest_configure(config):
    """Tests marked `extended` run where they or their files are named, or by `-m`; what commands keep of tables goes to a folder
    of this process alone: some tests compare what is said of it.
    """
    _require_fresh_metadata()
    if not config.option.markexpr and not any(".py" in named for named in config.args):
        config.option.markexpr = "not extended"
    folder = tempfile.TemporaryDirectory(prefix="etc cache-")
    os.environ["ETC_CACHE"] = folder.name
    config.add_cleanup(folder.cleanup)


def _require_fresh_metadata():
    """An editable installation keeps the entry points of the day that it was made."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    for group, declared in project["entry-points"].items():
        if {point.name: point.value for point in entry_points(group=group)} != declared:
            command = f"{sys.executable} -m pip install --no-deps --editable ."
            raise pytest.UsageError(f"[project.entry-points] has changed since this installation: run `{command}`")


def pytest_xdist_make_scheduler(config, log):
    """The scheduler, whatever `--dist` says."""
    config.option.loadscopereorder = False
    return OneSpark(config, log)
