"""Mutual exclusion of runs over a table, and the signs of life of each."""
