"""What Java's exceptions say: the root first, as it is mostly what has to be mended, then what it led to."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Any

from etc_policy.spark.interrupts import why_java_ended
from etc_policy.spark.java_runtime import STARTED_BY_SUBMIT, has_utf8_locale, spark_variables

#: The root and what is next to it; the outermost is always shown.
_NEAR_THE_ROOT = 3
#: So much of one message; Hudi's may hold a whole schema.
_MOST_CHARACTERS = 600
#: Where a stack begins in the text of an exception, or in the message of a job that Spark has given up.
_STACK = re.compile(r"\s+at \S+\(|\s+\.\.\. \d+ more|Driver stacktrace:")
#: Where the next exception begins in such a text.
_NESTED = "Caused by: "
#: A name of an exception that has no words of its own, such as that of Java's reflection.
_BARE = re.compile(r"[\w.$]*")
_LED_TO = "\nwhich led to: "
#: How an error of py4j begins; what Java says is in the line after it.
_PY4J = "An error occurred while calling"
#: What Java says of a file that it does not find.
_NOT_FOUND = re.compile(r"(?i)not ?found|NoSuchFile|does not exist")
#: Variables of the process by which Spark finds another file system or other classes than those that etc was run with.
_BY_VARIABLES = (
    (
        re.compile(r"No FileSystem for scheme|UnknownHostException|ConnectException"),
        ("HADOOP_CONF_DIR", "SPARK_CONF_DIR"),
    ),
    (
        re.compile(
            r"ClassNotFound|NoClassDefFound|NoSuchMethodError|NoSuchFieldError|ClassChangeError|ClassVersionError"
        ),
        ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS"),
    ),
)


def is_denied(text: str) -> bool:
    """Whether the system or a store denied something to this user."""
    return re.search(r"Permission denied|AccessDenied|AccessControlException", text) is not None


def java_causes(error: Exception) -> str:
    """The messages of a Java exception and its causes, the root first; of others the first line.

    What a message repeats of its cause is not said again.
    """
    exception = getattr(error, "java_exception", None)
    if ended := why_java_ended():
        return ended
    if exception is None:
        return next(iter(str(error).splitlines()), type(error).__name__)
    return throwable_causes(exception)


def is_caused_by(error: Exception, name: str) -> bool:
    """Whether an exception of Java, or one of its causes, says a name."""
    return any(name in text for text in _texts(getattr(error, "java_exception", None)))


def throwable_causes(exception: Any) -> str:
    """The same of an exception of Java that nobody has raised here."""
    causes = _as_shown(message for text in _texts(exception) for message in _messages(text))
    return "\n".join([causes, *_variables_behind(causes)])


def causes_in(text: str) -> str | None:
    """The same of a text that py4j has made of Java's exception; None of any other text."""
    if not text.lstrip().startswith(_PY4J):
        return None
    return _as_shown(_messages(text.lstrip().partition("\n")[2].removeprefix(": ")))


def _variables_behind(causes: str) -> Iterator[str]:
    """The variables that are set and can be the reason."""
    for said, names in _BY_VARIABLES:
        if said.search(causes) and (found := [name for name in spark_variables(os.environ) if name in names]):
            yield f"set for this process, and maybe the reason: {', '.join(found)}"
    if not (causes.isascii() or has_utf8_locale()) and STARTED_BY_SUBMIT in os.environ and _NOT_FOUND.search(causes):
        yield "spark-submit ran in a locale without UTF-8, in which Java finds no such name: set LC_ALL=C.UTF-8 for it"


def _as_shown(inward: Iterable[str]) -> str:
    """Messages, the outermost first, as they are shown."""
    outward = list(_without_echoes(reversed(list(inward))))
    shown = [*outward[:_NEAR_THE_ROOT], *outward[_NEAR_THE_ROOT:][-1:]]
    return _LED_TO.join(map(_short, shown))


def _texts(exception: Any) -> Iterator[str]:
    """What each exception of the chain says, the outermost first."""
    while exception is not None:
        yield str(exception.toString())
        exception = exception.getCause()


def _messages(text: str) -> Iterator[str]:
    """What exceptions say in a text, without their stacks."""
    lines = text.splitlines()
    starts = [0, *(place for place, line in enumerate(lines) if place and line.startswith(_NESTED))]
    for start in starts:
        said = "\n".join(takewhile(lambda line: not _STACK.match(line), lines[start:]))
        yield said.removeprefix(_NESTED).strip() or text.partition("\n")[0]


def _without_echoes(outward: Iterable[str]) -> Iterator[str]:
    """Messages without what they repeat of their causes, which come before them; the root is always there."""
    said: list[str] = []
    for message in outward:
        own = message
        for known in said:
            own = own.replace(known, "").rstrip(": ")
        if not said or not _BARE.fullmatch(own):
            said.append(message)
            yield own


def _short(message: str) -> str:
    return message if len(message) <= _MOST_CHARACTERS else f"{message[:_MOST_CHARACTERS]}..."
