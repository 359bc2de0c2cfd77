"""The one door to a table's bytes: listing, reading, writing, linking and removing of its files."""
