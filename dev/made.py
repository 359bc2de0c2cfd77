"""What pages of the site end with and no file repeats, as it is made from the code; `docs/conf.py` adds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dev.bundle_page import render_bundles
from dev.compaction_options.__main__ import render_compaction_options
from dev.error_page import render_error_codes
from dev.options_page import render_options
from dev.reference_page import render_reference
from dev.refusal_page import render_refusals, render_rules

MADE: Mapping[str, Callable[[], str]] = {
    "reference": render_reference,
    "reference/errors": render_error_codes,
    "reference/options": render_options,
    "reference/bundles": render_bundles,
    "reference/compaction-options": render_compaction_options,
    "how-to/refused": render_refusals,
    "rules": render_rules,
}
