import pytest

from etc_policy.cli.main import main

POLICY = """version: 1
policies:
  - {name: orders_ro, table: lake/orders, event_time_column: ts, data_latency: 30m,
    strategy: {granularity: log_file}, log_file_max_size: 1 MiB}
  - {name: payments_ro, table: lake/payments, event_time_column: ts, data_latency: 30m, strategy: {granularity: log_file}}
  - {name: parked, table: lake/parked, event_time_column: ts, data_latency: 30m,
    strategy: {granularity: log_file}, enabled: false}
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with three policies, and the current folder in it."""
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "a.yml").write_text(POLICY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def etc(capsys):
    """Runs `etc` in this process: exit code, stdout and stderr."""

    def run(*arguments):
        code = main(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
