"""The cell magic ``%%ranks``: the launch options' names are those of `rankdeck run`.

%%ranks -n 4 --timeout 600
loss = train(model, batches)
loss
"""

from __future__ import annotations

import argparse
import ast
import functools
import keyword
import os
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from typing import Any, NoReturn

from ..agent.cell import Cell
from ..display.output import Output
from ..distributor import Distributor, attend
from ..errors import LauncherError, SpecError
from ..job import Job
from ..spec.job import LAUNCH_OPTIONS, SparkSpec, applies, without_effect
from ..spec.modes import DEFAULT_MODE, Mode, implied_mode
from ..spec.options import FLAG, SWITCH, Option, split
from .capture import capture

_DOC = """Run the cell on every rank, show the run, and return the value of its last expression on rank 0.

Each rank is a fresh process. It gets the notebook's variables that the cell reads, as far as they can be
pickled, and imports the notebook's modules that it uses. What the cell sets stays in the ranks.

"""
_OPTIONS = tuple(each for each in LAUNCH_OPTIONS if each.flag and each.path[0] != "target")


def magic_of(shell: Any) -> Callable[[str, str], Any]:
    """The magic for one notebook."""

    def ranks(line: str, cell: str) -> Any:
        return _run(shell, line, cell)

    ranks.__doc__ = _DOC + _parser().format_help()
    return ranks


def _run(shell: Any, line: str, text: str) -> Any:
    """Run a cell.

    Raises:
        LauncherError: it was not run, or it failed; IPython shows it without our own frames.
    """
    try:
        given = vars(_parser().parse_args(split(line)))
        job = Distributor(**_launch_options(given)).start(_cell(shell, text))
        if not given["o"]:
            return attend(job, Output(given["output"]), Job.result)
        shell.user_ns[given["o"]] = values = attend(job, Output(given["output"]), Job.results)
        return values[0]
    except LauncherError as error:
        # IPython's protocol for exceptions: what is shown instead of a traceback
        shown = f"{type(error).__name__}: {error}"
        vars(error)["_render_traceback_"] = functools.partial(str.splitlines, shown)
        raise error from None


def _cell(shell: Any, text: str) -> Cell:
    """The cell as a function for ranks.

    Raises:
        SpecError: it is no Python, or has no code.
    """
    name = f"In[{len(shell.history_manager.input_hist_parsed) - 1}]"
    source = f"\n{text}"  # so that its lines have the numbers that they have below the magic's own line
    try:
        code = ast.parse(source, name).body
    except SyntaxError as error:
        if _is_python(shell.transform_cell(text)):
            raise SpecError("ranks run plain Python: lines with % or ! only work in the notebook") from None
        where = "".join(traceback.format_exception_only(error)).rstrip()
        raise SpecError(f"the cell is no Python\n{where}") from None
    if not code:
        raise SpecError("the cell has no code for the ranks to run")
    captured = capture(source, shell.user_ns, shell.user_ns_hidden)
    notebook = PurePath(os.environ.get("JPY_SESSION_NAME", "")).name or "notebook"
    return Cell(source, name, notebook, values=captured.values, modules=captured.modules, left=captured.left)


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SpecError(message)


@functools.cache
def _parser() -> _Parser:
    """The parser of the magic's line, made from the table of launch options."""
    parser = _Parser(prog="%%ranks", add_help=False, allow_abbrev=False)
    for option in _OPTIONS:
        yes, _, no = option.flag.partition("/")
        text = (option.help or option.doc).replace("%", "%%")
        if option.kind in (SWITCH, FLAG):
            parser.add_argument(yes, dest=option.name, action="store_true", default=None, help=text)
            if no:
                parser.add_argument(no, dest=option.name, action="store_false", default=None)
        else:
            flags = [flag for flag in (option.short, option.flag) if flag]
            metavar = option.metavar or None
            parser.add_argument(*flags, dest=option.name, action="append", metavar=metavar, help=text)
    parser.add_argument(
        "--output", choices=list(Output), default=Output.AUTO, help="What to show of the run."
    )
    parser.add_argument(
        "-o", metavar="NAME", type=_variable, help="The variable that gets every rank's value."
    )
    return parser


def _variable(text: str) -> str:
    if not text.isidentifier() or keyword.iskeyword(text):
        raise argparse.ArgumentTypeError(f"{text!r} cannot be the name of a variable")
    return text


def _launch_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of `Distributor` that the magic's line stands for.

    Raises:
        SpecError: a value is not allowed, or an option has no effect in the mode.
    """
    options = [option for option in _OPTIONS if given[option.name] is not None]
    values = {option.name: _value(option, given[option.name]) for option in options}
    mode = Mode(values.pop("mode", None) or implied_mode(values) or DEFAULT_MODE)
    for option in options:
        if not applies(option, mode):
            raise without_effect(option, mode)
    if "num_processes" in values:
        values["min_processes"], values["num_processes"] = values["num_processes"]
    spark = {o.path[1]: values.pop(o.name) for o in options if o.path[0] == "spark"}
    return {**values, "mode": mode, **({"spark": SparkSpec(**spark)} if spark else {})}


def _value(option: Option, given: Any) -> Any:
    return given if option.kind in (SWITCH, FLAG) else option.read(given, Path.cwd())
