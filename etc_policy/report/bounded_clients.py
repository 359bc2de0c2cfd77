"""Threads of a server of this process: no more than so many, and none for longer than a request may take."""

from __future__ import annotations

import time
from contextlib import suppress
from socket import SHUT_RDWR
from threading import BoundedSemaphore
from typing import Any

#: So many clients are answered at a time; one that is silent for so long, or has not asked all after so long, is let go.
_MOST_CLIENTS, _SILENT_SECONDS, _WHOLE_SECONDS = 32, 30, 60


def bound_clients(server: Any, *, until_answered: bool = False) -> None:
    """Let clients that ask nothing, or half of it, keep no threads, and no others out: the first of them goes for a new one.

    With `until_answered` the same goes for those that do not take their answer; else that may take as long as it takes, and where
    all are being answered the new one is turned away.
    """
    free, begin, answer = BoundedSemaphore(_MOST_CLIENTS), server.process_request, server.process_request_thread
    held = dict[Any, float]()

    class Handler(server.RequestHandlerClass):  # type: ignore[misc]
        timeout = _SILENT_SECONDS

        def parse_request(self) -> bool:
            whole: bool = super().parse_request()
            if not until_answered:
                held.pop(self.request, None)
            return whole

    def process_request(request: Any, address: Any) -> None:
        if not free.acquire(blocking=False):
            with suppress(OSError, StopIteration, RuntimeError):  # the last where one has just asked all
                next(iter(held)).shutdown(SHUT_RDWR)
            if not free.acquire(timeout=1):
                server.shutdown_request(request)
                return
        held[request] = time.monotonic() + _WHOLE_SECONDS
        begin(request, address)

    def process_request_thread(request: Any, address: Any) -> None:
        try:
            answer(request, address)
        finally:
            held.pop(request, None)
            free.release()

    def service_actions() -> None:
        now = time.monotonic()
        for request, until in tuple(held.items()):
            if until < now:
                with suppress(OSError):
                    request.shutdown(SHUT_RDWR)

    server.RequestHandlerClass = Handler
    server.process_request, server.process_request_thread = process_request, process_request_thread
    server.service_actions = service_actions
    server.handle_error = lambda *_: None  # of the connection; what is wrong with an answer is in the answer
