"""Which keys of `strategy` go with which type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from etc_policy.codes.registry import Code
from etc_policy.compile.stock_options import EVENT_TIME_KEYS, KEY_OF_OPTION, STOCK, keys_of, stock_options
from etc_policy.declare.project import DeclaredPolicy
from etc_policy.errors import Issue


def strategy_issues(policy: DeclaredPolicy) -> Iterator[Issue]:
    """Every key that is given is one of the type's, and `partition_regex` has its expression."""
    declared = policy.declaration.strategy
    known = keys_of(declared.type)
    for key in sorted(declared.model_fields_set - {"type", *known}):
        if getattr(declared, key) is not None:
            message = f"the strategy `{declared.type}` has no `{key}`"
            yield Issue(Code.NOT_OF_STRATEGY, message, policy.where("strategy", key, at_key=True), _hint(key, known))
    if declared.type == "partition_regex" and declared.regex is None:
        message = "`strategy.regex` is missing: `partition_regex` compacts the partitions in whose paths it is found"
        where = policy.where("strategy", "type")
        yield Issue(Code.NOT_OF_STRATEGY, message, where, "add it, for example `regex: ^2026/`")
    yield from _said_twice(policy)


def _said_twice(policy: DeclaredPolicy) -> Iterator[Issue]:
    """No option that the strategy becomes is given as one of Hudi too."""
    becomes = stock_options(policy.declaration.strategy)
    for option in filter(becomes.__contains__, policy.declaration.hudi_options):
        message = f"the option `{option}` is decided by `strategy`"
        where = policy.where("hudi_options", option, at_key=True)
        key = KEY_OF_OPTION.get(option)
        yield Issue(Code.RESERVED_OPTION, message, where, f"write `strategy.{key}`" if key else "remove it")


def _hint(key: str, known: tuple[str, ...]) -> str:
    types = ("event_time",) if key in EVENT_TIME_KEYS else tuple(name for name in STOCK if key in STOCK[name].keys)
    which = f"it has {_listed(known)}" if known else "it has no other key"
    return f"remove it ({which}), or set `type` to {_listed(types)}"


def _listed(words: Sequence[str]) -> str:
    return ", ".join(f"`{word}`" for word in words[:-1]) + (" or " if words[1:] else "") + f"`{words[-1]}`"
