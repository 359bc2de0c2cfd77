"""Publish: renders plans, results and verdicts as text and JSON (pure)."""
