"""A filled-in form and the command that it shows mean the same, whatever is filled in."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from console.cli.run import given_options, launch_options, request_from
from console.data.launch.draft import EXTRAS, Draft, Misfit, command_text, draft_of
from launcher.errors import SpecError
from launcher.spec.job import JobSpec
from launcher.spec.modes import Mode

Parsed = tuple[str, tuple[str, ...], dict[str, Any], bool]
_SOURCE = """
from typing import Literal

def main(lr: float, steps: int = 20, opt: Literal['adam', 'sgd'] = 'adam', note: str = '', **more): ...
def places(a: str, *rest: int): ...
"""


@click.command()
@click.argument("target")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@launch_options
@click.option("--no-defaults", is_flag=True)
@click.pass_context
def parse(
    context: click.Context, /, target: str, args: tuple[str, ...], no_defaults: bool, **_: Any
) -> Parsed:
    return target, args, given_options(context), no_defaults


def said(command: str, settled: Mapping[str, str] | None = None) -> JobSpec:
    """What the command line makes of a command as a shell splits it, where settings hold what is settled."""
    words = shlex.split(command)
    assert words[:2] == ["rankdeck", "run"]
    target, args, given, aside = parse.main(words[2:], standalone_mode=False)
    return request_from(target, args, given, {} if aside else settled).spec


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("project")
    (folder / "train.py").write_text(_SOURCE)
    (folder / "-dash.py").write_text("")
    (folder / "sub").mkdir()
    (folder / "sub" / "job.py").write_text(_SOURCE)
    before = Path.cwd()
    os.chdir(folder)
    yield folder
    os.chdir(before)


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
WORDS = st.lists(TEXT, max_size=3).map(shlex.join)
NAMES = st.from_regex(r"[A-Z_]{1,6}", fullmatch=True)
PAIRS = st.dictionaries(NAMES, TEXT, max_size=3).map(lambda d: shlex.join(f"{k}={v}" for k, v in d.items()))
NUMBERS = st.one_of(
    st.integers(-1, 9).map(str),
    st.floats(0, 1e9).map(str),
    st.sampled_from(["", " ", "x", "1e3", " 2 ", "inf", "nan"]),
)
WHOLE = st.one_of(st.integers(-1, 5).map(str), st.sampled_from(["", "1.5", " 3 ", "1_0"]))

KINDS = {
    "workdir": st.sampled_from(["", ".", "sub", "/", "~"]),
    "name": TEXT,
    "env": PAIRS,
    "conf": PAIRS,
    "py_files": WORDS,
    "listen": st.sampled_from(["", ":4000", "0.0.0.0:4000-4010", "-x"]),
    "spool": TEXT,
    "gpus_per_rank": WHOLE,
    "ranks_per_gpu": WHOLE,
    "gpus_per_task": WHOLE,
    "max_restarts": WHOLE,
}


@st.composite
def drafts(draw: st.DrawFn) -> Draft:
    target = draw(
        st.sampled_from(
            [
                "train.py",
                "train.py:main",
                "train.py:places",
                "train:main",
                "sub/job.py:main",
                "-dash.py",
                "gone.py",
                "",
            ]
        )
    )
    function = ":" in target
    params = {"lr": draw(st.sampled_from(["0.1", "1", "-2e-3", "1e9", "x"]))} if "main" in target else {}
    if params:
        more = {"steps": st.just("3"), "opt": st.sampled_from(["sgd", "no"]), "note": TEXT, "z": TEXT}
        params |= draw(st.fixed_dictionaries({}, optional=more))
    chosen = draw(st.sets(st.sampled_from([extra.name for extra in EXTRAS]), max_size=5))
    # in one order: what hypothesis draws may depend on nothing but what it drew before
    extras = {extra.name: draw(KINDS.get(extra.name, NUMBERS)) for extra in EXTRAS if extra.name in chosen}
    return Draft(
        target=target,
        params=params,
        args=draw(WORDS) if not function or target.endswith("places") else "",
        processes=draw(st.sampled_from(["1", "4", " 2:4 ", "4:2", "0", "x"])),
        mode=draw(st.sampled_from(list(Mode))),
        gpu=draw(st.sampled_from(["auto", "yes", "no"])),
        spark=draw(st.sampled_from(["", "spark://h:7077", "local[4]", " sc://h:15002/;x=a b "])),
        extras=extras,
    )


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(draft=drafts())
def test_the_command_starts_what_the_form_starts(here: Path, draft: Draft) -> None:
    draft = replace(draft, workdir=here)
    try:
        meant = draft.resolved()
    except Misfit:
        with pytest.raises((SpecError, click.UsageError)):
            said(command_text(draft))
    else:
        assert said(command_text(draft)) == meant


SETTLED = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.sampled_from(["local", "cluster", "connect"]),
        "num_processes": st.sampled_from(["1", "2:8"]),
        "gpu": st.sampled_from(["auto", "yes", "no"]),
        "spark": st.sampled_from(["spark://settled:7077", "sc://settled"]),
        "env": PAIRS,
        "conf": PAIRS,
        "name": st.sampled_from(["settled", ""]),
        "max_restarts": st.sampled_from(["0", "3"]),
        "timeout_s": st.just("9"),
    },
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(draft=drafts(), settled=SETTLED)
def test_the_command_starts_what_the_form_starts_whatever_is_settled(
    here: Path, draft: Draft, settled: dict[str, str]
) -> None:
    draft = replace(draft, workdir=here)
    try:
        meant = draft.resolved()
    except Misfit:
        return
    assert said(command_text(draft, settled), settled) == meant


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(draft=drafts())
def test_what_was_launched_fills_the_form_with_the_same_again(here: Path, draft: Draft) -> None:
    try:
        spec = replace(draft, workdir=here).resolved()
    except Misfit:
        return
    filled = draft_of(spec, here)

    assert filled.resolved() == spec
    assert said(command_text(filled)) == spec
