"""What templates can reach, and how much they may do: said without Jinja, which is imported where a file has templates."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from etc_policy.declare.templating.problems import Exhausted

if TYPE_CHECKING:
    from etc_policy.declare.templating.program import MacroSource
    from etc_policy.declare.templating.values import Value

MAX_STEPS = 300_000
#: Seconds of the processor for all templates of a project, to read them and to carry them out.
MAX_SECONDS = 10.0


@dataclass(slots=True)
class Budget:
    """The steps and seconds that are left, shared by all files of a project; `calls` of macros are going on."""

    steps: int = field(default_factory=lambda: MAX_STEPS)
    seconds: float = field(default_factory=lambda: MAX_SECONDS)
    calls: int = 0
    _began: float = 0.0

    def spend(self, steps: int) -> None:
        """Take steps away; it raises Exhausted where none is left, or no time."""
        before, self.steps = self.steps, self.steps - steps
        if self.steps < 0:
            message = f"the project's templates take more than {MAX_STEPS:,} steps"
            raise Exhausted(message, "make loops shorter, or split the project")
        if before // 64 != self.steps // 64:
            self.require_time()

    def require_time(self) -> None:
        """Return if there is time left; else it raises Exhausted."""
        if time.thread_time() - self._began > self.seconds:
            message = f"the project's templates take more than {MAX_SECONDS:g} seconds"
            raise Exhausted(message, "make loops and values smaller, or split the project")

    def __enter__(self) -> None:
        self._began = time.thread_time()

    def __exit__(self, *_error: object) -> None:
        self.seconds -= time.thread_time() - self._began


def has_template(text: str) -> bool:
    """Whether anything in the text is Jinja's."""
    return "{{" in text or "{%" in text or ("{#" in text and "#}" in text)


@dataclass(frozen=True, slots=True)
class Context:
    """What expressions can reach: variables, the environment, the target, macros.

    `known_variables` gathers the names that files declare, and that their templates ask for.
    """

    variables: Mapping[str, Value]
    environment: Mapping[str, str]
    target: Mapping[str, Value] | None = None
    macros: Mapping[str, MacroSource] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)
    known_variables: set[str] = field(default_factory=set)
