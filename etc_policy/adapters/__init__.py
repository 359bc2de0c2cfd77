"""Adapters: the outside world, one file per tool; only wiring imports them."""
