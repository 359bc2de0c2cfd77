"""`--conf`: Spark's own settings, so that the same job runs on a cluster."""

from __future__ import annotations

import click


def _pairs(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals or not key.startswith("spark."):
            raise click.BadParameter(f"`{value}` is not of the form spark.key=value")
        pairs[key] = text
    return pairs


conf_option = click.option(
    "--conf",
    "confs",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_pairs,
    help="A Spark setting, as spark-submit takes it; may be repeated.",
)
