"""Execute: a saved plan in, run results out, through the Compactor port."""
