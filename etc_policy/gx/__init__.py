"""Verification of rows on Great Expectations."""
