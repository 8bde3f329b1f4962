"""Predictions over tables of Spark: `predict` runs one, `start` starts one."""

from .predicting import PredictOptions, predict, start

__all__ = ["PredictOptions", "predict", "start"]
