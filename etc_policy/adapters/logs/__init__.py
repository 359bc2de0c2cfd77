"""Event times from the blocks of log files, read in Python."""
