"""Durations and sizes as people write them, in milliseconds and bytes."""

from __future__ import annotations

import re
from difflib import get_close_matches
from fractions import Fraction

MAX_MS = 3650 * 86_400_000
MAX_BYTES = 2**63 - 1
#: Threads that wait for the file system; more than these gain little, and each has a table in memory.
DEFAULT_JOBS, MAX_JOBS = 4, 64
#: Clusters that grow by themselves take minutes for a first machine.
DEFAULT_CLUSTER_TIMEOUT_MS = 300_000

_MS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_UNIT_WORDS = {
    "week": "w", "day": "d", "hour": "h", "hr": "h", "min": "m", "minute": "m", "sec": "s", "second": "s",
    "milli": "ms", "msec": "ms", "millisecond": "ms",
}  # fmt: skip
_DURATION_PART = re.compile(r"\s*([0-9]{1,15})\s*([A-Za-z]+)")
_ISO_DURATION = re.compile(
    r"P(?:(?P<w>[0-9]{1,9})W)?(?:(?P<d>[0-9]{1,9})D)?"
    r"(?:T(?:(?P<h>[0-9]{1,9})H)?(?:(?P<m>[0-9]{1,9})M)?(?:(?P<s>[0-9]{1,9}(?:\.[0-9]{1,3})?)S)?)?"
)

_BYTES = {"B": 1}
for _power, _letter in enumerate("KMGT", start=1):
    _BYTES[f"{_letter}B"] = 1000**_power
    _BYTES[f"{_letter}iB"] = 1024**_power
_SIZE = re.compile(r"\s*([0-9]{1,19}(?:\.[0-9]{1,9})?)\s*([A-Za-z]*)\s*")

#: What editors accept of durations and sizes; how large one may be is said by the parsers.
DURATION_PATTERN = (
    r"^\s*(?:P(?=[0-9]|T[0-9])(?:[0-9]{1,9}W)?(?:[0-9]{1,9}D)?"
    r"(?:T(?=[0-9])(?:[0-9]{1,9}H)?(?:[0-9]{1,9}M)?(?:[0-9]{1,9}(?:\.[0-9]{1,3})?S)?)?|(?=[0-9])"
    + "".join(rf"(?:[0-9]{{1,15}}\s*{unit}(?![A-Za-z])\s*)?" for unit in _MS)
    + r")\s*$"
)
SIZE_PATTERN = rf"^\s*[0-9]{{1,19}}(?:\.[0-9]{{1,9}})?\s*(?:{'|'.join(_BYTES)})?\s*$"

DURATION_HINT = "write a number with a unit: `45s`, `30m`, `1h30m`, `2d` or ISO 8601 `PT30M`"
SIZE_HINT = "write a number with a unit: `128 MiB` (1024-based) or `128 MB` (1000-based), or whole bytes"


