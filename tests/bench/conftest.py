"""What every benchmark shares."""

from __future__ import annotations

import os
from collections.abc import Iterator
from unittest import mock

import pytest


@pytest.fixture(autouse=True, scope="session")
def compiled() -> Iterator[None]:
    """Let Python keep compiled modules, as it does for users: else each start would measure the compiler."""
    with mock.patch.dict(os.environ):
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        yield
