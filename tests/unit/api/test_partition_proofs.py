"""`done.proof: data` compares the rows of the partitions that are to be done, and of no others, once."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from etc_policy.api.project import Project
from etc_policy.errors import EngineError, RetryableError
from etc_policy.errors.codes import Code
from etc_policy.report.sync import complete_until
from etc_policy.table.history import PLAN_ID, SEEN_UNTIL, THRESHOLD
from etc_policy.verify.catalog import VIEWS_AGREE
from etc_policy.verify.metadata_checks import KNOWN
from etc_policy.verify.ports import ExpectationResult
from tests.unit.api.hourly import HOURLY, hour
from tests.unit.hudi.table_folder import TableFolder, at, base, log
from tests.unit.plan.plan_cases import epoch_ms

NINE, TEN, ELEVEN = map(hour, (9, 10, 11))
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
POLICY = f"""{HOURLY}    verify: {{level: metadata}}
    done: {{success_file: _SUCCESS, proof: data, rows: until_end}}
"""


class Verifier:
    """Answers each check as it is set to, and keeps what was asked."""

    release, status, wrong = "1.2.0", "pass", None

    def __init__(self):
        self.requests = []

    def check(self, request):
        self.requests.append(request)
        if self.status == "error":
            raise EngineError(Code.CANNOT_READ_VIEW, "cannot read the view")
        return 0, tuple(self.result(one["type"]) for one in request.suite)

    def result(self, expectation):
        return ExpectationResult(expectation=expectation, status="fail" if expectation == self.wrong else self.status)

    @property
    def asked(self):
        return [dict(request.ends) for request in self.requests]


@pytest.fixture
def verifier(monkeypatch):
    found = Verifier()
    monkeypatch.setattr("etc_policy.wiring.Environment.data_verifier", lambda _: found)
    return found


@pytest.fixture
def orders(tmp_path):
    """Hours nine and ten are closed, and RO has all of ten; eleven is open."""
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "a.yml").write_text(POLICY)
    table = TableFolder(tmp_path / "lake" / "orders")
    hours = (base(f"f{number}", partition=hour) for number, hour in enumerate((NINE, TEN, ELEVEN), 9))
    table.commit(at("11:00:00"), at("11:00:05"), *hours)
    table.commit(at("11:10:00"), at("11:10:05"), log("f9", partition=NINE, min_event=epoch_ms("09:30:00")))
    table.commit(at("11:10:10"), at("11:10:15"), log("f10", partition=TEN, min_event=epoch_ms("11:01:00")))
    return table


@pytest.fixture
def send(tmp_path, orders, monkeypatch):
    """What the end of an `etc apply` does after its verification; returns the verdict and what was sent."""
    from etc_policy.api.partitions import prove_partitions, send_partition_events

    def run():
        with Project(tmp_path) as project:
            (policy,) = project.policies()
            verdict = prove_partitions(project.environment, policy, epoch_ms("12:00:00"))
            return verdict, send_partition_events(project.environment, policy, epoch_ms("12:00:00"))

    return run


def status(tmp_path, partition):
    with Project(tmp_path) as project:
        (one,) = project.freshness(at=NOON, partitions=[partition]).tables[0].partitions.partitions
    return one.status, one.proof


def test_the_rows_of_what_is_to_be_done_are_compared_once(tmp_path, verifier, send, orders):
    assert status(tmp_path, TEN) == ("closed", "metadata")
    verdict, sent = send()
    assert (verdict, sent.done) == (None, 1)
    assert verifier.asked == [{TEN: epoch_ms("11:00:00")}]
    (request,) = verifier.requests
    assert (request.threshold_ms, request.base_files) == (
        epoch_ms("10:59:59.999"),
        {path.name for path in (orders.base / TEN).glob("*.parquet")},
    )
    assert status(tmp_path, TEN) == ("done", "data")
    send()
    assert len(verifier.requests) == 1


def test_nothing_is_sent_before_the_table_has_the_proof_that_it_wants(tmp_path, verifier, send, orders):
    """As it is unknown until then, and no job that waits goes on; what was compared counts once it has it."""
    path = tmp_path / "policies" / "a.yml"
    path.write_text(path.read_text() + "    freshness: {proof: data}\n")
    assert (send(), verifier.asked) == ((None, None), [{TEN: epoch_ms("11:00:00")}])
    assert not list(orders.base.glob("h=*/_SUCCESS"))
    with Project(tmp_path) as project:
        (table,) = project.freshness(at=NOON, partitions=["*"]).tables
        assert (table.status, table.partitions) == ("unknown", None)
        with pytest.raises(RetryableError, match="of unknown completeness"):
            project.wait("orders_ro", partition=TEN, timeout=timedelta(0))
    assert verify(tmp_path, "data") == "pass"
    _, sent = send()
    assert (sent.done, status(tmp_path, TEN), len(list(orders.base.glob("h=*/_SUCCESS")))) == (1, ("done", "data"), 1)
    with Project(tmp_path) as project:
        assert project.wait("orders_ro", partition=TEN, timeout=timedelta(0))


@pytest.mark.parametrize("change", ["a log file", "a base file"])
def test_rows_that_are_new_in_it_are_compared_again(tmp_path, verifier, send, orders, change):
    """It stays done: a row after its end is not late data, nor is what a compaction moves."""
    send()
    if change == "a log file":
        orders.commit(at("11:50:00"), at("11:50:05"), log("f10", partition=TEN, min_event=epoch_ms("11:49:00")))
    else:
        orders.compaction(at("11:50:00"), at("11:50:05"), base("f10", partition=TEN, merged=1))
    assert status(tmp_path, TEN) == ("closed", "metadata")
    verdict, sent = send()
    assert (verdict, sent.done, sent.reopened, len(verifier.requests)) == (None, 0, 0, 2)
    assert status(tmp_path, TEN) == ("done", "data")


@pytest.mark.parametrize("later", ["a log file", "a base file"])
def test_files_that_a_write_in_flight_hides_were_not_compared(tmp_path, verifier, send, orders, later):
    """Both views are read as of right before it: it is compared once that has ended."""
    promise = {THRESHOLD: str(epoch_ms("10:00:00")), PLAN_ID: "one", SEEN_UNTIL: at("11:15:00")}
    orders.compaction(at("11:20:00"), at("11:20:05"), base("f9", partition=NINE, merged=1), extra=promise)
    orders.start(at("11:30:00"), log("f11", partition=ELEVEN, min_event=epoch_ms("11:25:00")))
    if later == "a log file":
        orders.commit(at("11:40:00"), at("11:40:05"), log("f10", partition=TEN, min_event=epoch_ms("11:39:00")))
    else:
        orders.compaction(at("11:40:00"), at("11:40:05"), base("f10", partition=TEN, merged=1))
    verdict, sent = send()
    assert (verdict, sent.done) == (None, 1)  # that of hour nine
    assert {request.pinned_instant for request in verifier.requests} == {at("11:29:59.999")}
    assert (status(tmp_path, NINE), status(tmp_path, TEN)) == (("done", "data"), ("closed", "metadata"))
    orders.commit(at("11:30:00"), at("11:45:00"), log("f11", partition=ELEVEN, min_event=epoch_ms("11:25:00")))
    assert (send()[1].done, status(tmp_path, TEN)) == (1, ("done", "data"))


def test_of_another_partition_nothing_is_compared_again(tmp_path, verifier, send, orders):
    send()
    orders.compaction(at("11:50:00"), at("11:50:05"), base("f9", partition=NINE, merged=1))
    _, sent = send()
    assert (sent.done, [list(one) for one in verifier.asked]) == (1, [[TEN], [NINE]])


def test_earlier_ones_are_done_without_it(tmp_path, verifier, send, orders):
    policy = tmp_path / "policies" / "a.yml"
    policy.write_text(policy.read_text().replace("proof: data", f"proof: data, since: {ELEVEN}"))
    orders.compaction(at("11:50:00"), at("11:50:05"), base("f9", partition=NINE, merged=1))
    _, sent = send()
    assert (sent.done, verifier.requests) == (0, [])
    assert (status(tmp_path, NINE), status(tmp_path, TEN)) == (("done", "metadata"), ("done", "metadata"))


@pytest.mark.parametrize("compacted_by", ["etc", "another job"])
def test_rows_that_differ_put_the_table_in_doubt(tmp_path, verifier, send, orders, compacted_by):
    promise = {THRESHOLD: str(epoch_ms("11:00:00")), PLAN_ID: "one", SEEN_UNTIL: at("11:40:00")}
    promise = promise if compacted_by == "etc" else {}
    orders.compaction(at("11:50:00"), at("11:50:05"), base("f9", partition=NINE, merged=1), extra=promise)
    verifier.status = "fail"
    verdict, sent = send()
    assert (verdict.status, sent) == ("fail", None)
    assert not list(orders.base.glob("h=*/_SUCCESS"))
    with Project(tmp_path) as project:
        (table,) = project.freshness(at=NOON).tables
    assert (table.status, "its verification failed" in table.reason) == ("unknown", True)


def verify(tmp_path, level):
    """The verdict of `etc verify`."""
    with Project(tmp_path) as project:
        (table,) = project.verify(at=NOON, level=level).tables
    return table.verification.status


def doubt(tmp_path):
    """What freshness has against the table; None where it can say how far the table is complete."""
    with Project(tmp_path) as project:
        (table,) = project.freshness(at=NOON).tables
    return table.reason if table.status == "unknown" else None


@pytest.mark.parametrize("wrong", [VIEWS_AGREE, "expect_no_key_twice"])
def test_what_a_comparison_found_is_taken_back_by_none_that_reads_fewer_rows(tmp_path, verifier, send, orders, wrong):
    """It has not looked for it. Each run compares again, and finds it again until the rows are equal."""
    verifier.wrong = wrong
    assert send()[0].status == "fail"
    verifier.wrong = None
    for level in ("metadata", "logs"):
        assert verify(tmp_path, level) == "warn"
        assert "its verification failed" in (doubt(tmp_path) or "")
    verifier.wrong = wrong
    verdict, sent = send()
    assert (verdict.status, sent) == ("fail", None)
    verifier.wrong = None
    verdict, sent = send()
    assert (verdict, sent.done, doubt(tmp_path)) == (None, 1, None)


def test_an_older_etc_reads_what_is_kept_of_it(verifier, send, orders):
    """It knows these keys, takes the first word for the compaction, and no text but that of equal rows for a proof."""
    verifier.wrong = VIEWS_AGREE
    send()
    kept = json.loads((orders.base / ".hoodie" / ".etc" / "memory.json").read_bytes())
    (doubt,) = kept["unproven"]
    assert doubt.keys() >= {"compaction", "why", "verification", "level", "event_time", "passed"}
    assert (doubt["compaction"].split(" ")[0], doubt["level"], kept["compared"]) == ("", "data", {TEN: ""})


def test_a_verification_of_all_rows_up_to_its_end_takes_it_back_too(tmp_path, verifier, send, orders):
    """As where nobody wants partitions compared any more; of a partition that ends after T not all was compared."""
    verifier.wrong = VIEWS_AGREE
    send()
    verifier.wrong = None
    policy = tmp_path / "policies" / "a.yml"
    policy.write_text(policy.read_text().replace("proof: data", "proof: metadata"))
    assert doubt(tmp_path)
    assert verify(tmp_path, "data") != "fail"
    assert doubt(tmp_path)
    orders.compaction(at("11:55:00"), at("11:55:05"), base("f9", partition=NINE, merged=1))
    assert verify(tmp_path, "data") != "fail"
    assert doubt(tmp_path) is None


def test_a_comparison_of_others_does_not(tmp_path, verifier, send, orders):
    """Late data keep the partition itself from being compared."""
    verifier.wrong = VIEWS_AGREE
    send()
    verifier.wrong = None
    orders.commit(at("11:50:00"), at("11:50:05"), log("f10", partition=TEN, min_event=epoch_ms("10:30:00")))
    orders.compaction(at("11:55:00"), at("11:55:05"), base("f9", partition=NINE, merged=1))
    verdict, sent = send()
    assert (verdict.status, [one.expectation for one in verdict.expectations], sent) == ("warn", [KNOWN], None)
    assert verifier.asked[-1].keys() == {NINE}
    assert doubt(tmp_path)
    orders.compaction(at("11:56:00"), at("11:56:05"), base("f10", partition=TEN, merged=1))
    assert send()[1].done == 2
    assert doubt(tmp_path) is None


def test_what_differed_and_is_gone_is_no_doubt(tmp_path, verifier, send, orders):
    verifier.wrong = VIEWS_AGREE
    send()
    orders.replace(at("11:50:00"), at("11:50:05"), replaced={TEN: ["f10"]})
    assert (send()[0], doubt(tmp_path)) == (None, None)


def test_what_all_rows_showed_is_taken_back_by_no_comparison_of_some(tmp_path, verifier, send, orders):
    verifier.wrong = VIEWS_AGREE
    assert verify(tmp_path, "data") == "fail"
    send()
    verifier.wrong = None
    assert send() == (None, None)
    assert "its verification failed" in doubt(tmp_path)


def test_rows_that_cannot_be_read_leave_it_to_the_next_run(tmp_path, verifier, send):
    verifier.status = "error"
    verdict, sent = send()
    assert (verdict.status, verdict.exit_code, sent.done) == ("error", 3, 0)
    verifier.status = "pass"
    assert send()[1].done == 1


def test_what_is_in_doubt_is_said_by_whoever_does_not_look_at_it(tmp_path, verifier, orders):
    """Neither a run nor a verification says that RO is complete up to T, as freshness does not."""
    policy = tmp_path / "policies" / "a.yml"
    policy.write_text(policy.read_text().replace("proof: data", "proof: metadata"))
    orders.compaction(at("11:20:00"), at("11:20:05"), *(base(f"f{n}", partition=hour(n), merged=1) for n in (9, 10)))
    verifier.wrong = "expect_no_key_twice"
    assert verify(tmp_path, "data") == "fail"
    verifier.wrong = None
    assert [verify(tmp_path, level) for level in ("metadata", "logs")] == ["warn", "warn"]
    with Project(tmp_path) as project:
        (result,) = project.apply(at=NOON).tables
    assert (result.status, result.verification.status, complete_until(result)) == ("nothing_due", "warn", None)
    assert doubt(tmp_path)
    assert [verify(tmp_path, level) for level in ("data", "metadata")] == ["pass", "pass"]
    with Project(tmp_path) as project:
        (result,) = project.apply(at=NOON).tables
    assert complete_until(result) is not None


def test_it_is_part_of_an_apply(tmp_path, verifier, orders, monkeypatch):
    """A verdict that is not good is the run's."""
    for one in (*orders.base.glob("h=*/.f*.log.*"), *orders.timeline.glob("*20260101111*")):
        one.unlink()
    verifier.status = "fail"
    with Project(tmp_path) as project:
        (result,) = project.apply(check=False).tables
    assert (result.status, result.verification.status, result.verification.level) == ("nothing_due", "fail", "data")
    verifier.status = "pass"
    with Project(tmp_path) as project:
        (result,) = project.apply().tables
    assert (result.verification.status, result.events_sent.done) == ("pass", 3)
