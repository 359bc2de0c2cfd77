"""What `etc docs serve` answers: the site's own files, to browsers that ask for this machine."""

import os
import socket
import threading

import pytest

from etc_policy.cli import site_server as module
from etc_policy.cli.site_server import site_server


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


def test_half_a_request_keeps_no_thread_for_ever(site, monkeypatch):
    assert module._Handler.timeout == 30
    monkeypatch.setattr(module._Handler, "timeout", 0.2)
    server = site_server(site, 0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    with socket.create_connection(server.server_address, timeout=10) as connection:
        connection.sendall(b"GET / HT")
        assert connection.recv(1) == b""
    server.shutdown()
    thread.join()
    server.server_close()
