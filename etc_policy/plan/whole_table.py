"""A table's state and its past, from one reading."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from etc_policy.plan.table_history import TableHistory
from etc_policy.plan.table_state import TableState


class WholeTable(NamedTuple):
    """What the site and `etc debug` look at; the past goes back to what is archived.

    `properties` are the pairs of `hoodie.properties`.
    """

    state: TableState
    history: TableHistory
    properties: Mapping[str, str]
