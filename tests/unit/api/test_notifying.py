"""People hear of problems: from real tables of files, over real HTTP and SMTP servers, once, and again when it is over."""

import json
import os
import shlex
import socket
import ssl
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from pathlib import Path

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from etc_policy.api.project import Project
from etc_policy.errors import PolicyError, SeveralErrors
from etc_policy.report.problems import (
    MAX_LETTERS,
    NAMED_PARTITIONS,
    NAMED_PROBLEMS,
    Findings,
    Message,
    Problem,
    ProblemRecord,
    SentProblems,
    document_of,
)
from etc_policy.run import sending
from etc_policy.run.results import TableResult, timed
from tests.unit.api.hourly import HOURLY
from tests.unit.api.test_log_witness import commit_log
from tests.unit.api.test_partition_events import Endpoint, drip, endpoint  # noqa: F401 - a fixture
from tests.unit.hudi import log_file
from tests.unit.hudi.table_folder import TableFolder, at, base, log
from tests.unit.plan.plan_cases import epoch_ms

POLICY = f"""{HOURLY}    freshness: {{target: 1h}}
    verify: {{level: metadata}}
"""
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TARGETS = "profiles: {p: {target: dev, targets: {dev: {}, prod: {}}}}\n"


class Clock:
    now_ms = epoch_ms("12:00:00")


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    for place in ("etc_policy.api.notifying.clock_ms", "etc_policy.wiring.clock_ms"):
        monkeypatch.setattr(place, lambda: clock.now_ms)
    return clock


@pytest.fixture
def orders(tmp_path, monkeypatch):
    """Hour nine has closed, and a log file holds an event of it; it is noon."""
    monkeypatch.setattr(sending, "PAUSES_SECONDS", (0.05, 0.05))
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "a.yml").write_text(POLICY)
    table = TableFolder(tmp_path / "lake" / "orders")
    table.commit(at("09:00:00"), at("09:00:05"), base("f9", partition="h=2026-01-01-09"))
    table.commit(at("09:20:00"), at("09:20:05"), log("f9", partition="h=2026-01-01-09", min_event=epoch_ms("09:10:00")))
    return table


@pytest.fixture
def look(tmp_path, clock, orders):
    """What `etc freshness --notify` does; returns its errors."""

    def run(notify, later=timedelta(), name="shop", target=None):
        (tmp_path / "etc_project.yml").write_text(f"name: {name}\nnotify: {notify}\n{TARGETS if target else ''}")
        clock.now_ms = epoch_ms("12:00:00") + int(later.total_seconds() * 1000)
        with Project(tmp_path, target=target) as project:
            try:
                project.freshness(at=NOON + later, notify=True)
            except SeveralErrors as error:
                return [str(one) for one in error.errors]
        return []

    return run


def compact(table):
    table.compaction(at("11:45:00"), at("11:45:05"), base("f9", partition="h=2026-01-01-09", merged=1))


#: What a writer may call a partition: lines of its own, a command, what a terminal obeys.
NAMES = ["x\n*etc: all good*\n", "'; touch x #", "\x1b[2J\r", "\u202e", "::error::"]


class TestNamesOfWriters:
    """The name of a partition is data, in whatever is sent, kept and pasted, and of one table's alone."""

    @pytest.fixture(params=NAMES)
    def name(self, request, tmp_path, orders, monkeypatch):
        (tmp_path / "policies" / "a.yml").write_text(POLICY.replace('"h=%Y', '"*/*/h=%Y'))
        name = f"p/{request.param}/h=2026-01-01-09"
        orders.commit(at("09:40:00"), at("09:40:05"), log("g", partition=name, min_event=epoch_ms("09:10:00")))
        return name

    def sent(self, posted):
        ((_, said),) = posted
        return said

    def test_over_http(self, look, endpoint, name):  # noqa: F811
        assert look(f"{{http: {{url: '{endpoint.url}'}}}}") == []
        assert (
            look(f"{{http: {{url: '{endpoint.url}'}}}}", timedelta(hours=1)) == []
        )  # it was recorded that it was sent
        said = self.sent(endpoint.posted)
        (late,) = (one for one in said["problems"] if one["kind"] == "partition")
        assert late["partition"] == name
        assert all(text.isprintable() for text in (said["title"], late["title"], *said["text"].splitlines()))
        assert len(said["text"].splitlines()) == len([*late["details"]]) + 6
        words = shlex.split(late["command"])
        assert words[:6] == ["etc", "freshness", "--select", "orders_ro", "--by", "partition"]
        assert words[6:] in ([], ["--partition", name])

    def test_over_slack_and_by_mail(self, look, endpoint, monkeypatch, mailbox, name):  # noqa: F811
        monkeypatch.setenv("ETC_TEST_SLACK", endpoint.url)
        mail = f"email: {{server: 127.0.0.1, port: {mailbox.port}, from: a@b.example, to: [a@b.example], tls: none}}"
        assert look(f"{{slack: {{url_variable: ETC_TEST_SLACK}}, {mail}}}") == []
        ((_, said),) = endpoint.posted
        assert "\n*etc: all good*" not in said["text"]
        assert len(mailbox.mails) == 1


