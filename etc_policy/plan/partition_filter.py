"""The partitions that a policy compacts: globs and ranges over their paths."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

#: Between the first and the last partition of a range; either may be omitted.
RANGE = ".."


def is_in(partition: str, terms: Iterable[str]) -> bool:
    """Whether one of the terms means the partition; without terms all are meant. Ranges go by the order of texts."""
    chosen = tuple(terms)
    return not chosen or any(_means(term, partition) for term in chosen)


def _means(term: str, partition: str) -> bool:
    first, dots, last = term.partition(RANGE)
    if not dots:
        return fnmatchcase(partition, term)
    return first <= partition and (not last or partition <= last)
