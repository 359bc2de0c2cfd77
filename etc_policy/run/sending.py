"""Sends a document over HTTP; what may pass by itself is tried a few times."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any

from etc_policy.policy.schema import HttpEndpoint
from etc_policy.storage.port import Requests, T

#: Seconds before the second try and those after it, where nobody answered or the answer may be another one soon.
PAUSES_SECONDS = (1.0, 3.0)
_MAY_PASS = frozenset({408, 425, 429})
#: A server may send a byte now and then, for ever.
_REQUESTS = defaultdict[str, Requests](Requests)


class NotSentError(Exception):
    """It was not sent; `is_out` says that nobody answers, so that the others need not be tried now."""

    def __init__(self, reason: str, *, is_out: bool = False) -> None:
        super().__init__(reason)
        self.is_out = is_out


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer like others: secrets go to the declared URL alone."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """None."""
        return


def tried(send: Callable[[], None]) -> None:
    """Send, a few times where nobody answers.

    Raises:
        NotSentError: it was not taken.

    """
    for pause in PAUSES_SECONDS:
        try:
            return send()
        except NotSentError as error:
            if not error.is_out:
                raise
        time.sleep(pause)
    return send()


def in_time(host: str, request: Callable[[], T], seconds: float) -> T:
    """What a request to a server returns or raises.

    Raises:
        NotSentError: it took longer.

    """
    try:
        return _REQUESTS[host].in_time(request, seconds)
    except TimeoutError:
        raise NotSentError(f"`{host}` gave no whole answer within {seconds:g} s", is_out=True) from None


def secret_of(variable: str, variables: Mapping[str, str]) -> str:
    """The secret that a variable of the environment holds.

    Raises:
        NotSentError: it is not set, or cannot be part of a message.

    """
    value = variables.get(variable)
    if value is None:
        raise NotSentError(f"the environment variable `{variable}` is not set", is_out=True)
    if not value.isprintable() or not value.isascii():
        raise NotSentError(f"what the environment variable `{variable}` holds is not printable ASCII", is_out=True)
    return value


def post(
    endpoint: HttpEndpoint,
    document: Mapping[str, Any],
    headers: Mapping[str, str],
    variables: Mapping[str, str],
    timeout_seconds: float,
) -> None:
    """Post the document as JSON.

    Raises:
        NotSentError: it was not taken, or a secret is missing.

    """
    secrets = {header: secret_of(variable, variables) for header, variable in endpoint.secret_headers.items()}
    request = urllib.request.Request(  # noqa: S310 - http or https
        endpoint.url,
        json.dumps(document).encode(),
        {"User-Agent": "etc", **headers, **secrets},
        method="POST",
    )
    tried(lambda: in_time(request.host, lambda: _post(request, timeout_seconds), timeout_seconds))


def _post(request: urllib.request.Request, timeout_seconds: float) -> None:
    opener = urllib.request.build_opener(_NoRedirects)
    host = request.host
    try:
        with opener.open(request, timeout=timeout_seconds):
            return
    except urllib.error.HTTPError as error:
        with error:
            is_out = error.code in _MAY_PASS or error.code >= 500
            raise NotSentError(f"`{host}` answered with status {error.code}", is_out=is_out) from None
    except (OSError, HTTPException, ValueError) as error:
        why = getattr(error, "reason", None) or error
        raise NotSentError(f"`{host}` does not answer: {type(why).__name__}", is_out=True) from None