class QuantityError(ValueError):
    """A text that is not a duration or size; `kind` says which, `hint` what to write."""

    def __init__(self, kind: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.kind, self.message, self.hint = kind, message, hint


def parse_duration_ms(value: object) -> int:
    """Milliseconds of `30m`, `1h30m`, `2d` or ISO 8601 `PT30M`.

    Raises:
        QuantityError: the value is not a duration, or one above ten years.

    """
    if isinstance(value, int) and not isinstance(value, bool):
        raise QuantityError("duration", f"`{value}` has no unit of time", f"write `{value}m` or `{value}s`")
    if not isinstance(value, str):
        raise QuantityError("duration", f"a duration is text such as `30m`, got {_shown(value)}", DURATION_HINT)
    text = value.strip()
    milliseconds = _iso_ms(text) if text[:1] in ("P", "p") else _simple_ms(text)
    if milliseconds > MAX_MS:
        raise QuantityError("duration", f"{_shown(value)} is longer than ten years", DURATION_HINT)
    return milliseconds


def _simple_ms(text: str) -> int:
    total, position, seen = 0, 0, MAX_MS
    while position < len(text):
        part = _DURATION_PART.match(text, position)
        if part is None:
            raise QuantityError("duration", f"{_shown(text)} is not a duration", DURATION_HINT)
        scale = _time_unit(part[2], text)
        if scale >= seen:
            raise QuantityError("duration", f"the units of {_shown(text)} are not largest first", DURATION_HINT)
        total, position, seen = total + int(part[1]) * scale, part.end(), scale
    if not text:
        raise QuantityError("duration", "a duration is empty", DURATION_HINT)
    return total


def _time_unit(unit: str, text: str) -> int:
    if unit in _MS:
        return _MS[unit]
    word = unit.lower()
    short = _UNIT_WORDS.get(word) or _UNIT_WORDS.get(word.removesuffix("s")) or (word if word in _MS else None)
    hint = f"write `{short}` for it" if short else DURATION_HINT
    raise QuantityError("duration", f"`{unit[:20]}` in {_shown(text)} is not a unit of time (w, d, h, m, s, ms)", hint)


def _iso_ms(text: str) -> int:
    match = _ISO_DURATION.fullmatch(text)
    if match is None or not any(match.groupdict().values()) or text.endswith("T"):
        hint = "years and months have no fixed length; " + DURATION_HINT if re.match(r"P[0-9]+[YM]", text) else None
        raise QuantityError("duration", f"{_shown(text)} is not an ISO 8601 duration", hint or DURATION_HINT)
    return sum(int(Fraction(number) * _MS[unit]) for unit, number in match.groupdict().items() if number)


def parse_size_bytes(value: object) -> int:
    """Bytes of `128 MiB`, `1GB` or a plain number of bytes; always above zero.

    Raises:
        QuantityError: the value is not a size, no whole number of bytes, zero, or too large for Hudi.

    """
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise QuantityError("size", f"a size is text such as `128 MiB` or bytes, got {_shown(value)}", SIZE_HINT)
    match = _SIZE.fullmatch(str(value))
    if match is None:
        raise QuantityError("size", f"{_shown(value)} is not a size", SIZE_HINT)
    size = Fraction(match[1]) * _size_unit(match[2] or "B", value)
    if size.denominator != 1:
        raise QuantityError("size", f"{_shown(value)} is not a whole number of bytes", SIZE_HINT)
    if not 0 < size <= MAX_BYTES:
        raise QuantityError("size", f"a size is between 1 byte and {MAX_BYTES} bytes, got {_shown(value)}", SIZE_HINT)
    return int(size)


def duration_text(milliseconds: int) -> str:
    """A duration as `parse_duration_ms` reads it, exact: `1h30m`."""
    parts, rest = [], milliseconds
    for unit, scale in _MS.items():
        count, rest = divmod(rest, scale) if unit != "w" else (0, rest)
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts) or "0ms"


def size_text(size_bytes: int) -> str:
    """A size as `parse_size_bytes` reads it, exact: `128 MiB`, `128 MB`."""
    units = sorted(_BYTES.items(), key=lambda unit: (-unit[1], unit[0]))
    count, unit = next((size_bytes // scale, unit) for unit, scale in units if size_bytes % scale == 0)
    return f"{count} {unit}"


def _size_unit(unit: str, value: object) -> int:
    if unit in _BYTES:
        return _BYTES[unit]
    folded = {name.lower(): name for name in _BYTES}
    letter = unit[0].upper()
    if unit.lower() in (letter.lower(), f"{letter.lower()}i") and letter in "KMGT":
        hint = f"write `{letter}iB` (1024-based) or `{letter}B` (1000-based)"
    elif close := get_close_matches(unit.lower(), folded, n=1):
        hint = f"did you mean `{folded[close[0]]}`?"
    else:
        hint = SIZE_HINT
    raise QuantityError("size", f"`{unit[:20]}` in {_shown(value)} is not a unit of size ({', '.join(_BYTES)})", hint)


def _shown(value: object) -> str:
    text = str(value)
    return f"`{text if len(text) <= 60 else text[:57] + '...'}`"
