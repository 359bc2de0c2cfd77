"""Variants of what another case covers, for which the everyday run has no time."""

import pytest


def weekly(*values):
    """Cases that `make test-extended` runs alone."""
    return [pytest.param(value, marks=pytest.mark.extended) for value in values]
