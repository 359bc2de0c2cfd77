"""Comparisons that print ratios of one run: `python -m benchmarks.<name>`. None of them is a test."""
