"""What the keys of YAML files hold: durations, sizes, texts, names, plain expressions, and the base of the files' models."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from typing import Annotated, Literal, Self, TypeAlias
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationInfo,
)
from pydantic.json_schema import WithJsonSchema
from pydantic_core import PydanticCustomError, PydanticKnownError

from etc_policy.policy.locations import is_catalog_name
from etc_policy.policy.quantities import (
    DURATION_PATTERN,
    MAX_MS,
    SIZE_PATTERN,
    QuantityError,
    parse_duration_ms,
    parse_size_bytes,
)
from etc_policy.policy.times import BOUNDARIES_PATTERN, parse_boundaries, pattern_fault, zone_of

_MAX_LENGTH = 500


#: What reading makes of a `data_latency` that is a mapping: no file has a key of this name.
LEARNED = "learned_latency"


class NoVariableError(ValueError):
    """The text is not the name of an environment variable: it may be its value, a secret, which no message shows."""


#: What makes a text a glob, and one that does so before the first folder of a URI.
GLOB = re.compile(r"[*?\[]")
_GLOB_OF_HOSTS = re.compile(r"[^/]*:/+[^/]*[*?\[]")
_ESCAPE = r"\\[dDwWsS]|\\[^A-Za-z0-9\s]"
_IN_CLASS = rf"(?:{_ESCAPE}|[^\[\]\\&~|\-^]|(?<=[0-9A-Za-z])-(?=[0-9A-Za-z]))"
#: One character or class, and what may repeat it. Groups are not repeated.
_ONE = rf"(?:{_ESCAPE}|\[\^?{_IN_CLASS}+\]|[^\\\[\](){{}}*+?|^$])"
_TIMES = r"(?:[*+?]|\{[0-9]{1,3}(?:,[0-9]{0,3})?\})"
_PLAIN = re.compile(rf"(?:{_ONE}{_TIMES}?|\((?:\?:)?|\)(?![*+?{{])|[|^$])+")
_TOKEN = re.compile(rf"(?P<one>{_ONE})(?P<times>{_TIMES})?|(?P<sign>\((?:\?:)?|[)|^$])")
#: How many ways a repeat counts for, and how many Python's own search may try at each place.
_WAYS_OF_REPEAT, _MOST_WAYS = 256, 4_096


def require_plain(text: str) -> str:
    """The expression, if both languages take it and mean the same by it.

    Raises:
        ValueError: they may not.

    """
    if (
        not text
        or len(text) > _MAX_LENGTH
        or not text.isascii()
        or not _PLAIN.fullmatch(text)
        or _compiled(text) is None
    ):
        raise ValueError(
            "the regular expression must be one that Java and Python read alike: ASCII letters, classes, `.`, `*`, `+`, `?`, "
            "`{m,n}`, `^`, `$`, `|`, and groups that are not repeated"
        )
    return text


def is_found(text: str, searched: str) -> bool:
    """Whether a plain expression is found anywhere in a text, as Java's `asPredicate` does.

    `re` tries one way after the other, which takes for ever for `.*.*.*.*x`: such a one is looked for with all ways at once.
    """
    tokens = list(_TOKEN.finditer(text))
    ways = math.prod(_ways(token) for token in tokens)
    if ways <= _MOST_WAYS:
        return re.search(text, searched, re.ASCII) is not None
    return bool(_ends(iter(tokens), searched, set(range(len(searched) + 1))))


def _ways(token: re.Match[str]) -> int:
    if token["times"] is None:
        return 2 if token["sign"] == "|" else 1
    least, most = _times(token, _WAYS_OF_REPEAT)
    return max(most - least, 0) + 1


def _times(token: re.Match[str], unbounded: int) -> tuple[int, int]:
    """How often a character may be there, at least and at most."""
    times = token["times"] or "{1}"
    if times in "*+?":
        return int(times == "+"), 1 if times == "?" else unbounded
    least, comma, most = times.strip("{}").partition(",")
    return int(least), int(most or (unbounded if comma else least))


def _ends(tokens: Iterator[re.Match[str]], searched: str, begins: set[int]) -> set[int]:
    """Where in a text the rest of a group may end that begins at some places."""
    found, now, end = set[int](), begins, len(searched)
    for token in tokens:
        match token["sign"]:
            case None:
                now = _repeated(token, searched, now)
            case ")":
                break
            case "|":
                found, now = found | now, begins
            case "^":
                now = now & {0}
            case "$":
                now = now & {end, end - searched.endswith("\n")}
            case _:
                now = _ends(tokens, searched, now)
    return found | now


def _repeated(token: re.Match[str], searched: str, begins: set[int]) -> set[int]:
    """Where a character that may be there several times may end."""
    fits = re.compile(token["one"], re.ASCII).fullmatch
    after = {place + 1 for place, letter in enumerate(searched) if fits(letter)}
    least, most = _times(token, len(searched))
    found, now = set[int](), begins
    for count in range(most + 1):
        if count >= least:
            if now <= found:
                break
            found |= now
        now = {place + 1 for place in now} & after
    return found


def _compiled(text: str) -> re.Pattern[str] | None:
    try:
        return re.compile(text, re.ASCII)
    except (re.error, OverflowError):
        return None


def _require_variable(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        raise NoVariableError
    return text


def _at_least(least: int, message: str) -> AfterValidator:
    """A validator of whole numbers; `message` may show the number."""

    def check(value: int) -> int:
        if value < least:
            raise ValueError(message.format(value))
        return value

    return AfterValidator(check)


def _of_form(form: str, message: str) -> AfterValidator:
    """A validator of texts; `message` may show the text."""

    def check(text: str) -> str:
        if not re.fullmatch(form, text):
            raise ValueError(message.format(text[:60]))
        return text

    return AfterValidator(check)


def _read_by(read: Callable[[str], object]) -> AfterValidator:
    """A validator of texts that a function reads, and keeps."""

    def check(text: str) -> str:
        read(text)
        return text

    return AfterValidator(check)


def duration_ms(value: object, info: ValidationInfo) -> int:
    """Milliseconds; a number without a unit is one where etc wrote it."""
    if type(value) is int and info.context is None:
        if not 0 <= value <= MAX_MS:
            raise QuantityError("duration", f"`{value}` is not a number of milliseconds", "write it as etc does")
        return value
    return parse_duration_ms(value)


def _option_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise PydanticCustomError("union", "text, a number or `true`/`false`")


def _no_flag(value: object) -> object:
    if isinstance(value, bool):
        raise PydanticKnownError("literal_error", {"expected": "1"})
    return value


def _require_glob(glob: str) -> None:
    if not GLOB.search(glob):
        one = glob[:60].rstrip("/")
        raise ValueError(f"`{glob[:60]}` has no `*`: write `table` for one table, or a glob such as `{one}/*`")
    if _GLOB_OF_HOSTS.match(glob):
        raise ValueError(f"`{glob[:60]}` is a glob over buckets: begin with the name of one")


def _require_times(pattern: str) -> None:
    if (fault := pattern_fault(pattern)) is not None:
        raise ValueError(f"no time can be read by `{pattern[:60]}`: {fault}")


def _require_catalog_table(name: str) -> None:
    if not is_catalog_name(name):
        raise ValueError(f"`{name[:60]}` is not a table of a catalog such as `lake.orders_ro`")


def _require_order(term: str) -> None:
    first, dots, last = term.partition("..")
    if dots and last and last < first:
        raise ValueError(f"the range `{term}` ends before it begins")


def require_server(url: str) -> str:
    """The URL, if it names a server by HTTP.

    Raises:
        ValueError: it does not, or programs may take another server for it.

    """
    if not re.match(r"https?://[^/]", url):
        raise ValueError("the URL of a server begins with `https://`, or with `http://` where it is not encrypted")
    is_plain = re.fullmatch(r"https?://[A-Za-z0-9._:\[\]-]+(/[A-Za-z0-9._~-]*)*", url) and _has_host(url)
    if not is_plain or {".", ".."} & {*url.split("/")}:
        raise ValueError(
            "the URL of a server is a host, a port where it has one, and a plain path without `.` and `..`"
        )
    return url


def _has_host(url: str) -> bool:
    """Whether its host and port can be: libraries end the process at others."""
    try:
        parts = urlsplit(url)
        if is_address(parts.hostname or ""):
            ip_address(parts.hostname or "")
        return bool(parts.hostname) and parts.port != 0  # asking for the port of another form raises
    except ValueError:
        return False


def is_address(host: str) -> bool:
    """Whether a host is no name, but meant as the address of a machine."""
    return ":" in host or host.rpartition(".")[2].isdecimal()


def _require_http(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isascii() or parts.username is not None:
        raise ValueError(
            "the URL must be one such as `https://host/path`, without a user: secrets go to `secret_headers`"
        )


def is_on_this_machine(url: str) -> bool:
    """Whether its host is this machine by what it is called: what only begins with `127.` is another's name."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def is_in_clear(url: str) -> bool:
    """Whether others can read what is sent to it: without TLS, to another machine."""
    return not (url.lower().startswith("https:") or is_on_this_machine(url))


