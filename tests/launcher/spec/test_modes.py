"""The table of modes: every mode has its row, and what is asked of all rows at once."""

from __future__ import annotations

import pytest

from launcher.spec.job import SparkSpec
from launcher.spec.modes import (
    ADDRESSES,
    DEFAULT_MODE,
    SPARK,
    TRAITS,
    Mode,
    implied_mode,
    modes_taking,
    recorded_traits,
)


def test_every_mode_has_a_row() -> None:
    assert set(Mode) == TRAITS.keys()
    assert all(mode.traits is TRAITS[mode] and mode.traits.place for mode in Mode)


def test_the_usual_mode_needs_no_address_because_the_first_frame_does_not_look() -> None:
    assert not DEFAULT_MODE.traits.address


def test_an_address_is_a_field_of_the_spark_that_takes_its_example() -> None:
    for row in TRAITS.values():
        assert bool(row.address) == bool(row.example)
        if row.address:
            spark = SparkSpec(**{row.address: row.example})  # type: ignore[arg-type]
            assert row.example == getattr(spark, row.address)
    assert len(set(ADDRESSES)) == len(ADDRESSES)


@pytest.mark.parametrize("mode", Mode)
def test_a_backend_that_knows_its_places_beforehand_has_no_scheduler_to_wait_for(mode: Mode) -> None:
    assert not (mode.traits.plans_ahead and mode.traits.scheduled)


@pytest.mark.parametrize(
    ("given", "mode"),
    [
        ({}, None),
        ({"master": "", "remote": ""}, None),
        ({"master": "spark://h:7077"}, Mode.CLUSTER),
        ({"remote": "sc://h"}, Mode.CONNECT),
        ({"remote": "sc://h", "master": "spark://h:7077"}, Mode.CONNECT),
    ],
)
def test_an_address_implies_the_mode(given: dict[str, str], mode: Mode | None) -> None:
    assert mode == implied_mode(given)


def test_a_record_of_another_version_may_name_a_mode_that_is_not_known() -> None:
    assert recorded_traits("local") is Mode.LOCAL.traits
    assert None is recorded_traits("slurm")


def test_the_options_of_spark_are_for_the_modes_with_one() -> None:
    assert (Mode.CLUSTER, Mode.CONNECT) == modes_taking(SPARK)