@pytest.mark.parametrize("record", ["", ", record: shared"])
@pytest.mark.parametrize(("which", "names"), [("target", ("dev", "prod")), ("name", ("shop", "other"))])
def test_what_one_target_or_project_was_sent_is_not_taken_for_another_s(look, endpoint, orders, record, which, names):  # noqa: F811
    """Their policies have the same names; of projects only a declared record is shared."""
    notify = f"{{http: {{url: '{endpoint.url}'}}, every: 1ms{record}}}"
    if (which, record) == ("name", ""):
        return
    for name in names:
        assert look(notify, **{which: name}) == []
    compact(orders)
    for name in names:
        assert look(notify, timedelta(minutes=1), **{which: name}) == []
    sent = [(len(said["problems"]), len(said["recovered"])) for _, said in endpoint.posted]
    assert sent == [(2, 0), (2, 0), (0, 2), (0, 2)]
    assert len({headers["Idempotency-Key"] for headers in endpoint.headers}) == 4


def test_each_time_that_a_problem_is_over_is_a_message_of_its_own(look, endpoint, orders):  # noqa: F811
    """Else whoever keeps ids takes the second for the first, sent again."""
    notify = f"{{http: {{url: '{endpoint.url}'}}, every: 1ms}}"
    commit = list(orders.timeline.iterdir())
    look(notify)
    for hours in (1, 3):
        compact(orders)
        look(notify, timedelta(minutes=hours))
        for file in set(orders.timeline.iterdir()) - set(commit):
            file.unlink()
        look(notify, timedelta(minutes=hours + 1))
    assert [bool(said["recovered"]) for _, said in endpoint.posted] == [False, True, False, True, False]
    assert len({said["id"] for _, said in endpoint.posted}) == 5


