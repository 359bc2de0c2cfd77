"""What the keys of YAML files hold: durations, sizes, texts, names, and the base of the files' models."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

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
)
from pydantic.json_schema import WithJsonSchema
from pydantic_core import PydanticKnownError

from etc_policy.declare.quantities import parse_duration_ms, parse_size_bytes
from etc_policy.declare.shared_regex import require_plain


def _at_least(least: int, message: str) -> AfterValidator:
    """A validator of whole numbers; `message` may show the number."""

    def check(value: int) -> int:
        if value < least:
            raise ValueError(message.format(value))
        return value

    return AfterValidator(check)


NAME_PATTERN = r"^[a-z][a-z0-9_-]{0,99}$"

DurationMs: TypeAlias = Annotated[
    int,
    BeforeValidator(parse_duration_ms),
    WithJsonSchema({"type": "string", "examples": ["30m", "1h30m", "2d", "PT30M"]}),
]
#: A time that has something in it.
IntervalMs: TypeAlias = Annotated[DurationMs, _at_least(1, "an interval is longer than nothing")]
SizeBytes: TypeAlias = Annotated[
    int,
    BeforeValidator(parse_size_bytes),
    WithJsonSchema({"type": ["string", "integer"], "examples": ["128 MiB", "1GB", 134217728]}),
]
Count: TypeAlias = Annotated[StrictInt, _at_least(1, "a count is 1 at least, not {}"), Field(ge=1, le=1_000_000_000)]
Text: TypeAlias = Annotated[StrictStr, Field(min_length=1)]
_PartitionTerm: TypeAlias = Annotated[Text, AfterValidator(lambda term: _in_order(term))]
#: A bare term is the list that it means.
PartitionTerms: TypeAlias = Annotated[
    tuple[_PartitionTerm, ...],
    BeforeValidator(
        lambda value: [value] if isinstance(value, str) else value,
        json_schema_input_type=str | tuple[_PartitionTerm, ...],
    ),
]
#: What the partitions of `partition_regex` are found by: Java and Python read it alike.
PartitionRegex: TypeAlias = Annotated[StrictStr, AfterValidator(require_plain)]
#: Hudi counts a budget in whole MiB.
Budget: TypeAlias = Annotated[SizeBytes, _at_least(2**20, "a budget is 1 MiB at least: Hudi counts it in whole MiB")]
Name: TypeAlias = Annotated[StrictStr, Field(pattern=NAME_PATTERN)]
OptionValue: TypeAlias = StrictStr | StrictBool | StrictInt | StrictFloat
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


StrategyType: TypeAlias = Literal[
    "event_time",
    "unbounded",
    "bounded_io",
    "log_file_size",
    "log_file_num",
    "day_based",
    "partition_regex",
]


#: The version of a file's format; `true` is not 1 there, as it is in Python.
FormatVersion: TypeAlias = Annotated[Literal[1], BeforeValidator(lambda value: _no_flag(value))]


class Declared(BaseModel):
    """Base of the file's models: immutable, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _no_flag(value: object) -> object:
    if isinstance(value, bool):
        raise PydanticKnownError("literal_error", {"expected": "1"})
    return value


def _in_order(term: str) -> str:
    """A glob, or a range that has something in it."""
    first, dots, last = term.partition("..")
    if dots and last and last < first:
        raise ValueError(f"the range `{term}` ends before it begins")
    return term
