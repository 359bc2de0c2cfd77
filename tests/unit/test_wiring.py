"""What is left of a command whose Java process has died, say because the machine ran out of memory, or whose lock is held."""

import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from etc_policy.api.each_table import by_release
from etc_policy.errors import EngineError, RetryableError
from etc_policy.errors.codes import Code
from etc_policy.gx import verifier as gx_verifier
from etc_policy.gx.verifier import GxVerifier
from etc_policy.plan import bundles
from etc_policy.run.ports import Job
from etc_policy.spark import interrupts
from etc_policy.spark import session as spark_session
from etc_policy.spark.hudi_client import hudi_client
from etc_policy.verify.ports import DataCheck
from etc_policy.wiring import Environment
from tests.unit.hudi.table_folder import OF_HUDI_0, TableFolder
from tests.unit.plan.states import POLICY, STATE


class Dead:
    """A Spark session whose Java is gone: whatever it is asked, py4j raises."""

    def __init__(self, error):
        self.__dict__["error"] = error

    def __getattr__(self, name):
        raise self.error


def network_error():
    from py4j.protocol import Py4JNetworkError

    return Py4JNetworkError("Answer from Java side is empty")


@pytest.fixture(params=[network_error, lambda: ConnectionRefusedError("[Errno 111] Connection refused")])
def dead(request):
    """Its first call fails in one way, those after it in the other."""
    return Dead(request.param())


@pytest.fixture
def job(tmp_path):
    table = TableFolder(tmp_path / "t")
    return Job(POLICY, str(table.base), 9, (), "20260101000000000")


@pytest.fixture
def environment(tmp_path, dead):
    found = Environment(Path(tmp_path), lambda _: None)
    found.session = dead
    return found


def test_a_compaction_is_an_error_of_the_engine(dead, job):
    with (
        pytest.raises(EngineError, match="no luck") as error,
        hudi_client(SimpleNamespace(_jvm=dead), job, EngineError("ETC304", "no luck")),
    ):
        pass
    assert error.value.cause == str(dead.error)


def failed_by(words):
    from py4j.protocol import Py4JError

    error = Py4JError("it failed")
    error.java_exception = SimpleNamespace(toString=lambda: words, getCause=lambda: None)
    return error


def test_a_lock_that_is_held_is_worth_another_try(job):
    words = "org.apache.hudi.exception.HoodieLockException: Unable to acquire the lock"
    with (
        pytest.raises(RetryableError, match=r"another process holds the lock of `.*/t`") as error,
        hudi_client(SimpleNamespace(_jvm=Dead(failed_by(words))), job, EngineError("ETC304", "no luck")),
    ):
        pass
    assert (error.value.exit_code, error.value.cause) == (4, words)


def test_what_fails_after_an_interrupt_is_the_interrupt(dead, job, monkeypatch):
    monkeypatch.setattr(interrupts, "_seen", threading.Event())
    monkeypatch.setattr("pyspark.SparkContext._gateway", None)
    with pytest.raises(KeyboardInterrupt):
        interrupts._interrupt()
    with (
        pytest.raises(KeyboardInterrupt),
        hudi_client(SimpleNamespace(_jvm=dead), job, EngineError("ETC304", "no luck")),
    ):
        pass


def test_ending_is_no_error(environment):
    """Or the results of the tables that are done would never be written."""
    environment.close()


def test_a_session_with_the_catalog_is_tried(environment, monkeypatch):
    def start_spark(*told, **_):
        raise EngineError("ETC303", "Spark did not start")

    monkeypatch.setattr(spark_session, "start_spark", start_spark)
    with pytest.raises(EngineError, match="did not start"):
        environment.property_store("/lake/orders")


