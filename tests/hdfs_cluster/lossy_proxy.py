"""A proxy before a NameNode that breaks off a connection once a request was carried out, and before its answer is given."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_CARRIED_OUT_SECONDS = 0.5


class LossyProxy:
    """The next request that names `lose` is carried out, and its answer is lost; `lost` counts them."""

    def __init__(self, port: int) -> None:
        self._behind = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.lose, self.lost = b"", 0

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                server, cut = socket.create_connection(("127.0.0.1", self._behind)), threading.Event()
                for step in (self._carry_requests, self._carry_answers):
                    threading.Thread(target=step, args=(client, server, cut), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _carry_requests(self, client: socket.socket, server: socket.socket, cut: threading.Event) -> None:
        with suppress(OSError), client, server:
            while content := client.recv(1 << 16):
                if self.lose and self.lose in content:
                    self.lose, self.lost = b"", self.lost + 1
                    cut.set()
                server.sendall(content)
                if cut.is_set():
                    time.sleep(_CARRIED_OUT_SECONDS)
                    break
            for one in (client, server):
                one.shutdown(socket.SHUT_RDWR)

    def _carry_answers(self, client: socket.socket, server: socket.socket, cut: threading.Event) -> None:
        with suppress(OSError):
            while content := server.recv(1 << 16):
                if not cut.is_set():
                    client.sendall(content)
            client.shutdown(socket.SHUT_RDWR)


@contextmanager
def lossy_proxy(port: int) -> Iterator[LossyProxy]:
    proxy = LossyProxy(port)
    thread = threading.Thread(target=proxy.serve, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join()
