"""Cases that run every night, and not at each push: variants of what another covers, or what takes long."""

import os

import pytest

#: How many histories are modelled, of some plays a part of as many: every night 20,000.
HISTORIES = int(os.environ.get("ETC_HISTORIES", "500"))


def nightly(*values):
    """Cases marked `extended`; a case of several values is a tuple."""
    each = (value if isinstance(value, tuple) else (value,) for value in values)
    return [pytest.param(*one, marks=pytest.mark.extended) for one in each]
