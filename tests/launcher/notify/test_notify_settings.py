"""`[notify]`: what it may say, and that what is put into a command stays one argument."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.settings import read
from launcher.notify.settings import DEFAULTS, KINDS, NotifySettings, chosen, filled, load, problem
from launcher.settings import config_file


def settle(home: Path, text: str) -> dict[str, str]:
    environ = {"RANKDECK_HOME": str(home)}
    config_file(environ).parent.mkdir(parents=True)
    config_file(environ).write_text(text)
    return environ


def test_without_a_file_only_the_title_is_set(home: Path) -> None:
    assert NotifySettings(title=True) == load({"RANKDECK_HOME": str(home)})
    assert KINDS == NotifySettings().on


def test_what_is_wrong_has_its_default_and_the_rest_applies(home: Path) -> None:
    environ = settle(home, '[notify]\nbell = true\nosc9 = 1\nwebhook = "file:///etc/passwd"\non = ["end"]\n')

    assert NotifySettings(bell=True, on=("end",)) == load(environ)
    assert [(3, "notify.osc9"), (4, "notify.webhook")] == [
        (each.line, each.text.split()[0]) for each in read(environ).problems
    ]


@pytest.mark.parametrize("text", ["[notify", "notify = 3", "\x00", "[[notify]]\nbell = true"])
def test_garbage_is_the_default(home: Path, text: str) -> None:
    assert NotifySettings() == load(settle(home, text))


@pytest.mark.parametrize("value", DEFAULTS.values())
def test_every_default_is_valid(value: object) -> None:
    key = next(key for key, default in DEFAULTS.items() if default is value)
    assert problem(key, value) is None


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("webhok", "", "is no setting"),
        ("bell", "yes", "must be true or false"),
        ("title", 1, "must be true or false"),
        ("webhook", 1, "must be an address in quotes"),
        ("webhook", "ftp://host/", "must begin with https:// or http://"),
        ("webhook", "file:///etc/passwd", "must begin with"),
        ("webhook", "https://", "and name a host"),
        ("webhook", "https://host:99999/", "is no address"),
        ("webhook", "https://[::1/", "is no address"),
        ("webhook", "https://host/a b", "must have no spaces"),
        ("webhook", "https://host/\r\nX: 1", "must have no spaces"),
        ("webhook", "https://host/" + "a" * 4096, "at most 2,048"),
        ("command", "notify-send", "must be a list of texts"),
        ("command", ["x", 1], "must be a list of texts"),
        ("command", ["", "x"], "must name a program"),
        ("command", ["x"] * 65, "at most 64 words"),
        ("command", ["x", "a" * 20_000], "16,384 characters"),
        ("command", ["x", "a\0b"], "cannot hold a NUL"),
        ("command", ["x", "{nme}"], "has {nme}, which stands for nothing; there are {id}, "),
        ("command", ["{name}"], "cannot have a placeholder for the program"),
        ("on", ["ends"], 'may have "end", "failure", "alert", not \'ends\''),
        ("on", "end", "must be a list of texts"),
    ],
)
def test_what_it_may_not_say(key: str, value: object, why: str) -> None:
    assert why in (problem(key, value) or "")


def test_a_secret_in_a_wrong_address_is_not_repeated() -> None:
    for url in ("ftp://hooks/s3cr3t", "https://h:99999/s3cr3t", "https://h/s3cr3t with spaces"):
        assert "s3cr3t" not in (problem("webhook", url) or "s3cr3t")


def test_placeholders_are_filled_once_and_words_stay_words() -> None:
    values = {"name": "a; rm -rf / {why} $(id)", "why": "it said {name}", "exit_code": None}
    words = filled(["notify-send", "--", "{name}", "{why}", '{"x": "{exit_code}"}', "{}"], values)

    assert ["notify-send", "--", "a; rm -rf / {why} $(id)", "it said {name}", '{"x": "None"}', "{}"] == words


def test_a_table_that_is_no_table_is_left_aside() -> None:
    assert NotifySettings() == chosen(3) == chosen(None) == chosen(["x"])
