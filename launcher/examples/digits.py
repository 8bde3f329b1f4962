"""Handwritten digits: 1,797 images of 8×8 that come with scikit-learn, split into train and test.

Needs no network and no accelerator. Nothing distributed belongs here: every rank makes the same split.
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch.utils.data import TensorDataset

FEATURES, CLASSES = 64, 10


def split(seed: int = 0) -> tuple[TensorDataset, TensorDataset]:
    """Three quarters to train on and one quarter to test on, with every digit in proportion."""
    images, digits = load_digits(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(
        images / 16.0, digits, test_size=0.25, stratify=digits, random_state=seed
    )
    return _dataset(x_train, y_train), _dataset(x_test, y_test)


def _dataset(images: object, digits: object) -> TensorDataset:
    return TensorDataset(
        torch.as_tensor(images, dtype=torch.float32), torch.as_tensor(digits, dtype=torch.int64)
    )
