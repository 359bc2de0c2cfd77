"""`etc apply` on tables in a bucket of a real S3 server: every view of one kind, all of which `bucket_cut.py` plays as a command;
and killed, with a run that mends them, as `random_kills.py --where moto` plays it any number of times."""

import pytest

from tests.faulty_proxy import faulty_proxy
from tests.integration import bucket_cut
from tests.integration.bench import AT_THE_CUT
from tests.integration.history import STRADDLING
from tests.integration.kill_settings import InBucket
from tests.integration.random_kills import play
from tests.integration.session import stop_spark
from tests.s3_servers import S3Server

pytestmark = pytest.mark.spark
#: Both processes die after the commit to the metadata table, the network at `locked`, and Python at `begun`.
SEEDS = (4, 20, 39)


@pytest.mark.extended
def test_every_view_is_right_at_each_step(no_spark, s3_variables, moto_server, tmp_path, monkeypatch):
    for name, value in bucket_cut.variables(moto_server).items():
        monkeypatch.setenv(name, value)
    spark = bucket_cut.start(tmp_path)
    try:
        bucket_cut.play(spark, moto_server, bucket_cut.Kind(mdt=False), since=AT_THE_CUT)
    finally:
        stop_spark(spark)


@pytest.mark.extended
def test_runs_are_killed_or_cut_off_and_one_mends_their_tables(
    no_spark, s3_variables, moto_server, written_table, tmp_path, monkeypatch
):
    """Each at the moment that its seed draws; of some the network is cut for a while, and no process dies."""
    with faulty_proxy(moto_server.endpoint) as proxy:
        for name, value in bucket_cut.variables(S3Server(proxy.endpoint)).items():
            monkeypatch.setenv(name, value)
        setting = InBucket(moto_server, tmp_path, proxy)
        # The rows are compared by this test; etc compares those of a bucket in the soak.
        setting.level, setting.numbers, setting.variants = "metadata", STRADDLING[:1], {"metadata table": {}}
        (tmp_path / "sources").mkdir()
        (tmp_path / "sources" / "metadata_table").symlink_to(written_table)
        killed, _, failures = play(setting, tmp_path, tmp_path / "sources", SEEDS)
    assert not failures, "\n".join(failures)
    assert len(killed) == len(SEEDS)
