"""Spark, its Java and catalog, and the stock Hudi client that runs compactions."""
