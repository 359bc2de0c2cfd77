"""Requests by the HTTP client of botocore, whose answers are read in bounds: botocore holds whatever a server sends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from botocore.httpsession import URLLib3Session
from botocore.utils import get_environ_proxies

#: A page of five thousand names of a thousand characters, each as `&amp;`, with what is said of them.
_MOST_BYTES = 48 << 20


def sender(url: str, trusted: str | None, seconds: float) -> Callable[..., Any]:
    """What sends requests to a server by the environment's proxies, and raises OSError where an answer is too large."""
    http = URLLib3Session(verify=trusted or True, proxies=get_environ_proxies(url), timeout=(seconds, seconds))

    def send(request: Any, **_: object) -> Any:
        request.stream_output = True
        answer = http.send(request)
        answer._content = answer.raw.read(_MOST_BYTES + 1)
        if len(answer._content) > _MOST_BYTES:
            answer.raw.close()
            raise OSError(f"the server sends more than {_MOST_BYTES:,} bytes")
        return answer

    return send


def bound_answers(client: Any, session: Any, seconds: float) -> None:
    """Let a client of botocore read answers in bounds."""
    send = sender(client.meta.endpoint_url, session.get_config_variable("ca_bundle"), seconds)
    client.meta.events.register("before-send", send)
