"""Modules of a user, in a file that only the driver has."""

from __future__ import annotations

import torch


class TwoLayers(torch.nn.Module):
    """Of `inputs` numbers a row."""

    def __init__(self, inputs: int, outputs: int = 1) -> None:
        super().__init__()
        self.first = torch.nn.Linear(inputs, 8)
        self.last = torch.nn.Linear(8, outputs)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.last(torch.relu(self.first(rows)))
        return found


def make_two() -> torch.nn.Module:
    return TwoLayers(2)


def cross_entropy(scores: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(scores, label.long())


def largest(scores: torch.Tensor) -> torch.Tensor:
    return scores.argmax(1)


def refuses_large(output: torch.Tensor) -> torch.Tensor:
    if len(output) > 1 and output.isnan().any():
        raise ValueError("not a number")
    return output
