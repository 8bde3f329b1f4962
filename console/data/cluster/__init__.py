"""Machines, GPUs, Spark, and whose they are."""
