"""The sentence on a training whose loss is no finite number any more. Pure."""

from __future__ import annotations


def diverged(loss: float, epoch: int, rate: float) -> str:
    """What is said of a loss after an epoch, counted from 0, at a learning rate."""
    reasons = "the learning rate may be too high, or there are nulls or NaN among the features or labels"
    return f"the loss is {loss} after epoch {epoch + 1}, at a learning rate of {rate}: {reasons}"