@pytest.mark.parametrize(
    ("code", "starts"),
    [(Code.SPARK_DID_NOT_START, [None, "0.15.0", None]), (Code.NO_JAVA, [None, None, "0.15.0", None])],
)
def test_spark_that_did_not_start_is_not_waited_for_again(code, starts, tmp_path, monkeypatch):
    """Not with the same bundle, for a while; what is lacking on this machine is looked for each time."""
    tried, now = [], [0.0]
    monkeypatch.delenv("ETC_HUDI_BUNDLE", raising=False)
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    environment = Environment(tmp_path, lambda _: None)

    def start_spark(*_, **__):
        tried.append(environment._release)
        raise EngineError(code, "Spark did not start", hint="look")

    monkeypatch.setattr(spark_session, "start_spark", start_spark)
    for release, seconds in ((None, 0), (None, 10), ("0.15.0", 11), (None, 42)):
        now[0] = float(seconds)
        with environment.with_release(release), pytest.raises(EngineError) as error:
            environment.spark  # noqa: B018
        assert (error.value.code, error.value.hint) == (code, "look")
    assert tried == starts


def test_a_verification_is_an_error_of_the_engine(dead, table, monkeypatch):
    monkeypatch.setattr(gx_verifier, "_configurations", lambda suite: [])
    request = DataCheck(POLICY, str(table.base), (), 0, 0, None, None, frozenset(), "", frozenset())
    with pytest.raises(EngineError, match=r"the rows of `.*` could not be compared") as error:
        GxVerifier(dead).check(request)
    assert (error.value.code, error.value.cause) == ("ETC332", str(dead.error))


