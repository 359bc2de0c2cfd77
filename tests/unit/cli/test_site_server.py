"""What `etc docs serve` answers: the site's own files, to browsers that ask for this machine."""

import os
import socket
import threading
import time
from contextlib import ExitStack, suppress

import pytest

from etc_policy.cli.site_server import site_server
from etc_policy.report import bounded_clients


@pytest.fixture
def site(tmp_path):
    folder = tmp_path / "site"
    (folder / "tables").mkdir(parents=True)
    (folder / "index.html").write_text("the index")
    (folder / "tables" / "orders.html").write_text("orders")
    (folder / "linked.html").symlink_to("tables/orders.html")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "index.html").write_text("secret")
    (folder / "out.html").symlink_to(tmp_path / "secret" / "index.html")
    (folder / "out").symlink_to(tmp_path / "secret")
    (folder / "circle").symlink_to("circle")
    os.mkfifo(folder / "pipe")
    return folder


@pytest.fixture
def ask(site):
    """Sends one request as it is, and returns the status and the body."""
    server = site_server(site, 0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()

    def send(path, host="127.0.0.1", *, more=""):
        line = "" if host is None else f"Host: {host}\r\n"
        with socket.create_connection(server.server_address, timeout=10) as connection:
            connection.sendall(f"GET {path} HTTP/1.0\r\n{line}{more}\r\n".encode("latin-1"))
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), body.decode()

    yield send
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8081", "localhost:1", "LOCALHOST", "[::1]:8081"])
def test_this_machine_is_answered(ask, host):
    assert ask("/", host) == (200, "the index")
    assert ask("/tables/orders.html?x#y", host) == (200, "orders")
    assert ask("/linked.html", host) == (200, "orders")


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost@evil", "", None, "localhost:1:2"]
)
def test_another_name_is_not(ask, host):
    status, body = ask("/", host)
    assert (status, "index" in body) == (421, False)


def test_two_names_are_not(ask):
    assert ask("/", more="Host: evil.example\r\n")[0] == 421


@pytest.mark.parametrize(
    "path",
    [
        "/out.html",
        "/out/",
        "/out/index.html",
        "/circle",
        "/pipe",
        "/tables/",
        "/%00",
        "/a%00b.html",
        "/../secret/",
        "/x",
    ],
)
def test_what_is_no_file_of_the_site_is_not_found(ask, path, capsys):
    status, body = ask(path)
    assert (status, "secret" in body) == (404, False)
    assert "Traceback" not in capsys.readouterr().err


def test_what_is_asked_for_is_noted_on_one_clean_line(ask, capsys):
    ask("/\x1b[2J\x9b::x")
    lines = capsys.readouterr().err.splitlines()
    assert all(line.isprintable() and line.startswith("127.0.0.1 ") for line in lines)
    assert any("GET /" in line for line in lines)


@pytest.fixture
def serving(site):
    """Begins to serve, and returns the server."""
    with ExitStack() as stack:

        def begin():
            server = site_server(site, 0)
            thread = threading.Thread(target=server.serve_forever, args=(0.05,))
            thread.start()
            stack.callback(server.server_close)
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            return server

        yield begin


def test_half_a_request_keeps_no_thread_for_ever(serving, monkeypatch):
    assert bounded_clients._SILENT_SECONDS == 30
    monkeypatch.setattr(bounded_clients, "_SILENT_SECONDS", 0.2)
    with socket.create_connection(serving().server_address, timeout=10) as connection:
        connection.sendall(b"GET / HT")
        assert connection.recv(1) == b""


def test_a_client_that_drips_is_let_go(serving, monkeypatch):
    """Each byte began a new wait of 30 s."""
    monkeypatch.setattr(bounded_clients, "_WHOLE_SECONDS", 0.5)
    with socket.create_connection(serving().server_address, timeout=10) as connection, suppress(ConnectionError):
        for _ in range(200):
            connection.sendall(b"x")
            time.sleep(0.05)
        pytest.fail("it is still listened to")


def test_a_client_that_takes_no_answer_is_let_go(site, serving, monkeypatch):
    """It had 30 s for each 64 KiB."""
    monkeypatch.setattr(bounded_clients, "_WHOLE_SECONDS", 0.5)
    (site / "large").write_bytes(bytes(64 << 20))
    before = threading.active_count() + 1
    with socket.create_connection(serving().server_address, timeout=10) as connection:
        connection.sendall(b"GET /large HTTP/1.0\r\nHost: localhost\r\n\r\n")
        until = time.monotonic() + 10
        while threading.active_count() == before and time.monotonic() < until:  # until it has begun
            time.sleep(0.01)
        while threading.active_count() > before and time.monotonic() < until:
            assert connection.recv(10)
            time.sleep(0.01)
        assert threading.active_count() == before


def test_clients_have_no_more_than_so_many_threads_and_keep_no_other_out(serving, monkeypatch):
    monkeypatch.setattr(bounded_clients, "_MOST_CLIENTS", 3)
    server, before = serving(), threading.active_count()
    with ExitStack() as stack:
        halves = [stack.enter_context(socket.create_connection(server.server_address, timeout=10)) for _ in range(20)]
        assert [half.recv(1) for half in halves[:17]] == [b""] * 17
        assert threading.active_count() - before <= 3
        with socket.create_connection(server.server_address, timeout=10) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
            assert b"".join(iter(lambda: connection.recv(65536), b"")).endswith(b"the index")