class TestHttp:
    @pytest.fixture
    def notify(self, endpoint):  # noqa: F811
        return f"{{http: {{url: '{endpoint.url}', secret_headers: {{Authorization: ETC_TEST_TOKEN}}}}, timeout: 500ms}}"

    @pytest.fixture(autouse=True)
    def _token(self, monkeypatch):
        monkeypatch.setenv("ETC_TEST_TOKEN", "s3cret")

    def test_one_message_says_which_how_late_and_what_holds_it_back(self, look, notify, endpoint, tmp_path):  # noqa: F811
        assert look(notify) == []
        ((_, said),) = endpoint.posted
        assert [one["key"] for one in said["problems"]] == ["limit/orders_ro", "partition/orders_ro/h=2026-01-01-09"]
        assert (said["project"], said["title"]) == ("shop", "2 problems")
        assert "RO is complete until 2026-01-01 09:09:59.999 UTC" in said["text"]
        assert "that is 2h50m" in said["text"]
        assert "held back by `.f9_" in said["text"]
        assert "etc freshness --select orders_ro --by partition --partition h=2026-01-01-09" in said["text"]
        assert endpoint.headers[0]["Authorization"] == "s3cret"
        assert "s3cret" not in (tmp_path / "target" / "notified.json").read_text()

    def test_no_proxy_reads_what_is_sent_to_this_machine(self, look, notify, endpoint, monkeypatch):  # noqa: F811
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        monkeypatch.delenv("no_proxy", raising=False)
        assert look(notify) == []
        assert endpoint.headers[0]["Authorization"] == "s3cret"

    def test_it_is_not_said_again_until_it_is_over(self, look, notify, endpoint, orders):  # noqa: F811
        look(notify)
        look(notify, timedelta(hours=1))
        compact(orders)
        orders.commit(at("12:50:00"), at("12:50:05"), base("g", partition="h=2026-01-01-12"))
        look(notify, timedelta(hours=2))
        look(notify, timedelta(hours=3))
        first, second = (said for _, said in endpoint.posted)
        assert second["problems"] == []
        assert set(second["recovered"]) == {one["key"] for one in first["problems"]}
        assert second["id"] != first["id"]

    def test_a_late_update_of_an_old_partition_is_none_at_once(self, look, notify, endpoint, orders):  # noqa: F811
        compact(orders)
        late = log("f9", partition="h=2026-01-01-09", min_event=epoch_ms("11:54:00"))
        orders.commit(at("11:55:00"), at("11:55:05"), late)
        look(notify)
        assert endpoint.posted == []
        look(notify, timedelta(hours=2))
        ((_, said),) = endpoint.posted
        assert "partition/orders_ro/h=2026-01-01-09" in [one["key"] for one in said["problems"]]

    def test_what_a_worse_partition_pushes_out_of_those_named_is_not_over(self, look, notify, endpoint, orders):  # noqa: F811
        """Ten of a table are named, the worst first; those that were are late as long as they are."""
        for day in range(2 * NAMED_PARTITIONS, 0, -1):
            first_ms = epoch_ms("08:00:00") + day * 60_000
            late = log("f", partition=f"h=2025-12-{day:02}-09", min_event=first_ms)
            orders.commit(at(f"10:{60 - day}:00"), at(f"10:{60 - day}:05"), late)
            if day == NAMED_PARTITIONS:
                look(notify)
        look(notify, timedelta(hours=1))
        (first, _), *later = [
            ([one["key"] for one in said["problems"] if one["kind"] == "partition"], said["recovered"])
            for _, said in endpoint.posted
        ]
        assert len(first) == NAMED_PARTITIONS
        assert later == []

    def test_a_partition_is_not_over_while_nobody_knows_of_its_table(self, look, notify, endpoint, orders):  # noqa: F811
        look(notify)
        properties = orders.meta / "hoodie.properties"
        kept = properties.read_text()
        properties.write_text("hoodie.table.type=?")
        look(notify, timedelta(hours=1))
        properties.write_text(kept)
        look(notify, timedelta(hours=2))
        assert [said["recovered"] for _, said in endpoint.posted] == [{}]

    @pytest.mark.parametrize(
        ("gone", "over"),
        [
            ("    freshness: {target: 1h}\n", []),
            ('    partition_time: {from: "h=%Y-%m-%d-%H"}\n', []),
            ("", ["limit/orders_ro", "partition/orders_ro/h=2026-01-01-09"]),
        ],
    )
    def test_what_nobody_judges_any_more_is_not_over(self, look, notify, endpoint, orders, tmp_path, gone, over):  # noqa: F811
        """RO is as late as before where the policy has no limit now; with the limit back it is over once it is in time."""
        look(notify)
        if not gone:
            compact(orders)
            orders.commit(at("12:50:00"), at("12:50:05"), base("g", partition="h=2026-01-01-12"))
        (tmp_path / "policies" / "a.yml").write_text(POLICY.replace(gone, "") if gone else POLICY)
        look(notify, timedelta(hours=1))
        assert sorted(key for _, said in endpoint.posted for key in said["recovered"]) == over

    def test_a_verification_that_passes_by_less_is_not_over(self, tmp_path, orders, notify, endpoint, clock):  # noqa: F811
        """What a log file's own bytes show metadata do not look for."""
        (tmp_path / "etc_project.yml").write_text(f"notify: {notify}\n")
        (tmp_path / "policies" / "a.yml").write_text(HOURLY.replace("ts", "{column: ts, unit: ms}"))
        compact(orders)
        early = log_file.avro([epoch_ms("09:10:00")], "long")
        commit_log(orders, at("11:50:00"), at("11:50:05"), epoch_ms("11:49:00"), early)
        with Project(tmp_path) as project:
            for level in ("logs", "metadata", "logs"):
                with suppress(SeveralErrors):
                    project.verify(at=NOON, level=level)
                clock.now_ms += 3_600_000
        said = [([one["kind"] for one in said["problems"]], [*said["recovered"]]) for _, said in endpoint.posted]
        assert said == [(["verification"], [])]

    def test_news_wait_for_their_time(self, look, notify, endpoint, orders):  # noqa: F811
        look(notify)
        compact(orders)
        look(notify, timedelta(minutes=14))
        assert len(endpoint.posted) == 1
        look(notify, timedelta(minutes=15))
        assert len(endpoint.posted) == 2

    def test_what_is_not_taken_is_sent_by_the_next_run_with_the_same_id(self, look, notify, endpoint):  # noqa: F811
        endpoint.answers = [400]
        (error,) = look(notify)
        assert "messages about problems were not sent: http: `127.0.0.1" in error
        assert "s3cret" not in error
        look(notify, timedelta(minutes=1))
        assert len({said["id"] for _, said in endpoint.posted}) == 1
        assert [status for status, _ in endpoint.posted] == [400, 204]

    def test_a_record_that_cannot_be_written_is_an_error_that_ends_nothing(self, look, notify, endpoint, tmp_path):  # noqa: F811
        (tmp_path / "record").write_text("a file in the place of the folder")
        (error,) = look(notify[:-1] + ", record: record}")
        assert "their record in `" in error
        assert endpoint.posted == []

    def test_a_table_that_cannot_be_read_is_a_problem(self, look, notify, endpoint, tmp_path):  # noqa: F811
        (tmp_path / "lake" / "orders").rename(tmp_path / "lake" / "gone")
        look(notify)
        assert endpoint.posted[0][1]["title"] == "nobody knows how far `orders_ro` is complete"

    def test_another_channel_hears_all_the_same(self, look, notify, endpoint, monkeypatch):  # noqa: F811
        monkeypatch.delenv("ETC_TEST_SLACK", raising=False)
        (error,) = look("{slack: {url_variable: ETC_TEST_SLACK}, " + notify[1:])
        assert "slack: the environment variable `ETC_TEST_SLACK` is not set" in error
        assert len(endpoint.posted) == 1

    def test_a_run_and_a_verification_that_fail(self, tmp_path, orders, notify, endpoint, clock):  # noqa: F811
        (tmp_path / "etc_project.yml").write_text(f"notify: {notify}\n")
        (tmp_path / "policies" / "a.yml").write_text(POLICY.replace("    freshness: {target: 1h}\n", ""))
        compact(orders)
        (gone,) = (orders.base / "h=2026-01-01-09").glob("f9*1145*.parquet")
        kept = gone.read_bytes()
        gone.unlink()
        with Project(tmp_path) as project:
            with pytest.raises(SeveralErrors):
                project.apply(at=NOON)
            project.verify(at=NOON, level="metadata")
            gone.write_bytes(kept)
            clock.now_ms += 3_600_000
            project.apply(at=NOON)
        kinds = [sorted(one["kind"] for one in said["problems"]) for _, said in endpoint.posted]
        assert kinds[0] == ["run"]
        assert "run/orders_ro" in endpoint.posted[-1][1]["recovered"]


