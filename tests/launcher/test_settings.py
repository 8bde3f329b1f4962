"""`config.toml`: defaults, what it may say, and one clear sentence about what it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.errors import SpecError
from launcher.settings import EngineSettings, Policy, Settings, config_file, load


def settle(home: Path, text: str) -> dict[str, str]:
    environ = {"RANKDECK_HOME": str(home)}
    config_file(environ).parent.mkdir(parents=True)
    config_file(environ).write_text(text)
    return environ


def test_without_a_file_there_are_defaults(home: Path) -> None:
    assert Settings() == load({"RANKDECK_HOME": str(home)})
    assert 8 <= EngineSettings().max_local_runs


def test_a_file_settles_some_and_leaves_the_rest(home: Path) -> None:
    environ = settle(home, "[retention]\nruns = 7\nbytes = 10_000\n[engine]\nidle_s = 1\n")
    expected = Settings(Policy(7, Policy().age_s, 10_000), EngineSettings(idle_s=1.0))
    assert expected == load(environ)


def test_nought_keeps_without_limit(home: Path) -> None:
    environ = settle(home, "[retention]\nruns = 0\ndays = 0\nbytes = 0\n")
    assert Policy(None, None, None) == load(environ).retention


def test_variables_come_before_the_file(home: Path) -> None:
    environ = settle(home, "[engine]\nidle_s = 1\nsession_idle_s = 2\n")
    environ |= {
        "RANKDECK_ENGINE_IDLE_S": "2.5",
        "RANKDECK_MAX_LOCAL_RUNS": "3",
        "RANKDECK_SESSION_IDLE_S": "",
    }
    assert EngineSettings(2.5, 2.0, 3) == load(environ).engine


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[retention]\nkeep = 3", "retention.keep"),
        ("[retentoin]\nruns = 3", "retentoin"),
        ("retention = 3", "retention must be a table"),
        ("[retention]\nruns = 'many'", "retention.runs must be a whole number"),
        ("[retention]\nruns = 1.5", "retention.runs"),
        ("[retention]\nruns = true", "retention.runs"),
        ("[retention]\ndays = -1", "retention.days"),
        ("[retention]\ndays = nan", "retention.days"),
        ("[engine]\nidle_s = inf", "engine.idle_s"),
        ("[engine]\nmax_local_runs = 0", "engine.max_local_runs"),
        (f"[engine]\nidle_s = {'9' * 400}", "engine.idle_s"),
        ("[engine\n", "cannot be read"),
        ("a = '\x00'", "cannot be read"),
    ],
)
def test_what_it_may_not_say_is_told_in_one_sentence(home: Path, text: str, said: str) -> None:
    environ = settle(home, text)
    with pytest.raises(SpecError, match=said) as caught:
        load(environ)
    assert str(config_file(environ)) in caught.value.message


@pytest.mark.parametrize("value", ["soon", "-1", "nan"])
def test_a_variable_that_makes_no_sense_is_named(home: Path, value: str) -> None:
    with pytest.raises(SpecError, match="RANKDECK_ENGINE_IDLE_S"):
        load({"RANKDECK_HOME": str(home), "RANKDECK_ENGINE_IDLE_S": value})


def test_a_file_that_is_a_folder_is_told(home: Path) -> None:
    (home / "config" / "config.toml").mkdir(parents=True)
    with pytest.raises(SpecError, match="cannot be read"):
        load({"RANKDECK_HOME": str(home)})
