"""What the stand-in for MLflow is given."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Metric:
    key: str
    value: float
    timestamp: int
    step: int


@dataclass
class Param:
    key: str
    value: str