NAME_PATTERN = r"^[a-z][a-z0-9_-]{0,99}$"
_SIGNS = "`{}` has other signs than letters, digits and `_` (and `*` and `|` in `match`)"
_MARKER = "the name must be one such as `_SUCCESS`, with a `_` first and no dot, so that readers pass over it"

VariableName = Annotated[StrictStr, AfterValidator(_require_variable)]
DurationMs: TypeAlias = Annotated[
    int,
    BeforeValidator(duration_ms),
    WithJsonSchema(
        {"type": "string", "pattern": DURATION_PATTERN, "examples": ["30m", "1h30m", "2d", "PT30M"]}, mode="validation"
    ),
]
#: A time that has something in it.
IntervalMs: TypeAlias = Annotated[DurationMs, _at_least(1, "an interval must be longer than 0s")]
SizeBytes: TypeAlias = Annotated[
    int,
    BeforeValidator(parse_size_bytes),
    WithJsonSchema(
        {"type": ["string", "integer"], "pattern": SIZE_PATTERN, "examples": ["128 MiB", "1GB", 134217728]},
        mode="validation",
    ),
]
Count: TypeAlias = Annotated[StrictInt, _at_least(1, "a count is 1 at least, not {}"), Field(ge=1, le=1_000_000_000)]
Text: TypeAlias = Annotated[StrictStr, Field(min_length=1)]
_PartitionTerm: TypeAlias = Annotated[Text, _read_by(_require_order)]
#: A bare term is the list that it means.
PartitionTerms: TypeAlias = Annotated[
    tuple[_PartitionTerm, ...],
    BeforeValidator(
        lambda value: [value] if isinstance(value, str) else value,
        json_schema_input_type=str | tuple[_PartitionTerm, ...],
    ),
]
#: A pattern by which the path of a partition is read as a time.
TimePattern: TypeAlias = Annotated[Text, _read_by(_require_times)]
#: One that the IANA has given.
ZoneName: TypeAlias = Annotated[Text, _read_by(zone_of)]
#: Times of day and a zone.
DayTimes: TypeAlias = Annotated[
    Text, _read_by(parse_boundaries), Field(json_schema_extra={"pattern": BOUNDARIES_PATTERN})
]
#: One that neither Hudi takes for a file of its own, nor leads elsewhere.
FileName: TypeAlias = Annotated[Text, _of_form(r"_[A-Za-z0-9_-]{1,99}", _MARKER)]
#: A table that a catalog knows, `db.table`.
CatalogTable: TypeAlias = Annotated[Text, _read_by(_require_catalog_table)]
ServerUrl: TypeAlias = Annotated[Text, AfterValidator(require_server)]
HttpUrl: TypeAlias = Annotated[Text, _read_by(_require_http)]
#: What the partitions of `partition_regex` are found by: Java and Python read it alike.
PartitionRegex: TypeAlias = Annotated[StrictStr, AfterValidator(require_plain)]
#: Hudi counts a budget in whole MiB.
Budget: TypeAlias = Annotated[SizeBytes, _at_least(2**20, "a budget is 1 MiB at least: Hudi counts it in whole MiB")]
Name: TypeAlias = Annotated[StrictStr, Field(pattern=NAME_PATTERN)]
#: The name of each table, and of the folder or database that it is in, in what is written once for all of them.
TABLE_MARK, FOLDER_MARK = "{table}", "{folder}"
PatternOfNames: TypeAlias = Annotated[
    StrictStr, Field(pattern=r"^(?:[a-z]|\{(?:table|folder)\})(?:[a-z0-9_-]|\{(?:table|folder)\}){0,99}$")
]
#: A glob over folders; what it begins with is the folder that is searched.
TablesGlob: TypeAlias = Annotated[Text, _read_by(_require_glob)]
#: A part of the host's name of a store's server.
Region: TypeAlias = Annotated[Text, _of_form(r"[A-Za-z0-9_-]+", _SIGNS)]
DatabaseName: TypeAlias = Annotated[StrictStr, _of_form(r"\w+", _SIGNS)]
TablesMatch: TypeAlias = Annotated[StrictStr, _of_form(r"[\w*|]+", _SIGNS)]
#: An option as Hudi and Spark read it: text, booleans in lower case.
Option: TypeAlias = Annotated[
    str, BeforeValidator(_option_text, json_schema_input_type=StrictStr | StrictBool | StrictInt | StrictFloat)
]
#: The version of a file's format; `true` is not 1 there, as it is in Python.
FormatVersion: TypeAlias = Annotated[Literal[1], BeforeValidator(_no_flag)]
WriterIndex: TypeAlias = Literal[
    "simple",
    "bloom",
    "bucket",
    "record_index",
    "global_record_index",
    "global_simple",
    "global_bloom",
    "hbase",
    "flink_state",
    "unknown",
]
Granularity: TypeAlias = Literal["log_file", "file_slice", "record"]
#: Which rows of a partition RO holds when it is done: all that RT has, or those with an event before its end.
RowsWhenDone: TypeAlias = Literal["all", "until_end"]
#: The weakest first.
VerifyLevel: TypeAlias = Literal["metadata", "logs", "sample", "data"]
StrategyType: TypeAlias = Literal[
    "event_time",
    "unbounded",
    "bounded_io",
    "log_file_size",
    "log_file_num",
    "day_based",
    "partition_regex",
]


class Declared(BaseModel):
    """Base of the files' models: immutable, no unknown keys.

    A key that has a unit in its text has an alias without one: `data_latency: 30m` is `data_latency_ms`. Files are read by
    aliases, and what etc writes itself is read by names, with numbers.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True)

    @classmethod
    def from_yaml(cls, value: object) -> Self:
        """The model of what a file says.

        Raises:
            ValidationError: it is wrong.

        """
        return cls.model_validate(value, by_alias=True, by_name=False, context={"file": True})

    @classmethod
    def names_by_key(cls) -> dict[str, str]:
        """The name of each field by its key in files."""
        return {field.alias or name: name for name, field in cls.model_fields.items()}
