"""The language of filters by itself: terms, fields, figures, and what is not finished yet."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from console.data.filtering import Figure, NamedField, Test, help_line, parse_filter
from launcher.errors import SpecError


class Car(NamedTuple):
    texts: str
    colour: str
    speed: float | None = None


def colour(value: str) -> Test[Car]:
    if value not in ("red", "blue"):
        raise ValueError(value)
    return lambda car: car.colour == value


FIELDS = (NamedField("colour", "red or blue", colour, ("colour:red",)),)
SPEED: Figure[Car] = Figure("speed", lambda car: car.speed, "km/h")
RED, BLUE = Car("fast lane: 7 o'clock", "red", 90.0), Car("slow lane", "blue")


def accepted(text: str) -> str:
    wanted = parse_filter(text, lambda car: car.texts, FIELDS, (SPEED,))
    return "".join(car.colour[0] for car in (RED, BLUE) if wanted.accepts(car))


@pytest.mark.parametrize(
    ("text", "cars"),
    [
        ("", "rb"),
        ("  ", "rb"),
        ("FAST", "r"),
        ("lane fast", "r"),
        ("!fast", "b"),
        ("!!fast", "r"),
        ('"fast lane"', "r"),
        ("'slow lane' !colour:red", "b"),
        ("colour:blue", "b"),
        ("Colour:blue", "b"),
        ("!colour:blue", "r"),
        ("speed>80", "r"),
        ("speed<80", ""),
        ("speed>80KM/H", "r"),
        ("!speed>80", "b"),
        ("SPEED>80 colour:blue", ""),
        ("colour>3", ""),
        ("speed:9", ""),
        ("lane:", "r"),
    ],
)
def test_all_terms_must_be_so(text: str, cars: str) -> None:
    assert cars == accepted(text)


@pytest.mark.parametrize("text", ["!", "<", ">", "!!", "colour:", "!colour:", "speed>", "!speed<", '""'])
def test_what_is_not_finished_asks_for_nothing(text: str) -> None:
    assert "rb" == accepted(text)
    assert "b" == accepted(f"{text} slow")


def test_an_open_quotation_is_words_as_yet() -> None:
    assert "r" == accepted('"lane fast')
    assert "r" == accepted("lane 7 'fa")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("colour:green", "colour: takes red or blue, not 'green'"),
        ("!colour:green", "colour: takes red or blue, not 'green'"),
        ("speed>fast", "a figure is compared with a number, such as speed>75, not 'fast'"),
        ("speed<<5", "a figure is compared with a number, such as speed<75, not '<5'"),
    ],
)
def test_what_means_nothing_is_said_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(SpecError) as caught:
        accepted(text)
    assert sentence == str(caught.value)


def test_a_field_can_be_asked_by_a_flag_of_a_command() -> None:
    assert FIELDS[0].means("red", option="--colour")(RED)
    with pytest.raises(SpecError, match=r"^--colour takes red or blue, not ''$"):
        FIELDS[0].means("", option="--colour")


def test_help_names_the_examples_of_all_fields() -> None:
    assert "words, colour:red; ! before one inverts it" == help_line(FIELDS)
