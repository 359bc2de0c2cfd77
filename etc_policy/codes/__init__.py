"""Error codes: each defined once, with what it means and what to do. Imports nothing of the package."""
