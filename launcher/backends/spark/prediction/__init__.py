"""Predictions as jobs of Spark: the function, the units, and what is done in Python workers."""
