"""Machines, GPUs and Spark, and who uses them."""
