"""What docstrings say about parameters, as three schools write them."""

from __future__ import annotations

import pytest

from console.data.options.docstrings import described_parameters

GOOGLE = """Trains.

    Args:
        lr: the rate,
            of all ranks
        steps (int, optional): how many: at most 100
        *rest: more

    Returns:
        loss: the last one
"""
NUMPY = """Trains.

Parameters
----------
lr : float, optional
    the rate,
    of all ranks
a, b
    two of them

Returns
-------
loss : float
"""
SPHINX = """Trains.

:param lr: the rate,
    of all ranks
:param int steps: how many
:returns: the loss
"""


@pytest.mark.parametrize(
    ("doc", "texts"),
    [
        (GOOGLE, {"lr": "the rate, of all ranks", "steps": "how many: at most 100", "rest": "more"}),
        (NUMPY, {"lr": "the rate, of all ranks", "a": "two of them", "b": "two of them"}),
        (SPHINX, {"lr": "the rate, of all ranks", "steps": "how many"}),
        ("", {}),
        ("Only a sentence: with a colon.", {}),
        ("Args:\n", {}),
        (
            "Args:\n        lr: the rate\n        n: how many\n\n    Returns:\n        x",
            {"lr": "the rate", "n": "how many"},
        ),
        ("Args:\n    " + "x: " * 100_000, {"x": ("x: " * 400).strip()[:400]}),
    ],
)
def test_parameters_are_described(doc: str, texts: dict[str, str]) -> None:
    found = described_parameters(doc)

    assert found.keys() == texts.keys()
    assert all(found[name].startswith(text[:300]) for name, text in texts.items())
