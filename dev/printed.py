"""Puts what `etc demo` prints into the pages that show it, so that they show one run: `make picture`.

    etc demo > target/demo.txt
    python -m dev.printed target/demo.txt

Plan and result go into README, both views into the page of commands. The first blocks of these kinds are replaced.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

README, COMMANDS = Path("README.md"), Path("docs/reference/commands.md")
PLAN, RESULT, VIEWS = 2, 3, 5

_BLOCK = re.compile(r"^```text\n.*?^```$", re.DOTALL | re.MULTILINE)


def section(printed: str, number: int) -> str:
    """What a numbered section of the demo shows, without its heading and the line below that."""
    body = re.split(r"^\d\. .*\n", printed, flags=re.MULTILINE)[number].strip("\n")
    return textwrap.dedent(body.partition("\n")[2]).strip("\n")


def with_blocks(page: str, texts: Sequence[str]) -> str:
    """The page with the first blocks of plain text replaced."""
    blocks = iter(texts)
    return _BLOCK.sub(lambda old: f"```text\n{text}\n```" if (text := next(blocks, None)) else old[0], page)


def main(arguments: Sequence[str]) -> int:
    """Rewrite the pages from a file with the demo's output."""
    printed = Path(arguments[0]).read_text("utf-8")
    for path, numbers in ((README, (PLAN, RESULT)), (COMMANDS, (VIEWS,))):
        texts = [section(printed, number) for number in numbers]
        path.write_text(with_blocks(path.read_text("utf-8"), texts), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
