from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from console.data.launch.draft import Draft
from console.data.launch.presets import list_presets, presets_folder, remove_preset, save_preset
from launcher.errors import RecordError, SpecError
from launcher.spec.modes import Mode

FULL = Draft(
    target="train.py:main",
    params={"lr": "0.1", 'odd "name"\n': "\x7f\x1b[2J"},
    args="--a 'b c'",
    processes="2:4",
    mode=Mode.CONNECT,
    gpu="no",
    spark="sc://h:15002/;use_ssl=true",
    extras={"env": "LEVEL=3 NAME='a b'", "max_restarts": "2"},
)


def only(folder: Path, workdir: Path) -> Draft | None:
    (preset,) = list_presets(folder, workdir)
    return preset.draft


def test_a_launch_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    folder = tmp_path / "presets"

    assert save_preset(folder, " smoke 2 ", FULL) == []
    assert only(folder, tmp_path) == replace(FULL, workdir=tmp_path)
    file = folder / "smoke 2.toml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [f.name for f in folder.iterdir()] == [file.name]


TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(text=TEXT, name=TEXT)
def test_any_text_comes_back(tmp_path: Path, text: str, name: str) -> None:
    draft = Draft(target=text, args=text, params={name: text}, extras={"name": text}, workdir=tmp_path)
    save_preset(tmp_path / "p", "x", draft)

    assert only(tmp_path / "p", tmp_path) == draft


def test_secrets_are_not_saved_and_named(tmp_path: Path) -> None:
    draft = replace(
        FULL,
        spark="sc://h/;token=s3cret;use_ssl=true",
        extras={"env": "API_TOKEN=s3cret LEVEL=3", "conf": "spark.authenticate.secret=s3cret"},
    )

    assert save_preset(tmp_path, "x", draft) == ["API_TOKEN", "spark.authenticate.secret", "token"]
    assert "s3cret" not in (tmp_path / "x.toml").read_text()
    found = only(tmp_path, tmp_path)
    assert found is not None
    assert found.extras == {"env": "LEVEL=3"}
    assert found.spark == "sc://h/;use_ssl=true"


def test_what_cannot_be_searched_for_secrets_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="not finished"):
        save_preset(tmp_path, "x", replace(FULL, extras={"env": "TOKEN='s3cret"}))
    assert list_presets(tmp_path, tmp_path) == []


@pytest.mark.parametrize("name", ["", " ", "../x", "a/b", ".hidden", "-x", "a\nb", "ä", "x" * 49])
def test_a_name_is_checked(tmp_path: Path, name: str) -> None:
    with pytest.raises(SpecError, match="preset's name"):
        save_preset(tmp_path / "p", name, FULL)
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("target = ", "Invalid"),
        ("target = 3", "`target` must be text"),
        ("more = 'x'", "`more` is no field"),
        ("params = 'x'", "`params` must be a table"),
        ("[extras]\nfoo = 'x'", "no foo"),
        ("mode = 'yarn'", "yarn"),
        ("gpu = 'maybe'", "`gpu` must be"),
        ("\udcff", "utf-8"),
    ],
)
def test_a_file_that_is_none_is_listed_with_the_reason(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "x.toml").write_bytes(text.encode("utf-8", "surrogateescape"))

    (preset,) = list_presets(tmp_path, tmp_path)

    assert preset.draft is None
    assert said in preset.problem


def test_a_preset_is_removed_once(tmp_path: Path) -> None:
    save_preset(tmp_path, "x", FULL)
    remove_preset(tmp_path, "x")
    remove_preset(tmp_path, "x")

    assert list_presets(tmp_path, tmp_path) == []
    with pytest.raises(RecordError):
        remove_preset(tmp_path, "../x")


def test_they_lie_in_the_config_folder(home: Path) -> None:
    assert presets_folder() == home / "config" / "presets"


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("")

    with pytest.raises(RecordError, match="cannot be written"):
        save_preset(tmp_path / "p", "x", FULL)