@pytest.mark.parametrize(("status", "is_over"), [("stale", False), ("nothing_due", True), ("compacted", True)])
def test_a_failed_run_is_over_once_a_run_did_what_it_should(status, is_over):
    """A stale plan compacts nothing either, and is made again by the next run."""
    failed, then = (
        TableResult(policy="orders_ro", base_path="/t", status=one, **timed(0, 0)) for one in ("failed", status)
    )
    record = ProblemRecord()
    for result in (failed, then):
        findings = Findings(now_ms=0)
        findings.add_results([result])
        record = record.after_check(findings)
    assert (record.problems == {}) == is_over


def test_runs_that_meet_send_one_message(orders, endpoint, tmp_path):  # noqa: F811
    notify = f"{{http: {{url: '{endpoint.url}/etc'}}}}"
    (tmp_path / "etc_project.yml").write_text(f"name: shop\nnotify: {notify}\n")
    command = [Path(sys.executable).with_name("etc"), "freshness", "--notify"]
    runs = [
        subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(3)
    ]
    assert [run.wait(60) for run in runs] == [1, 1, 1]
    assert len(endpoint.posted) == 1


def test_slack_gets_its_own_form(look, endpoint, monkeypatch):  # noqa: F811
    monkeypatch.setenv("ETC_TEST_SLACK", endpoint.url)
    look("{slack: {url_variable: ETC_TEST_SLACK}}")
    ((_, said),) = endpoint.posted
    assert list(said) == ["text"]
    assert said["text"].startswith("*etc: 2 problems*\n`orders_ro` is beyond its limit")


