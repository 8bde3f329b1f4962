"""Config files as Hydra has them, and files that are none."""

from __future__ import annotations

import time

import pytest

from console.data.options.config_yaml import Scalar, Table, read_config


def plain(value: object) -> object:
    if isinstance(value, Table):
        return {key: plain(each) for key, each in value.entries.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    assert isinstance(value, Scalar)
    return value.source


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1\nb: 1.5\nc: x y\nd: 'q: # r'\n", {"a": "1", "b": "1.5", "c": "'x y'", "d": "'q: # r'"}),
        ("a:\n  b:\n    c: true\n  d: ~\ne: null", {"a": {"b": {"c": "True"}, "d": None}, "e": None}),
        ("a:\n- 1\n- b: 2\n  c: 3\nd: 4", {"a": ["1", {"b": "2", "c": "3"}], "d": "4"}),
        ("a: [1, 2]\nb: {c: d}\n", {"a": "[1, 2]", "b": "{c: d}"}),
        ("a: |\n  text: no\n  more\nb: 2", {"a": "…", "b": "2"}),
        ("---\n# only\n\n# comments\n", {}),
        ('"a": "x"\r\nb: "1"\r\n', {"a": "'x'", "b": "'1'"}),
        ("a: &x 1\nb: *x\nc: !!python/object:os.system x", {"a": "…", "b": "…", "c": "…"}),
        ("url: http://host:80/a#b", {"url": "'http://host:80/a#b'"}),
        ("- a\n- b", {}),
        ("just text", {}),
        ("a: [1,\n  2]\nb: 3", {"a": "…", "b": "3"}),
    ],
)
def test_the_simple_part_is_read(text: str, value: object) -> None:
    assert plain(read_config(text)) == value


def test_comments_are_kept() -> None:
    value = read_config("lr: 0.1  # the  rate").entries["lr"]

    assert isinstance(value, Scalar)
    assert (value.text, value.comment, value.kind) == ("0.1", "the rate", "float")


@pytest.mark.parametrize(
    "text",
    [
        "".join(" " * n + "a:\n" for n in range(3000)),
        "a: &a [x]\n" + "".join(f"b{n}: &b{n} [*a, *a, *a]\n" for n in range(2000)),
        "- " * 20_000,
        "\t\x00\x1b[2J: [\n" * 5000,
        "a" * (1 << 20),
        ": \n-\n :\n" * 5000,
        "'" * 50_000 + ": 1",
    ],
)
def test_a_bomb_does_not_go_off(text: str) -> None:
    begun = time.process_time()
    read_config(text)

    assert time.process_time() - begun < 5
