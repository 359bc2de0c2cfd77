"""The files of a table as its metadata table lists them, read in Python."""
