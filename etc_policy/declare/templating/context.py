"""What templates can reach: said without Jinja, which is imported where a file has templates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from etc_policy.declare.templating.bounds import Budget

if TYPE_CHECKING:
    from etc_policy.declare.templating.program import Program
    from etc_policy.declare.templating.shape import Shape
    from etc_policy.declare.templating.values import Value


@dataclass(frozen=True, slots=True)
class File:
    """A file's tags and data, and the program that they come to."""

    shape: Shape
    program: Program


@dataclass(frozen=True, slots=True)
class MacroSource:
    """A macro of a file of macros, and where it begins there."""

    offset: int
    file: File


@dataclass(frozen=True, slots=True)
class Context:
    """What expressions can reach: variables, the environment, the target, macros."""

    variables: Mapping[str, Value]
    environment: Mapping[str, str]
    target: Mapping[str, Value] | None = None
    macros: Mapping[str, MacroSource] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)
