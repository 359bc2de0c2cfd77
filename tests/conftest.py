"""Two workers: each has one half of the integration tests, and with it at most one Spark; then they share all else."""

import os
import tempfile

from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from tests.hdfs_cluster import hdfs_cluster
from tests.s3_servers import moto_server, s3_server, s3_variables, versity_server

__all__ = ["hdfs_cluster", "moto_server", "s3_server", "s3_variables", "versity_server"]

# How long an example takes says how busy the machine is.
settings.register_profile("etc", deadline=None)
settings.load_profile("etc")

#: As long together as the other half; all that start `etc` as processes of their own are among them.
SECOND_HALF = (
    "test_apply_process.py",
    "test_cluster.py",
    "test_commit_zone.py",
    "test_gx_verifier.py",
    "test_hdfs.py",
    "test_how_to.py",
    "test_interleavings.py",
    "test_kills.py",
    "test_left_locks.py",
    "test_prometheus.py",
    "test_repair.py",
    "test_soak.py",
    "test_soak_oracle.py",
    "test_sync.py",
    "test_zones.py",
)


class OneSparkForEachWorker(LoadScopeScheduling):
    """Sends whole files to a worker, and each half of the files of `tests/integration` to one."""

    def _split_scope(self, nodeid):
        file = nodeid.split("::", 1)[0]
        if "integration/" not in file:
            return file
        return "second half" if file.endswith(SECOND_HALF) else "first half"


def pytest_configure(config):
    """What commands keep of tables goes to a folder of the run's own."""
    if "ETC_CACHE" not in os.environ:
        folder = tempfile.TemporaryDirectory(prefix="etc-cache-")
        os.environ["ETC_CACHE"] = folder.name
        config.add_cleanup(folder.cleanup)


def pytest_xdist_make_scheduler(config, log):
    """The scheduler, whatever `--dist` says; the integration tests come first, as they last longest."""
    config.option.loadscopereorder = False
    return OneSparkForEachWorker(config, log)
