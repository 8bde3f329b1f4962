"""The public face of `launcher`: complete, sorted, and each name really there."""

from __future__ import annotations

import ast
from pathlib import Path

import launcher
from launcher import errors


def test_all_is_sorted_and_resolves() -> None:
    assert sorted(launcher.__all__) == launcher.__all__
    assert all(getattr(launcher, name) is not None for name in launcher.__all__)


def test_every_error_is_public() -> None:
    defined = {n for n, v in vars(errors).items() if isinstance(v, type) and issubclass(v, Exception)}

    assert defined <= set(launcher.__all__)


def test_type_checkers_see_every_name() -> None:
    tree = ast.parse(Path(launcher.__file__).read_text())
    block = next(n for n in tree.body if isinstance(n, ast.If))
    names = {alias.name for n in block.body if isinstance(n, ast.ImportFrom) for alias in n.names}

    assert set(launcher.__all__) == names


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(launcher, "Distributer")