class Mailbox:
    """What an SMTP server takes; `answers` are said in place of taking one."""

    def __init__(self):
        self.mails, self.answers = [], []

    async def handle_DATA(self, _server, _session, envelope):
        if self.answers:
            return self.answers.pop(0)
        self.mails.append((envelope.rcpt_tos, message_from_bytes(envelope.content)))
        return "250 taken"


@contextmanager
def serving(**settings):
    """A mailbox behind a real server."""
    mailbox = Mailbox()
    with socket.create_server(("127.0.0.1", 0)) as free:
        mailbox.port = free.getsockname()[1]
    server = Controller(mailbox, hostname="127.0.0.1", port=mailbox.port, **settings)
    server.start()
    try:
        yield mailbox
    finally:
        server.stop()


@pytest.fixture
def mailbox():
    with serving() as mailbox:
        yield mailbox


class TestEmail:
    def notify(self, port, more="tls: none"):
        people = "from: etc@shop.example, to: [a@shop.example, b@shop.example]"
        return f"{{email: {{server: 127.0.0.1, port: {port}, {people}, {more}}}}}"

    def test_a_mail_is_sent(self, look, mailbox):
        assert look(self.notify(mailbox.port)) == []
        ((to, mail),) = mailbox.mails
        assert (to, mail["Subject"]) == (["a@shop.example", "b@shop.example"], "etc: 2 problems")
        assert "RO is complete until" in mail.get_payload()

    @pytest.mark.parametrize(("answer", "tries"), [("451 later", 3), ("554 no", 1)])
    def test_what_may_pass_is_tried_again(self, look, mailbox, answer, tries):
        mailbox.answers = [answer] * 3
        (error,) = look(self.notify(mailbox.port))
        assert f"answered with code {answer[:3]}" in error
        assert len(mailbox.answers) == 3 - tries
        mailbox.answers = []
        assert look(self.notify(mailbox.port), timedelta(minutes=1)) == []
        assert len(mailbox.mails) == 1

    def test_a_server_that_drips(self, look):
        with socket.create_server(("127.0.0.1", 0)) as server:
            threading.Thread(target=drip, args=(server,), daemon=True).start()
            (error,) = look(self.notify(server.getsockname()[1])[:-1] + ", timeout: 500ms}")
        assert "email: `127.0.0.1` gave no whole answer within 0.5 s" in error

    def test_a_server_that_is_away(self, look):
        (error,) = look(self.notify(1))
        assert "email: `127.0.0.1` does not answer: ConnectionRefusedError" in error

    @pytest.mark.parametrize(("password", "taken"), [("s3cret", 1), ("wrong", 0)])
    def test_a_password_goes_over_tls_alone(self, look, tmp_path, monkeypatch, password, taken):
        context = own_certificate(tmp_path)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        monkeypatch.setenv("ETC_TEST_PASSWORD", password)

        def is_right(_server, _session, _envelope, _mechanism, given):
            return AuthResult(success=(given.login, given.password) == (b"etc", b"s3cret"), handled=False)

        with serving(tls_context=context, require_starttls=True, authenticator=is_right) as mailbox:
            said = look(self.notify(mailbox.port, "user: etc, password_variable: ETC_TEST_PASSWORD"))
        assert len(mailbox.mails) == taken
        assert bool(said) != bool(taken)
        assert password not in "".join(said)


def own_certificate(folder):
    """A TLS context of 127.0.0.1, whose certificate is in `cert.pem`."""
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "cert.pem").write_bytes(certificate.public_bytes(pem))
    (folder / "key.pem").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