@pytest.mark.parametrize(
    ("sizes", "is_brief"), [((), False), ((2**25,), True), ((2**25, 2**25), True), ((2**26, 1), False)]
)
def test_java_is_told_when_all_tables_together_are_small(sizes, is_brief, tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(spark_session, "start_spark", lambda *_, is_brief, **__: told.append(is_brief))
    environment = Environment(tmp_path, lambda _: None)
    for number, size in enumerate(sizes):
        environment.note_state(SimpleNamespace(base_path=f"/t{number}", data_bytes=1, merging=""))
        environment.note_state(SimpleNamespace(base_path=f"/t{number}", data_bytes=size, merging=""))
    environment.spark  # noqa: B018
    assert told == [is_brief]


class TestBundle:
    """Where nothing names a bundle, the tables that were read choose it."""

    OLD, NEW = "table version 6 of Hudi 0.x", "table version 9"
    COORDINATES = "org.apache.hudi:hudi-spark3.5-bundle_2.12"

    @pytest.fixture(autouse=True)
    def _results(self, monkeypatch):
        monkeypatch.delenv("ETC_HUDI_BUNDLE", raising=False)
        played = {self.OLD: {"0.15.0": "right", "1.2.0": "wrong"}, self.NEW: {"1.2.0": "right"}}
        monkeypatch.setattr(bundles, "results", lambda: played)

    def started(self, tmp_path, monkeypatch, *mergings, **settings):
        """The bundle with which Spark starts once these tables were read, and which release is said of each."""
        told = []
        monkeypatch.setattr(spark_session, "start_spark", lambda confs, log, bundle, *_, **__: told.append(bundle))
        environment = Environment(tmp_path, lambda _: None, **settings)
        states = [replace(STATE, base_path=one, merging=one) for one in mergings]
        for state in states:
            environment.note_state(state)
        environment.spark  # noqa: B018
        return told[0], [environment.release_for(POLICY, state) for state in states]

    def test_the_default_serves_all_that_it_is_right_for(self, tmp_path, monkeypatch):
        assert self.started(tmp_path, monkeypatch) == (f"{self.COORDINATES}:1.2.0", [])
        assert self.started(tmp_path, monkeypatch, self.NEW) == (f"{self.COORDINATES}:1.2.0", ["1.2.0"])

    def test_a_table_of_which_it_is_wrong_gets_another(self, tmp_path, monkeypatch):
        assert self.started(tmp_path, monkeypatch, self.OLD) == (f"{self.COORDINATES}:0.15.0", ["0.15.0"])

    def test_what_is_named_stays(self, tmp_path, monkeypatch):
        monkeypatch.setenv("ETC_HUDI_BUNDLE", "/jars/hudi-spark3.5-bundle_2.12-1.0.2.jar")
        bundle, releases = self.started(tmp_path, monkeypatch, self.OLD)
        assert (bundle, releases) == ("/jars/hudi-spark3.5-bundle_2.12-1.0.2.jar", ["1.0.2"])

    @pytest.fixture
    def lake(self, tmp_path, monkeypatch):
        """Tables of two releases, the policies for them, and which bundles Spark was started with."""
        monkeypatch.setattr(bundles, "results", lambda: {self.V6: {"0.15.0": "right"}, self.V9: {"1.2.0": "right"}})
        started = []
        monkeypatch.setattr(spark_session, "start_spark", lambda *given, **_: started.append(given[2]) or Dead(None))
        policies = []
        for name, version in (("a", 6), ("b", 9), ("c", 6)):
            TableFolder(tmp_path / name, version=version, properties=OF_HUDI_0 if version == 6 else {})
            policies.append(POLICY.model_copy(update={"name": name, "table": str(tmp_path / name)}))
        return policies, started

    V6 = "table version 6 of Hudi 0.x, DefaultHoodieRecordPayload, one ordering field"
    V9 = "table version 9, EVENT_TIME_ORDERING, one ordering field"

    def test_tables_come_by_the_release_that_takes_them(self, lake, tmp_path):
        policies, started = lake
        environment = Environment(tmp_path, lambda _: None)
        for group, names in zip(by_release(environment, policies), ("ac", "b"), strict=True):
            assert "".join(one.name for one in group) == names
            assert not environment.has_spark
            assert environment.spark is environment.spark
            assert environment.has_spark
        assert started == [f"{self.COORDINATES}:0.15.0", f"{self.COORDINATES}:1.2.0"]

    def test_spark_goes_on_where_it_has_that_release(self, lake, tmp_path):
        policies, started = lake
        environment = Environment(tmp_path, lambda _: None)
        environment.spark  # noqa: B018 - say for the catalog
        for _ in by_release(environment, policies[1:2]):
            environment.spark  # noqa: B018
        assert started == [f"{self.COORDINATES}:1.2.0"]

    @pytest.mark.parametrize(
        ("variable", "value"), [("ETC_HUDI_BUNDLE", "org.apache:x:1"), ("PYSPARK_GATEWAY_PORT", "1")]
    )
    def test_all_tables_are_taken_by_a_bundle_that_is_named_or_was_submitted(
        self, lake, tmp_path, monkeypatch, variable, value
    ):
        policies, started = lake
        monkeypatch.setenv(variable, value)
        environment = Environment(tmp_path, lambda _: None)
        for group in by_release(environment, policies):
            assert list(group) == policies
            environment.spark  # noqa: B018
        assert len(started) == 1

    def test_a_table_that_cannot_be_read_hides_no_other(self, lake, tmp_path):
        policies, _ = lake
        gone = POLICY.model_copy(update={"name": "gone", "table": str(tmp_path / "gone")})
        groups = by_release(Environment(tmp_path, lambda _: None), [*policies, gone])
        assert [[one.name for one in group] for group in groups] == [["a", "c"], ["b"], ["gone"]]

    @pytest.mark.parametrize(
        ("jar", "release"), [("/jars/hudi-spark3.5-bundle_2.12-1.1.1.jar,/x.jar", "1.1.1"), ("/jars/own.jar", None)]
    )
    def test_sparks_own_settings_are_looked_at_too(self, tmp_path, monkeypatch, jar, release):
        _, releases = self.started(tmp_path, monkeypatch, self.OLD, spark_options={"spark.jars": jar})
        assert releases == [release]


def test_a_spark_that_was_given_stays_whatever_release_a_table_wants(tmp_path):
    environment = Environment(tmp_path, lambda _: None)
    environment.session = object()
    with environment.with_release("1.0.2"):
        assert environment.has_spark
