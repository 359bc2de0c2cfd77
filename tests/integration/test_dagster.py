"""The page of Dagster, run by Dagster itself, in an environment of its own.

The variable `ETC_TEST_DAGSTER` names a folder in which it is kept.
"""

import importlib
import json
import re
import shutil
import sys
from datetime import UTC, datetime, timedelta

import pytest

from tests.command_blocks import REPOSITORY, Shell, command_blocks_of
from tests.environments import programs_of
from tests.unit.test_command_blocks import POLICY, make_table

PAGE = (REPOSITORY / "docs" / "how-to" / "dagster.md").read_text("utf-8")
SETTINGS = "name: shop\nprofiles: {shop: {target: prod, targets: {prod: {}}}}\n"
#: Runs the check, then the sensor from the cursor that is given and what it requests; what came of it is printed.
EXECUTE = """
import json, sys
import dagster as dg
from definitions import ORDERS, completeness_sensor, defs, report

instance, cursor = dg.DagsterInstance.ephemeral(), sys.argv[1] or None
(check,), (sensor,) = defs.asset_checks, defs.sensors
try:
    completeness_sensor(dg.asset(name="whole")(lambda: None), **ORDERS)
except ValueError as error:
    assert "has no partitions by time" in str(error)
done = dg.materialize([check], instance=instance, selection=dg.AssetSelection.all_asset_checks(), raise_on_error=False)
found = {"success": done.success, "failed": [str(one.step_failure_data.error) for one in done.all_events if one.is_step_failure]}
for one in done.get_asset_check_evaluations():
    values = {name: value.value for name, value in one.metadata.items()}
    found |= {"passed": one.passed, "severity": one.severity.value, "why": one.description, **values}
try:
    ticked = sensor(dg.build_sensor_context(instance, cursor=cursor))
except dg.Failure as error:
    print(json.dumps(found | {"tick": str(error)}))
    sys.exit()
for one in ticked.run_requests or ():
    assert dg.materialize([report], partition_key=one.partition_key, instance=instance).success
keys = [one.partition_key for one in ticked.run_requests or ()]
skipped = ticked.skip_reason and ticked.skip_reason.skip_message
print(json.dumps(found | {"keys": keys, "cursor": ticked.cursor, "skipped": skipped}))
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    return programs_of([f"{REPOSITORY}[dagster]"], "ETC_TEST_DAGSTER", tmp_path_factory)


class Play:
    """The page's definitions, and the project whose table they are about."""

    def __init__(self, folder, programs):
        self.folder = folder / "compaction"
        (self.folder / "policies").mkdir(parents=True)
        (self.folder / "etc_project.yml").write_text(SETTINGS)
        (self.folder / "policies" / "orders.yml").write_text(POLICY + "    freshness: {target: 1h}\n")
        (block,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
        (folder / "definitions.py").write_text(block.replace("/srv/compaction", str(self.folder)))
        (folder / "execute.py").write_text(EXECUTE)
        own = {name: f'exec {programs}/{name} "$@"\n' for name in ("dagster", "python")}
        self.shell = Shell(folder, own, DAGSTER_HOME=str(folder), DO_NOT_TRACK="1", NO_COLOR="1")

    def ends(self, cursor=""):
        return json.loads(self.shell.succeeds(f"python execute.py '{cursor}'").splitlines()[-1])


@pytest.fixture
def play(tmp_path, programs):
    return Play(tmp_path, programs)


def test_dagster_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "dagster", None)
    monkeypatch.delitem(sys.modules, "etc_policy.integrations.dagster", raising=False)
    with pytest.raises(ImportError, match=r"Dagster .* is not here: run `.*pip install .*\[dagster\]\"`$"):
        importlib.import_module("etc_policy.integrations.dagster")


@pytest.mark.extended
def test_a_day_is_checked_and_reported(play, request):
    """RO has the rows before half past eight of the first of January, then all but those of the last minutes."""
    orders = play.folder / "lake" / "orders"
    make_table(orders)
    validate_and_preview = command_blocks_of(request.node.name)[0]
    assert "run requests for 1 run(s)" in play.shell.succeeds(validate_and_preview)
    first = play.ends()
    assert (first["success"], first["passed"], first["severity"], first["status"]) == (True, False, "ERROR", "error")
    assert first["complete_until"] == "2026-01-01T08:29:59.999Z"
    assert (first["keys"], first["cursor"]) == (["2025-12-31"], "2025-12-31")
    again = play.ends("2025-12-31")
    assert (again["keys"], again["skipped"]) == ([], "RO is complete until 2026-01-01T08:29:59.999Z")
    assert play.ends("2025-12-29")["keys"] == ["2025-12-30", "2025-12-31"]

    shutil.rmtree(orders)
    make_table(orders, due=False)
    last = datetime.now(UTC).date() - timedelta(2)
    fresh = play.ends(f"{last - timedelta(1)}")
    assert (fresh["passed"], fresh["status"], fresh["keys"][0]) == (True, "pass", str(last))


@pytest.mark.extended
def test_what_cannot_be_read_is_said(play):
    orders = make_table(play.folder / "lake" / "orders")
    (orders.meta / "hoodie.properties").write_bytes(b"\x00")
    damaged = play.ends()
    assert (damaged["passed"], damaged["status"], damaged["keys"]) == (False, "unknown", [])
    assert "hoodie.properties" in damaged["why"]
    assert damaged["why"] in damaged["skipped"]

    (play.folder / "policies" / "orders.yml").write_text(POLICY.replace("orders_ro", "refunds_ro"))
    lost = play.ends()
    assert lost["success"] is False
    assert "`orders_ro`" in lost["tick"]
    assert lost["tick"] in lost["failed"][0]
