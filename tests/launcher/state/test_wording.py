"""Lists of names in sentences."""

from __future__ import annotations

import pytest

from launcher.state.outcome_rules import listed


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, ""),
        (1, "n0"),
        (2, "n0 and n1"),
        (3, "n0, n1 and n2"),
        (6, "n0, n1, n2, n3, n4 and n5"),
        (7, "n0, n1, n2, n3, n4 and 2 more"),
        (1000, "n0, n1, n2, n3, n4 and 995 more"),
    ],
)
def test_names_are_said_as_people_say_them_and_cut(count: int, expected: str) -> None:
    assert expected == listed([f"n{i}" for i in range(count)])


def test_other_joints() -> None:
    assert "a; b; 2 more" == listed(["a", "b", "c", "d"], most=2, joint="; ", last="; ")
