from __future__ import annotations

import pytest

from console.formatting import tilde


@pytest.mark.parametrize(
    ("home", "path", "said"),
    [
        ("/home/ada", "/home/ada/llm/train.py:main lr=1", "~/llm/train.py:main lr=1"),
        ("/home/ada", "/home/ada", "~"),
        ("/home/ada", "/home/adam/x", "/home/adam/x"),
        ("/home/ada/", "/home/ada/x", "~/x"),
        ("/", "/data/x", "/data/x"),
    ],
)
def test_a_home_folder_is_a_tilde(monkeypatch: pytest.MonkeyPatch, home: str, path: str, said: str) -> None:
    monkeypatch.setenv("HOME", home)

    assert tilde(path) == said
