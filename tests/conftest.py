"""How the workers share the tests: one of them has a Spark, and integration tests come first, as they last longest."""

import os
import tempfile

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from tests.hdfs_cluster import hdfs_cluster
from tests.s3_servers import moto_server, s3_server, s3_variables, versity_server

__all__ = ["hdfs_cluster", "moto_server", "s3_server", "s3_variables", "versity_server"]

# How long an example takes says how busy the machine is.
settings.register_profile("etc", deadline=None)
settings.load_profile("etc")

#: Tests, or whole files of them, that start Spark in processes of their own, the longest first.
OWN_PROCESSES = (
    "test_object_store.py",
    "test_soak.py",
    "test_version_6.py::test_every_view_is_right_under_a_bundle_of_hudi_0",
    "test_kills.py",
    "test_how_to.py::test_the_whole_tutorial",
    "test_how_to.py::test_the_demo",
    "test_sync.py",
    "test_hdfs.py",
    "test_version_6.py::test_two_kills_and_one_run_that_mends_them",
    "test_left_locks.py",
    "test_apply_process.py",
    "test_stock_strategies.py::test_applied_verified_killed_and_finished",
    "test_cluster.py",
    "test_apply_side_by_side.py",
)


def place_of(nodeid):
    """Where a test stands in the queue: tests of the one Spark, then those with processes of their own, then all else."""
    folder, _, name = nodeid.partition("::")[0].rpartition("/")
    if not folder.endswith("integration"):
        return (2, 0)
    test = f"{name}::{nodeid.partition('::')[2].partition('[')[0]}"
    for place, own in enumerate(OWN_PROCESSES):
        if own in (name, test):
            return (1, place)
    return (0, 0)


class OneSpark(LoadScopeScheduling):
    """Sends all tests of a Spark in the same process to one worker, as its Java has compiled what they run only once; tests
    with processes of their own one by one; and of all others whole files, so that what they share is made once.
    """

    def _split_scope(self, nodeid):
        place, _ = place_of(nodeid)
        return "spark" if place == 0 else nodeid if place == 1 else nodeid.split("::", 1)[0]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """The order in which workers get them."""
    items.sort(key=lambda item: place_of(item.nodeid))
    ends_spark = [item.nodeid for item in items if "no_spark" in item.fixturenames and not place_of(item.nodeid)[0]]
    if ends_spark:
        raise pytest.UsageError(f"OWN_PROCESSES in tests/conftest.py lacks {ends_spark}")


def pytest_configure(config):
    """What commands keep of tables goes to a folder of the run's own."""
    if "ETC_CACHE" not in os.environ:
        folder = tempfile.TemporaryDirectory(prefix="etc-cache-")
        os.environ["ETC_CACHE"] = folder.name
        config.add_cleanup(folder.cleanup)


def pytest_xdist_make_scheduler(config, log):
    """The scheduler, whatever `--dist` says."""
    config.option.loadscopereorder = False
    return OneSpark(config, log)
