"""Predictions over DataFrames of Spark."""
