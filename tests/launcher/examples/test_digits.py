"""The digits that examples train on."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from launcher.examples import digits  # noqa: E402  needs torch

pytestmark = pytest.mark.frameworks


def test_shapes_and_ranges_are_what_a_model_needs() -> None:
    train, test = digits.split()

    assert (len(train), len(test)) == (1350, 450)
    for images, labels in (train.tensors, test.tensors):
        assert images.shape == (len(labels), digits.FEATURES)
        assert (images.dtype, labels.dtype) == (torch.float32, torch.int64)
        assert images.isfinite().all()
        assert (float(images.min()), float(images.max())) == (0.0, 1.0)
        assert labels.bincount().tolist() == [len(labels) // digits.CLASSES] * digits.CLASSES
        assert not torch.equal(labels, labels.sort().values)


def test_the_same_seed_draws_the_same_and_another_does_not() -> None:
    first, again, other = (digits.split(seed)[0].tensors for seed in (3, 3, 4))

    assert all(map(torch.equal, first, again))
    assert not torch.equal(first[0], other[0])
    torch.manual_seed(1)
    assert all(
        map(torch.equal, first, digits.split(3)[0].tensors)
    )  # whatever a rank's own generator has done


def test_drawing_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    digits.split()

    assert torch.equal(torch.rand(3), expected)


def test_training_and_test_images_are_not_the_same() -> None:
    train, test = (part.tensors[0] for part in digits.split())

    assert float(torch.cdist(train, test).min()) > 0


@pytest.mark.parametrize("seed", [0, 1])
def test_a_small_model_learns_them_in_a_moment(seed: int) -> None:
    torch.manual_seed(seed)
    (images, labels), (seen, truth) = (part.tensors for part in digits.split(seed))
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimiser = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(80):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimiser.step()

    assert float((model(seen).argmax(1) == truth).float().mean()) >= 0.95


def test_each_digit_looks_like_itself() -> None:
    """A digit's mean image is nearer to its own test images than to those of the others."""
    (images, labels), (seen, truth) = (part.tensors for part in digits.split())
    means = torch.stack([images[labels == digit].mean(0) for digit in range(digits.CLASSES)])
    nearest = torch.cdist(seen, means).argmin(1)

    assert float((nearest == truth).float().mean()) > 0.7
