"""How much the templates of a project may do."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from etc_policy.codes.registry import Code
from etc_policy.declare.templating.problems import Exhausted

MAX_STEPS = 300_000
#: Seconds of all templates of a project, to read them and to carry them out, unless the processor was busy elsewhere.
MAX_SECONDS = 10.0


@dataclass(slots=True)
class Budget:
    """The steps and seconds that are left, shared by all files of a project; `calls` of macros are going on."""

    steps: int = field(default_factory=lambda: MAX_STEPS)
    seconds: float = field(default_factory=lambda: MAX_SECONDS)
    calls: int = 0
    _began: float = 0.0
    _processor: float = field(default_factory=time.thread_time)

    def spend(self, steps: int) -> None:
        """Take steps away.

        Raises:
            Exhausted: none is left, or no time.

        """
        before, self.steps = self.steps, self.steps - steps
        if self.steps < 0:
            message = f"the project's templates take more than {MAX_STEPS:,} steps"
            raise Exhausted(Code.TOO_BIG, message, "make loops shorter, or split the project")
        if before // 64 != self.steps // 64:
            self.require_time()

    def require_time(self) -> None:
        """Return if there is time left.

        Raises:
            Exhausted: there is none.

        """
        late = time.perf_counter() - self._began > self.seconds
        if late and time.thread_time() - self._processor > MAX_SECONDS:
            message = f"the project's templates take more than {MAX_SECONDS:g} seconds"
            raise Exhausted(Code.TOO_BIG, message, "make loops and values smaller, or split the project")

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(self, *_error: object) -> None:
        self.seconds -= time.perf_counter() - self._began
