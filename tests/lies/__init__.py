"""Lies about tables: one random corruption of an honest table at a time, and which level of verification catches it."""
