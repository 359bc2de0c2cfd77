"""Verify: what the table shows, re-read, against what the policy promises."""
