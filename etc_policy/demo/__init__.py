"""The demo: flights of 2013 as a real table."""
