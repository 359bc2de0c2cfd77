"""Command line: parse flags, call a stage, print."""