@pytest.mark.parametrize("url", ["http://hooks.example.com/T0", "HTTP://127.0.0.1.example.com/T0"])
def test_the_url_of_a_webhook_is_not_sent_in_clear(look, monkeypatch, url):
    """It is a secret: whoever has it writes to the channel."""
    monkeypatch.setenv("ETC_TEST_SLACK", url)
    monkeypatch.setattr(socket, "getaddrinfo", None)
    (error,) = look("{slack: {url_variable: ETC_TEST_SLACK}}")
    assert "not sent in clear" in error
    assert "T0" not in error


@pytest.mark.parametrize(
    ("notify", "says"),
    [
        ("{every: 1h}", "`notify` needs `slack`, `http` or `email`"),
        ("{http: {url: 'ftp://x'}}", "the URL must be one such as"),
        (
            "{http: {url: 'http://alerts.example.com', secret_headers: {A: B}}}",
            "not sent in clear: use a URL with `https://`",
        ),
        ("{http: {url: 'http://127.example.com', secret_headers: {A: B}}}", "not sent in clear"),
        ("{email: {server: x, from: 'a b@c', to: [a@b]}}", "is not an address"),
        ("{email: {server: x, from: a@b, to: [a@b], user: u}}", "need each other"),
        ("{email: {server: x, from: a@b, to: [a@b], user: u, password_variable: P, tls: none}}", "in clear"),
        ("{email: {server: x, from: a@b, to: []}}", "is empty"),
    ],
)
def test_what_cannot_be_is_an_error_at_its_place(tmp_path, orders, notify, says):
    (tmp_path / "etc_project.yml").write_text(f"notify: {notify}\n")
    with pytest.raises(PolicyError, match=says) as error, Project(tmp_path) as project:
        project.policies()
    assert "etc_project.yml:1:" in str(error.value)


def test_a_name_that_is_not_utf_8_is_kept_and_said():
    partition = os.fsdecode(b"p\xff\n")
    late = Problem(
        policy="p", kind="partition", partition=partition, title=f"`{partition}` is late", command="c", since_ms=0
    )
    record = ProblemRecord().after_check(Findings(0, {("p", "partition")}, [late]))
    assert ProblemRecord.of_json(record.as_json(exclude_defaults=True).encode()) == record
    message = record.message_to("email", 10**12, 1)
    assert message.title == r"`p\udcff\n` is late"
    json.dumps(document_of(message, None)).encode()


def test_many_problems_are_one_message_and_the_rest_is_counted():
    many = tuple(
        Problem(policy=f"p{number}", kind="run", title=f"p{number} failed", command="etc history", since_ms=0)
        for number in range(100)
    )
    text = "\n".join(Message(broken=many, recovered={}).lines())
    assert text.count("failed") == NAMED_PROBLEMS
    assert "and 80 more" in text
    assert Message(broken=many, recovered={}).title == "100 problems"


def test_a_reason_is_one_line_of_a_message():
    reason = "Java said\nrecovered: all is well" + 1000 * "x"
    one = Problem(policy="p", kind="run", title="p failed", details=(reason,), command="c", since_ms=0)
    _, said, _ = Message(broken=(one,), recovered={}).lines()
    assert "\n" not in said
    assert len(said) <= MAX_LETTERS + 4


def test_what_breaks_and_recovers_between_two_messages_is_not_said():
    one = Problem(policy="p", kind="run", title="p failed", command="etc history", since_ms=0)
    found = Findings(0, {("p", "run")}, [one])
    record = ProblemRecord().after_check(found).after_check(Findings(0, {("p", "run")}))
    assert record.message_to("slack", 10**12, 1) is None
    kept = ProblemRecord().after_check(found).after_check(Findings(0, {("q", "run"), ("p", "limit")}))
    assert kept.message_to("slack", 10**12, 1) == Message(broken=(one,), recovered={})
    assert json.loads(kept.model_dump_json())["problems"]["run/p"]["policy"] == "p"


def test_a_clock_that_was_ahead_keeps_no_message_back():
    """Nothing was sent until that time had come, and nothing said so."""
    one = Problem(policy="p", kind="limit", title="t", command="c", since_ms=1)
    sent = {"slack": SentProblems(at_ms=10**13)}
    assert ProblemRecord(problems={one.key: one}, sent=sent).message_to("slack", 10**12, 60_000) is not None


