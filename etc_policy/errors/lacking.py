"""Failures of the machine, the network or rights: they say nothing of a table's data, and may pass."""

from __future__ import annotations

import re

from etc_policy.errors.codes import OF_DATA

#: What engines say when disk, memory, executors, locks, the network, rights or Java failed, and not the data.
_LACKS = re.compile(
    r"OutOfMemory|No space left|QuotaExceeded|Too many open files|ExecutorLost|FetchFailed|[Cc]ancell?ed|Interrupted|Heartbeat"
    r"|SparkContext (was|has been|is) (shut|stopped|being)|HoodieLock|Timeout|timed out|ConnectException|SocketException"
    r"|UnknownHost|NoRouteToHost|AccessControl|AccessDenied|Permission denied"
    r"|Answer from Java side is empty|Error while sending or receiving|Connection (refused|reset)|Py4JNetworkError"
    r"|connect to the Java server|new communication channel|does not exist in the JVM"
)


def lacks_something(text: str | None) -> bool:
    """Whether a failure is one of the machine, of the network or of rights, as far as its words say, and may pass."""
    return _LACKS.search(text or "") is not None


def is_about_data(code: str | None, text: str | None) -> bool:
    """Whether an error, or a failure without a code, was met in what was looked at, as far as is known."""
    return (code is None or code in OF_DATA) and not lacks_something(text)
