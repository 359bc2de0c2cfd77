"""Paths, moments and spans of time on the command line, and `--at`: what counts as now."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click

from etc_policy.policy.quantities import QuantityError, parse_duration_ms, parse_size_bytes

_LAST_PORT = 65_535


class MomentType(click.ParamType):  # type: ignore[type-arg]  # click before 8.4 has no such argument
    """Epoch milliseconds or ISO 8601; a time without a zone is UTC."""

    name = "time"

    def __init__(self, *, may_be_future: bool = False) -> None:
        self.may_be_future = may_be_future

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The moment."""
        if isinstance(value, datetime):
            return value
        from etc_policy.api.arguments import EPOCH, moment_fault  # what it takes along is not needed by most commands

        text = str(value).strip()
        moment = int(text) if re.fullmatch(r"-?[0-9]{1,16}", text) else self._parse(text, param, ctx)
        fault = moment_fault(moment, may_be_future=self.may_be_future)
        if fault is not None:
            self.fail(f"`{text[:60]}` {fault}", param, ctx)
        return EPOCH + timedelta(milliseconds=moment) if isinstance(moment, int) else moment

    def _parse(self, text: str, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            self.fail(
                f"`{text[:60]}` is neither epoch milliseconds nor ISO 8601, such as 2013-01-01T18:30:00Z", param, ctx
            )


class _Quantity(click.ParamType):  # type: ignore[type-arg]
    """A number with its unit as policies write it."""

    parse: Callable[[object], int]

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number in the smallest unit."""
        if isinstance(value, int):
            return value
        try:
            return type(self).parse(value)
        except QuantityError as error:
            self.fail(f"{error.message}; {error.hint}", param, ctx)


class Span(_Quantity):
    """A duration (`45s`, `30m`, `1h30m`, `PT30M`), in milliseconds."""

    name, parse = "duration", staticmethod(parse_duration_ms)


class Size(_Quantity):
    """A number of bytes (`50 GiB`, `200GiB`)."""

    name, parse = "size", staticmethod(parse_size_bytes)


def _address(_context: click.Context, _parameter: click.Parameter, text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    host, _, port = text.rpartition(":")
    if not host or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > _LAST_PORT:
        raise click.BadParameter(f"`{text[:60]}` is not of the form HOST:PORT, such as 127.0.0.1:9864")
    return host, int(port)


def address_option(name: str, *, help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:  # noqa: A002 - as click has it
    """An option that takes a host and a port."""
    return click.option(name, metavar="HOST:PORT", callback=_address, help=help)


def port_option(default: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`--port` of what listens."""
    kind = click.IntRange(0, _LAST_PORT)
    text = "Port to listen on; 0 takes any free one."
    return click.option("--port", metavar="NUMBER", type=kind, default=default, show_default=True, help=text)


def _interval(_context: click.Context, _parameter: click.Parameter, milliseconds: int | None) -> timedelta | None:
    if milliseconds == 0:
        raise click.BadParameter("an interval must be longer than 0s")
    return None if milliseconds is None else timedelta(milliseconds=milliseconds)


def interval_option(name: str, *, help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:  # noqa: A002 - as click has it
    """An option that takes a duration above zero."""
    return click.option(name, type=Span(), callback=_interval, help=help)


every_option = interval_option(
    "--every",
    help="How often runs come, from start to start, such as 5m: with a freshness target a slice is compacted when it cannot "
    "wait for the next run. Wins over `strategy.every`.",
)
at_option = click.option(
    "--at",
    type=MomentType(),
    help="Take this time as now (epoch ms or ISO 8601, UTC without a zone); the threshold moves with it.",
)


class PlaceType(click.Path):
    """A path that can be; an empty one, mostly a variable that is not set, is an error and not the current folder."""

    def __init__(self, **keywords: Any) -> None:  # noqa: ANN401 - click's own
        super().__init__(path_type=Path, **keywords)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - click's own
        """The path."""
        text = os.fspath(value)
        if not text:
            self.fail("the path is empty", param, ctx)
        if "\0" in text:
            self.fail("no path has a NUL in it", param, ctx)
        if _is_too_long(text):
            self.fail("the path is too long", param, ctx)
        return super().convert(value, param, ctx)


def _is_too_long(text: str) -> bool:
    try:
        Path(text).stat()
    except OSError as error:
        return error.errno == errno.ENAMETOOLONG
    return False


#: A file, a folder, and either of them.
FILE, FOLDER, PLACE = PlaceType(dir_okay=False), PlaceType(file_okay=False), PlaceType()
