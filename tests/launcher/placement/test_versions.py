"""Which hosts have which version, and how that is told."""

from __future__ import annotations

from launcher.placement.versions import by_version, minor, rarest_first, release, spread

PAIRS = [("b", "2.13"), ("a", "2.13"), ("c", "2.12"), ("b", "2.13")]


def test_a_host_is_named_once_for_each_version_in_the_order_of_hosts() -> None:
    assert by_version(PAIRS) == {"2.13": ["b", "a"], "2.12": ["c"]}
    assert list(by_version(PAIRS)) == ["2.13", "2.12"]


def test_the_rarest_version_comes_first_and_of_equal_ones_the_oldest() -> None:
    assert list(rarest_first(by_version(PAIRS))) == ["2.12", "2.13"]
    assert list(rarest_first({"3": ["a"], "2": ["b"]})) == ["2", "3"]


def test_who_has_what_is_one_sentence() -> None:
    assert spread("torch", rarest_first(by_version(PAIRS))) == "torch 2.12 on c, 2.13 on b and a"
    many = {"1": [f"n{n}" for n in range(9)]}
    assert spread("NCCL", many) == "NCCL 1 on n0, n1, n2, n3, n4 and 4 more"


def test_a_build_is_no_release_and_a_patch_no_minor_version() -> None:
    assert (release("2.13.0+cu128"), minor("3.11.7"), release(""), minor("")) == ("2.13.0", "3.11", "", "")
