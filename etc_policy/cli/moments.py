"""Moments and spans of time on the command line, and `--at`: what counts as now."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import click

from etc_policy.declare.quantities import QuantityError, parse_duration_ms
from etc_policy.plan.formats import iso_time
from etc_policy.wiring import clock_ms

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Years 1000 to 8999: a time that a `data_latency` or an hour of some zone can be added to or taken from.
_FIRST_MS, _END_MS = -30_610_224_000_000, 221_845_392_000_000
_CLOCK_TOLERANCE_MS = 60_000
#: Dates without punctuation, by their number of digits.
_DATES = {4: "%Y", 6: "%Y%m", 8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
_NEAR_YEARS = range(1900, 2200)
#: From 2001 to 2286.
_DIGITS_OF_SECONDS = 10


class MomentType(click.ParamType[int]):
    """Epoch milliseconds or ISO 8601; a time without a zone is UTC."""

    name = "time"

    def __init__(self, *, future: bool = False) -> None:
        self.future = future

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The moment in epoch milliseconds."""
        if isinstance(value, int):
            return value
        text = str(value).strip()
        epoch = re.fullmatch(r"-?[0-9]{1,16}", text) is not None
        if epoch and (other := _other_reading(text)):
            first = iso_time(int(text))
            self.fail(
                f"`{text}` is ambiguous: {first} in epoch milliseconds, or {other}; write one of them", param, ctx
            )
        moment_ms = int(text) if epoch else self._parse(text, param, ctx)
        if not _FIRST_MS <= moment_ms < _END_MS:
            self.fail(f"`{text[:60]}` does not lie between the years 1000 and 8999", param, ctx)
        if not self.future and moment_ms > clock_ms() + _CLOCK_TOLERANCE_MS:
            self.fail(f"`{text}` lies in the future: nobody knows what will have arrived by then", param, ctx)
        return moment_ms

    def _parse(self, text: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.fail(
                f"`{text[:60]}` is neither epoch milliseconds nor ISO 8601, such as 2013-01-01T18:30:00Z", param, ctx
            )
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return (aware - _EPOCH) // timedelta(milliseconds=1)


def _other_reading(digits: str) -> str | None:
    """What a number that is read as milliseconds may have been meant for: a date of a near century, or seconds."""
    form = _DATES.get(len(digits))
    if form is not None:
        with suppress(ValueError):
            moment = datetime.strptime(digits, form).replace(tzinfo=UTC)
            if moment.year in _NEAR_YEARS:
                return f"{moment.isoformat().replace('+00:00', 'Z')} as a date"
    if len(digits) == _DIGITS_OF_SECONDS and not digits.startswith("-"):
        return f"{iso_time(int(digits) * 1000)} in epoch seconds"
    return None


class Span(click.ParamType[int]):
    """A duration as policies write it (`45s`, `30m`, `1h30m`, `PT30M`), in milliseconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The span in milliseconds."""
        if isinstance(value, int):
            return value
        try:
            return parse_duration_ms(value)
        except QuantityError as error:
            self.fail(f"{error.message}; {error.hint}", param, ctx)


def _interval(_context: click.Context, _parameter: click.Parameter, milliseconds: int | None) -> timedelta | None:
    if milliseconds == 0:
        raise click.BadParameter("an interval is longer than nothing")
    return None if milliseconds is None else timedelta(milliseconds=milliseconds)


every_option = click.option(
    "--every",
    type=Span(),
    callback=_interval,
    help="How often runs come, from start to start, such as 5m: with a freshness target a slice is compacted when it cannot "
    "wait for the next run. Wins over `strategy.every`.",
)
at_option = click.option(
    "--at",
    "at_ms",
    type=MomentType(),
    help="Take this time as now (epoch ms or ISO 8601); the threshold moves with it.",
)
