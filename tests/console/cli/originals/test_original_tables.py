"""The tables of other launchers' options are those that the launchers have, as they are installed."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Any

import pytest
import torch.distributed.run
from torch.distributed.argparse_util import check_env, env

from console.cli.originals import accelerate, deepspeed, horovodrun, torchrun
from console.cli.originals.base import Original
from console.cli.originals.torchrun import _WITHOUT_VARIABLE
from tests import framework_envs
from tests.commands import rankdeck
from tests.console.cli.originals.lines import DUMP, asked, misfits

ORIGINALS = [each.ORIGINAL for each in (torchrun, deepspeed, accelerate, horovodrun)]


def of(action: Any) -> dict[str, Any]:
    return {
        "names": action.option_strings,
        "nargs": action.nargs,
        "choices": action.choices and list(action.choices),
        "type": getattr(action.type, "__name__", "str"),
    }


def test_torchruns_table_has_each_option_of_torchrun() -> None:
    actions = [a for a in torch.distributed.run.get_args_parser()._actions if a.option_strings]

    assert [] == misfits(torchrun.ROWS, map(of, actions))
    assert len(torchrun.ROWS) == len(actions)
    without = {a.option_strings[0] for a in actions if not isinstance(a, (env, check_env))}
    assert {*_WITHOUT_VARIABLE, "-h"} == without


@pytest.mark.frameworks
@pytest.mark.process
@pytest.mark.parametrize(
    ("original", "environment", "program"),
    [
        (
            deepspeed.ORIGINAL,
            "torch-family",
            "from deepspeed.launcher import runner\nrunner.parse_args([])",
        ),
        (horovodrun.ORIGINAL, "horovod", "from horovod.runner import launch\nlaunch.parse_args()"),
    ],
    ids=["deepspeed", "horovodrun"],
)
def test_a_table_has_each_option_of_its_launcher(original: Original, environment: str, program: str) -> None:
    options = asked(framework_envs.made(environment), DUMP + program)

    assert len(options) > 20
    assert [] == misfits(original.rows, options)


@pytest.mark.frameworks
@pytest.mark.process
def test_accelerates_table_has_each_option_of_accelerate_launch() -> None:
    program = "from accelerate.commands.launch import launch_command_parser as p\np().parse_args([])"
    options = asked(framework_envs.made("torch-family"), DUMP + program)

    assert len(options) > 100
    names = [next(name for name in option["names"] if name.startswith("--")) for option in options]
    unknown = [name for name in names if accelerate.row_of(name) is None]
    assert [] == unknown
    patterns = [name for row in accelerate.ROWS for name in row.spellings]
    known = {name for option in options for name in option["names"]}
    assert [] == [each for each in patterns if not any(fnmatchcase(name, each) for name in known)]


@pytest.mark.parametrize("original", ORIGINALS, ids=lambda each: each.name)
def test_each_option_has_an_effect_or_a_reason(original: Original) -> None:
    for row in original.rows:
        assert 1 == sum(map(bool, (row.does, row.without, row.refused))), row.names
        assert not row.does or re.fullmatch(r"[A-Z0-9].*[.]", row.does), row.names
        assert not (row.without + row.refused).endswith("."), row.names


@pytest.mark.process
@pytest.mark.parametrize("original", ORIGINALS, ids=lambda each: each.name)
def test_its_help_says_what_becomes_of_each_option(original: Original) -> None:
    done = rankdeck(original.name, "--help")

    assert (0, "") == (done.returncode, done.stderr)
    for row in original.rows:
        assert row.spellings[0] in done.stdout
    assert done.stdout == rankdeck("help", original.name).stdout == rankdeck(original.name, "-h").stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