def test_the_record_keeps_the_newest_problems_and_is_never_too_large_to_be_read(monkeypatch):
    """What failed in tables that others made and removed was kept for ever; at 32 MiB nobody heard of anything any more."""
    monkeypatch.setattr("etc_policy.report.problems.MAX_RECORD_BYTES", 1_000)
    record, before = ProblemRecord(), set[str]()
    for number in range(1, 50):
        one = Problem(policy=f"p{number}", kind="run", title=100 * "x", command="c", since_ms=number)
        record = record.after_check(Findings(number, {(one.policy, "run")}, [one]))
        message = record.message_to("slack", number, 0)
        assert (message.broken, message.recovered) == ((one,), {})
        record = record.after_message("slack", number, message)
        assert one.key in record.problems
        before |= record.problems.keys()
    assert 2 <= len(record.problems) < 10
    assert record.sent["slack"].problems.keys() == record.problems.keys()
    assert len(before) == 49


def test_a_long_text_of_one_table_hides_no_message(look, endpoint, orders, tmp_path):  # noqa: F811
    """A reason of nine megabytes beside one table was larger than the whole record: nobody heard of any table."""
    (tmp_path / "policies" / "b.yml").write_text(
        POLICY.replace("lake/orders", "lake/other").replace("orders_ro", "other")
    )
    TableFolder(tmp_path / "lake" / "other").commit(
        at("09:00:00"), at("09:00:05"), base("f9", partition="h=2026-01-01-09")
    )
    memory = tmp_path / "lake" / "other" / ".hoodie" / ".etc" / "memory.json"
    memory.parent.mkdir()
    rows = {"level": "data", "until_ms": epoch_ms("12:00:00")}
    doubt = {"compaction": "1 2", "why": 9_000_000 * "x", "verification": "fail", "rows": rows}
    memory.write_text(json.dumps({"unproven": [doubt]}))
    assert look(f"{{http: {{url: '{endpoint.url}'}}}}") == []
    ((_, said),) = endpoint.posted
    assert {one["key"] for one in said["problems"]} >= {"limit/other", "limit/orders_ro"}
    assert len(json.dumps(said)) < 20_000


def test_a_problem_that_is_too_large_hides_no_other(monkeypatch):
    monkeypatch.setattr("etc_policy.report.problems.MAX_RECORD_BYTES", 1_000)
    large, small = (
        Problem(policy=name, kind="run", title=many * "x", command="c", since_ms=since)
        for name, many, since in (("large", 2_000, 2), ("small", 10, 1))
    )
    record = ProblemRecord().after_check(Findings(3, {("large", "run"), ("small", "run")}, [large, small]))
    assert record.problems == {small.key: small}


def test_a_message_is_small_enough_for_its_receiver(look, endpoint, orders, tmp_path):  # noqa: F811
    """Long names of one writer's partitions made it larger than a megabyte, which many a receiver refuses for ever."""
    levels = 12 * "*/"
    (tmp_path / "policies" / "a.yml").write_text(POLICY.replace('"h=%Y', f'"{levels}h=%Y'))
    for number in range(3):
        long = "/".join([62 * "\U0001f600"] * 11 + [str(number)]) + "/h=2026-01-01-09"
        orders.commit(
            at(f"09:40:0{number}"), at(f"09:41:0{number}"), log("g", partition=long, min_event=epoch_ms("09:10:00"))
        )
    assert look(f"{{http: {{url: '{endpoint.url}'}}}}") == []
    ((_, said),) = endpoint.posted
    named = [one for one in said["problems"] if one["kind"] == "partition"]
    assert len({one["key"] for one in named}) == len(named) >= 3
    assert max(len(one["key"]) for one in named) < 400
    assert all("--partition" not in one["command"] for one in named if "\U0001f600" in one["title"])
    many = [
        Problem(
            policy=f"p{n}", kind="run", title=9_000 * "t", details=20 * (5_000 * "\U0001f600",), command="c", since_ms=0
        )
        for n in range(200)
    ]
    document = document_of(Message(broken=many, recovered={f"k{n}": 9_000 * "t" for n in range(200)}), "shop")
    assert len(json.dumps(document)) < 256 << 10
    assert document["left_out"] + len(document["problems"]) + len(document["recovered"]) == 400
