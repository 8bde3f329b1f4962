"""Options read from a script's source."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.data.options.option import ScriptOption
from console.data.options.reading import parser_in


def found(tmp_path: Path, source: str) -> tuple[ScriptOption, ...]:
    path = tmp_path / "script.py"
    path.write_text("raise SystemExit('imported')\n" + source)
    return parser_in(path, tmp_path).options


@pytest.mark.parametrize(
    ("call", "option"),
    [
        (
            "'--lr', '-l', type=float, default=0.1, help='rate', required=True",
            ScriptOption(("--lr", "-l"), kind="float", default="0.1", help="rate", required=True),
        ),
        ("'--opt', choices=['adam', 'sgd']", ScriptOption(("--opt",), choices=("adam", "sgd"))),
        ("'--size', choices=(1, 2), type=int", ScriptOption(("--size",), kind="int", choices=("1", "2"))),
        ("'--out', type=pathlib.Path, help='a '\n 'b'", ScriptOption(("--out",), kind="Path", help="a b")),
        ("'--log', type=argparse.FileType('w')", ScriptOption(("--log",), kind="Path")),
        ("'--n', type=str, choices=range(COUNT)", ScriptOption(("--n",))),
        ("'data'", ScriptOption(("data",), required=True)),
    ],
)
def test_argparse_is_read(tmp_path: Path, call: str, option: ScriptOption) -> None:
    assert found(tmp_path, f"p.add_argument({call})") == (option,)


@pytest.mark.parametrize(
    ("call", "names", "off"),
    [
        ("'--amp', action='store_true'", ("--amp",), ()),
        ("'--amp', action=argparse.BooleanOptionalAction", ("--amp",), ("--no-amp",)),
        ("'-v', action='count', default=0", ("-v",), ()),
    ],
)
def test_flags_take_no_value(tmp_path: Path, call: str, names: tuple[str, ...], off: tuple[str, ...]) -> None:
    (got,) = found(tmp_path, f"p.add_argument({call})")

    assert (got.flag, got.names, got.off) == (True, names, off)


def test_a_flag_that_switches_another_one_off_is_no_option_of_its_own(tmp_path: Path) -> None:
    source = (
        "p.add_argument('--ema', action='store_true')\n"
        "p.add_argument('--no-ema', action='store_false', dest='ema')\n"
        "p.add_argument('--fast', action='store_true')\n"
        "p.set_defaults(ema=True, fast=True)\n"
    )

    assert found(tmp_path, source) == (
        ScriptOption(("--ema",), default="True", flag=True, off=("--no-ema",)),
        ScriptOption(("--fast",), default="False", flag=True),  # nothing switches it off
    )


def test_what_is_computed_is_left_out(tmp_path: Path) -> None:
    assert found(tmp_path, "for n in NAMES: p.add_argument(f'--{n}')\np.add_argument(NAME, '-x')") == ()


def test_click_is_read(tmp_path: Path) -> None:
    source = (
        "import click\n"
        "@click.command()\n"
        "@click.option('--lr', type=float, default=0.1, help='rate')\n"
        "@click.option('--opt', 'optimiser', type=click.Choice(['adam', 'sgd']))\n"
        "@click.option('--amp/--no-amp')\n"
        "@click.option('-v', is_flag=True)\n"
        "@click.argument('data', type=click.Path())\n"
        "def main(**options): ...\n"
    )

    assert found(tmp_path, source) == (
        ScriptOption(("--lr",), kind="float", default="0.1", help="rate"),
        ScriptOption(("--opt",), choices=("adam", "sgd")),
        ScriptOption(("--amp",), default="False", flag=True, off=("--no-amp",)),
        ScriptOption(("-v",), default="False", flag=True),
        ScriptOption(("data",), kind="Path", required=True),
    )


def test_typer_is_read(tmp_path: Path) -> None:
    source = (
        "import typer\n"
        "def main(data: str, max_steps: int = 3, amp: bool = False, lr: float = typer.Option(0.1)): ...\n"
        "def other(x: int): ...\n"
        "typer.run(main)\n"
    )

    assert found(tmp_path, source) == (
        ScriptOption(("data",), required=True),
        ScriptOption(("--max-steps",), kind="int", default="3"),
        ScriptOption(("--amp",), default="False", flag=True, off=("--no-amp",)),
        ScriptOption(("--lr",), kind="float", default="0.1"),
    )


@pytest.mark.parametrize("source", ["def (:", "x = 1", "p.add_argument()", "p.add_argument(*names, **more)"])
def test_a_script_without_any_has_none(tmp_path: Path, source: str) -> None:
    assert found(tmp_path, source) == ()


def test_a_file_that_is_not_there_has_none(tmp_path: Path) -> None:
    assert parser_in(tmp_path / "gone.py", tmp_path).options == ()
