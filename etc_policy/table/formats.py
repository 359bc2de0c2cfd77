"""Times, durations and sizes as people read them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

from etc_policy.errors.plain_text import one_line

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: The first and the last time that can be shown: years 1 and 9999.
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP = 1024
_SPANS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"))
_SPANS_SHOWN = 2
_LABEL_WIDTH, _INDENT = 13, 16
_TOGETHER = "\N{NO-BREAK SPACE}"
_COMMAND = re.compile("`[^`]*`")
#: What lines that are folded begin under: a bullet, an indent, the verdict of a check.
_HANGING = re.compile(r"(- |  |(pass|warn|fail|error) +)")
#: From so many tables on each has one line, unless more is asked for.
MANY_TABLES = 10
#: Lines are folded here where nobody says how wide the terminal is.
TEXT_WIDTH = 116


def format_time(epoch_ms: int | None) -> str:
    """`2013-01-01 18:00:00 UTC`, with milliseconds only where there are any; `-` for None.

    A number in a wrong unit may be no time that a calendar has: such a one is shown as it is.
    """
    if epoch_ms is None:
        return "-"
    if not FIRST_MS <= epoch_ms <= LAST_MS:
        return f"{epoch_ms} ms after 1970"
    moment = _EPOCH + timedelta(milliseconds=epoch_ms)
    fraction = f".{epoch_ms % 1000:03d}" if epoch_ms % 1000 else ""
    return f"{moment:%Y-%m-%d %H:%M:%S}{fraction} UTC"


def iso_time(epoch_ms: int) -> str:
    """An epoch time in ISO 8601, UTC; the first or the last that a calendar has where it lies beyond."""
    return (
        (_EPOCH + timedelta(milliseconds=min(max(epoch_ms, FIRST_MS), LAST_MS)))
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )


def iso_ms(text: str) -> int:
    """The epoch time of an ISO 8601 text, which is UTC where it names no zone; ValueError for what is no time."""
    moment = datetime.fromisoformat(text)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def format_duration(milliseconds: int) -> str:
    """`1h30m`, `45s`, `250ms`: the two largest units."""
    if milliseconds < 0:
        return f"-{format_duration(-milliseconds)}"
    parts, rest = [], milliseconds
    for size, name in _SPANS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{name}")
    return "".join(parts[:_SPANS_SHOWN]) or f"{milliseconds}ms"


def format_bytes(size: int) -> str:
    """`34.5 KiB`, `512 B`."""
    value = float(size)
    for unit in _SIZES[:-1]:
        if value < _STEP:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= _STEP
    return f"{value:.1f} {_SIZES[-1]}"


def count_of(count: int, noun: str) -> str:
    """`1 log file`, `3 log files`, `2 policies`."""
    if count == 1:
        return f"{count:,} {noun}"
    return f"{count:,} {noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{count:,} {noun}s"


def part_of(part: int, total: int, noun: str) -> str:
    """`3 of 4 commits`, `all 4 commits`, `both commits`, `the only commit`."""
    if part < total:
        return f"{part:,} of {count_of(total, noun)}"
    return f"the only {noun}" if total == 1 else f"{'both' if total == 2 else f'all {total:,}'} {count_of(2, noun)[2:]}"


def lateness(number: int, noun: str, half_ms: int, worst_ms: int, most_ms: int | None = None, origin: str = "") -> str:
    """How long after their earliest event so many commits or writes came, in no more figures than differ.

    So late or sooner came half of them, 99 % where `most_ms` says it, and all. `origin` is said behind their number.
    """
    count = part_of(number, number, noun) if number == 2 else f"{'all ' * (number > 1)}{count_of(number, noun)}"
    if number == 1:
        return (
            f"{count}{origin} came {f'{format_duration(worst_ms)} after its earliest event' if worst_ms else 'at once'}"
        )
    if half_ms == worst_ms:
        return f"{count}{origin} came {f'{_within(worst_ms)} of their earliest event' if worst_ms else 'at once'}"
    of_all = f"of {count_of(number, noun)}{origin}"
    if number == 2:
        first = f"came {format_duration(half_ms)} after its earliest event" if half_ms else "came at once"
        return f"{of_all} one {first}, the other {format_duration(worst_ms)}{'' if half_ms else ' after its earliest event'}"
    shares = {"half": half_ms, "99 %": most_ms, "all": worst_ms}
    said = {_within(share_ms): share for share, share_ms in shares.items() if share_ms is not None}
    parts = [f"{share} {'' if at else 'came '}{late}" for at, (late, share) in enumerate(said.items())]
    return f"{of_all} {', '.join(parts)} of their earliest event"


def _within(milliseconds: int) -> str:
    return f"within {format_duration(milliseconds)}" if milliseconds else "at once"


def with_place(place: str, reason: str | None, between: str = ": ") -> str:
    """A place with what is said of it, which may name it already."""
    return place if reason is None else reason if place in reason else f"{place}{between}{reason}"


def short_of(text: str) -> str:
    """A text up to its first colon or semicolon: what is so, without why and what to do."""
    return re.split("[:;] ", text, maxsplit=1)[0]


def fold(text: str, width: int = TEXT_WIDTH) -> str:
    """A paragraph, folded at `width` columns."""
    return "\n".join(textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False))


def keep_together(text: str) -> str:
    """The text with blanks at which `labelled` does not fold."""
    return text.replace(" ", _TOGETHER)


def keep_commands(text: str) -> str:
    """The text with what is between backquotes kept together: a command is copied in one piece."""
    return _COMMAND.sub(lambda found: keep_together(found[0]), text)


def rows_of(rows: Sequence[tuple[str, ...]], width: int = TEXT_WIDTH) -> str:
    """A line for each row of as many cells, in columns; the last is folded under its beginning at `width` columns."""
    widths = [max(map(len, column)) for column in zip(*(row[:-1] for row in rows), strict=True)]
    under = sum(widths) + 2 * len(widths)
    lines = []
    for *cells, text in rows:
        first, *rest = _wrapped(text, max(width - under, _INDENT)) or [""]
        head = "".join(f"{cell:<{room}}  " for cell, room in zip(cells, widths, strict=True))
        lines += [f"{head}{first}".rstrip(), *(" " * under + line for line in rest)]
    return "\n".join(lines)


def aligned(rows: Sequence[tuple[str, ...]], *, left: int) -> Iterator[str]:
    """A line for each row in columns, the first `left` of them to the left, the others to the right; one cell alone is a line."""
    cleaned = [tuple(map(one_line, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*(row for row in cleaned if len(row) > 1), strict=True)]
    for row in cleaned:
        cells = [f"{cell:{'<' if at < left else '>'}{widths[at]}}" for at, cell in enumerate(row)]
        yield "  ".join(cells).rstrip()


def table_lines(rows: Sequence[tuple[str, ...]], width: int) -> Iterator[str]:
    """The rows in columns below the first, which has their heads; where that is too wide, each folded below its name."""
    lines = [f"  {line}" for line in aligned(rows, left=1)]
    is_wide = any(len(line) > width for line, row in zip(lines, rows, strict=True) if len(row) > 1)
    for line, (name, *cells) in zip(lines, rows, strict=True):
        if not cells or not is_wide:
            yield from [line] if cells else _folded(name, width, 2)
        elif name:  # not the heads
            yield f"  {one_line(name)}"
            said = (keep_together(f"{head} {cell}") for head, cell in zip(rows[0][1:], cells, strict=True) if cell)
            yield from _folded(", ".join(said), width, 4)


def _folded(text: str, width: int, indent: int) -> Iterator[str]:
    begin = " " * indent
    return (f"{begin}{line}" for line in _wrapped(one_line(text), width - indent))


def _wrapped(text: str, width: int, under: int = 0) -> list[str]:
    """The lines of a text that is folded, at no blank of `keep_together`; all but the first are `under` to the right."""
    lines = textwrap.wrap(text, width, subsequent_indent=" " * under, break_long_words=False, break_on_hyphens=False)
    return [line.replace(_TOGETHER, " ") for line in lines]


#: A line as it is, or a label and a text that is folded beside it.
Line = str | tuple[str, str]


def block(lines: Iterable[Line], width: int = TEXT_WIDTH) -> str:
    """The lines of one table, texts folded at `width` columns."""
    return "\n".join(one_line(line) if isinstance(line, str) else labelled(*line, width) for line in lines)


def labelled(label: str, text: str, width: int = TEXT_WIDTH) -> str:
    """`  label         text`, long texts folded under their beginning at `width` columns."""
    under = _HANGING.match(text)
    lines = _wrapped(text, max(width - _INDENT, _INDENT), under.end() if under else 0) or [""]
    rows = [f"  {name:<{_LABEL_WIDTH}} {line}" for name, line in zip([label, *[""] * len(lines)], lines, strict=False)]
    return "\n".join(row.rstrip() for row in rows)
