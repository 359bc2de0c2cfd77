"""The verbs of `etc` as Python: what the commands call, without a terminal."""
