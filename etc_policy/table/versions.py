"""Hudi's table versions, by what can be done with them."""

from __future__ import annotations

#: A log file's completion time decides its slice: a slice can be cut between two of its log files (facts: slice-by-completion).
CUT_VERSIONS = (8, 9)
#: The base instant in a log file's name decides its slice: only whole slices can be compacted (facts: version-6-slices).
WHOLE_SLICE_VERSIONS = (6,)
