"""Ages and sizes as people write them."""

from __future__ import annotations

import pytest

from console.formatting import bytes_of, seconds_of
from launcher.errors import SpecError


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("12h", 43200), ("30d", 2592000), ("2W", 1209600), ("1.5", 129600)]
)
def test_ages(text: str, seconds: float) -> None:
    assert seconds == seconds_of(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("500", 500),
        ("500 b", 500),
        ("10G", 10**10),
        ("1.5MB", 1_500_000),
        ("2Ki", 2048),
        ("1TiB", 1 << 40),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert size == bytes_of(text)


@pytest.mark.parametrize("text", ["", "soon", "-1d", "1y", "1 2", "d", "١d"])
def test_what_is_no_age_is_told(text: str) -> None:
    with pytest.raises(SpecError, match="no age"):
        seconds_of(text)


@pytest.mark.parametrize("text", ["", "much", "-1", "1X", "1i", "G", "1e9"])
def test_what_is_no_size_is_told(text: str) -> None:
    with pytest.raises(SpecError, match="no size"):
        bytes_of(text)
