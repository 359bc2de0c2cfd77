"""Where what Spark's start needs again is kept for this user."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache() -> Path | None:
    """A folder of this user; None where the user has no home."""
    named = os.environ.get("XDG_CACHE_HOME")
    try:
        return Path(named or Path.home() / ".cache") / "etc-policy"
    except RuntimeError:
        return None
