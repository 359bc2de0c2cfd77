"""The page of dbt, run by dbt itself on DuckDB, in an environment of its own; ETC_TEST_DBT names a folder in which it is kept."""

import json
import re
import shutil

import pytest

from tests.command_blocks import REPOSITORY, Shell, command_blocks_of
from tests.environments import programs_of
from tests.unit.test_command_blocks import POLICY, make_table

PAGE = (REPOSITORY / "docs" / "how-to" / "dbt.md").read_text("utf-8")
PROFILES = "shop: {target: dev, outputs: {dev: {type: duckdb, path: shop.duckdb}}}\n"


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    return programs_of(["dbt-core>=1.10,<1.11", "dbt-duckdb>=1.10,<1.11"], "ETC_TEST_DBT", tmp_path_factory)


@pytest.fixture
def compaction(tmp_path):
    """The project of policies; nothing of its table is due, so RO is complete up to now less `data_latency`."""
    (tmp_path / "compaction" / "policies").mkdir(parents=True)
    make_table(tmp_path / "compaction" / "lake" / "orders", due=False)
    set_latency(tmp_path / "compaction", "1m")
    return tmp_path / "compaction"


@pytest.fixture
def shell(programs, compaction, tmp_path):
    """One in the folder of a dbt project with the page's source."""
    (source,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    files = {
        "dbt_project.yml": "name: shop\nprofile: shop\n",
        "profiles.yml": PROFILES,
        "models/sources.yml": source.replace("/srv/compaction", str(compaction)),
        "models/report.sql": "select 1 as orders",
    }
    for name, text in files.items():
        (tmp_path / "shop" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "shop" / name).write_text(text)
    return Shell(
        tmp_path / "shop", {"dbt": f'exec {programs}/dbt "$@"\n'}, DBT_SEND_ANONYMOUS_USAGE_STATS="false", NO_COLOR="1"
    )


def set_latency(compaction, latency):
    policy = POLICY.replace("data_latency: 30m", f"data_latency: {latency}") + "    freshness: {target: 1d}\n"
    (compaction / "policies" / "orders.yml").write_text(policy)


@pytest.mark.extended
def test_dbt_judges_a_source_and_waits_for_it(shell, compaction, request):
    judge, gate = (block.replace("/srv/compaction", str(compaction)) for block in command_blocks_of(request.node.name))

    def judged(code):
        shell.succeeds(judge, code=code)
        (result,) = json.loads((shell.folder / "target" / "sources.json").read_text())["results"]
        return result["status"]

    assert judged(0) == "pass"
    assert "Completed successfully" in shell.succeeds(gate)

    set_latency(compaction, "3h")
    assert judged(0) == "warn"

    shutil.rmtree(compaction / "lake" / "orders")
    make_table(compaction / "lake" / "orders")
    assert judged(1) == "error"
    assert shell.succeeds(gate.replace("2h", "0s"), code=4) == ""

    (compaction / "lake" / "orders" / ".hoodie" / "hoodie.properties").write_bytes(b"\x00")
    assert judged(1) == "error"
