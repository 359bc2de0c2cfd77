"""The demo: flights of 2013 as a real table, dated up to now."""
