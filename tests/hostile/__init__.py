"""Hostile tables, each read by a command in a process of its own: `python -m tests.hostile --count 5000`."""
