"""Two workers: one runs the integration tests, so that there is one Spark at a time, the other all else meanwhile."""

from xdist.scheduler import LoadScopeScheduling


class OneWorkerForIntegration(LoadScopeScheduling):
    """Sends whole files to a worker, and all files of `tests/integration` to the same one."""

    def _split_scope(self, nodeid):
        file = nodeid.split("::", 1)[0]
        return "integration" if "integration/" in file else file


def pytest_xdist_make_scheduler(config, log):
    """The scheduler, whatever `--dist` says."""
    return OneWorkerForIntegration(config, log)
