"""Plans any number of modelled histories: `python -m tests.property.histories --count 100000 --seed 1`.

Prints one line when every promise held; else the shortest history found that breaks one, and exits with 1.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from traceback import walk_tb

from tests.property.checks import check, describe


def histories(count: int, seed: int) -> Iterator[bytes]:
    """`count` histories, the same for the same seed, of mixed lengths."""
    source = random.Random(seed)
    for _ in range(count):
        yield source.randbytes(source.randrange(20, 220))


#: The oracle: its assertions alone say that a promise is broken.
_ORACLE = {Path(__file__).with_name(f"{name}.py") for name in ("checks", "expected_cut", "leaving_out", "model")}


def broken_promise(data: bytes, *, readers_only: bool = False) -> str | None:
    """The first promise that the history breaks, by an assertion of the oracle, or None.

    Every other error is raised: one of the planner, or of what was put into it, is no verdict on a plan.
    """
    try:
        check(data, readers_only=readers_only)
    except AssertionError as error:
        (*_, raised_in) = (Path(frame.f_code.co_filename) for frame, _ in walk_tb(error.__traceback__))
        if raised_in not in _ORACLE:
            raise
        return str(error)
    return None


def failure(data: bytes) -> str | None:
    """What goes wrong with the history, be it a broken promise or an error; None where nothing does."""
    try:
        return broken_promise(data)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def run(count: int, seed: int) -> tuple[Counter[str], bytes | None]:
    """How often each action was planned, and the first history that breaks a promise."""
    actions: Counter[str] = Counter()
    for data in histories(count, seed):
        try:
            actions[check(data)] += 1
        except Exception:  # reported by the caller, with its history
            return actions, data
    return actions, None


def shorten(data: bytes, fails: Callable[[bytes], bool], seconds: float = 20) -> bytes:
    """A shorter, simpler history that still fails: cut the end, drop bytes, then zero them, while that helps."""
    best, until = data, time.monotonic() + seconds
    while time.monotonic() < until:
        cuts = [best[: len(best) * part // 8] for part in range(8)]
        drops = [best[:at] + best[at + width :] for width in (8, 4, 2, 1) for at in range(len(best))]
        zeros = [best[:at] + b"\0" + best[at + 1 :] for at in range(len(best)) if best[at]]
        smaller = next((one for one in (*cuts, *drops, *zeros) if fails(one)), None)
        if smaller is None:
            break
        best = smaller
    return best


def report(data: bytes) -> str:
    """The shortest form found of a failing history: the promise, the story, and the line that runs it again."""
    short = shorten(data, lambda one: failure(one) is not None)
    again = f"python -m tests.property.histories --bytes {short.hex() or '00'}"
    return f"{failure(short)}\n\n{describe(short)}\n\nagain: {again}"


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; 0 when every promise held."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bytes", help="one history, in hex, as a failure printed it")
    options = parser.parse_args(arguments)
    if options.bytes is not None:
        data = bytes.fromhex(options.bytes)
        broken = failure(data)
        print(describe(data), broken or "every promise held", sep="\n\n")
        return 1 if broken else 0
    started = time.monotonic()
    actions, failed = run(options.count, options.seed)
    if failed is not None:
        print(f"history {sum(actions.values()) + 1} of seed {options.seed} breaks a promise: {report(failed)}")
        return 1
    counts = ", ".join(f"{number:,} {action}" for action, number in sorted(actions.items()))
    seconds = time.monotonic() - started
    print(f"{options.count:,} histories of seed {options.seed} in {seconds:.0f} s: {counts}; every promise held")
    return 0


if __name__ == "__main__":
    sys.exit(main())
