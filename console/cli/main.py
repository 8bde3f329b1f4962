"""The command line's entry point: the commands, and the mapping of errors to exit codes.

Data goes to stdout, messages to stderr. Only commands that need Textual, torch or pyspark import them;
`launcher` is imported inside commands, so that ``--help`` is quick.
"""

from __future__ import annotations

import copy
import io
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

import launcher

from .. import echo, glyphs
from .run_lookup import ALL, LOGS, find

if TYPE_CHECKING:
    from collections.abc import Sequence


class LazyGroup(click.Group):
    """A group whose `lazy` commands, names with ``module:attribute``, are imported when they are used.

    Before the commands of `after_options` stand options of another command, `options`, which is imported when
    one of them is on the line. So the group itself stays quick, and knows the word from an option's value.
    """

    def __init__(
        self, *args: Any, lazy: Mapping[str, str], options: str, after_options: frozenset[str], **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = lazy
        self._options = options
        self.after_options = after_options

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse what stands before the command.

        Raises:
            click.UsageError: that holds an option which goes after it.
        """
        ctx.meta[_WITH_OPTIONS] = not self.after_options.isdisjoint(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if not any(error.option_name in _spellings(each) for each in self._further()):
                raise
            raise self._misplaced(ctx, error.option_name) from None

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The group's own options, and with a command of `after_options` on the line those before it."""
        own = super().get_params(ctx)
        return [*own, *self._further()] if ctx.meta.get(_WITH_OPTIONS) else own

    def _further(self) -> list[click.Parameter]:
        """The options that stand before some commands, hidden in the group's help."""
        hidden = [copy.copy(each) for each in _imported(self._options).params]
        for each in hidden:
            if isinstance(each, click.Option):
                each.hidden = True
        return list(hidden)

    def _misplaced(self, ctx: click.Context, name: str) -> click.UsageError:
        """The error for an option before the command that goes after it."""
        words = ", ".join(sorted(self.after_options))
        return click.UsageError(
            f"{name} goes after the command, as in: rankdeck run {name} …; before it, it is for {words}", ctx
        )

    def require_command(self, ctx: click.Context) -> None:
        """Refuse options before a command that does not have them there.

        Raises:
            click.UsageError: one is given.
        """
        if not ctx.meta.get(_WITH_OPTIONS) or ctx.invoked_subcommand in self.after_options:
            return
        for each in self._further():
            if each.name and ctx.get_parameter_source(each.name) is ParameterSource.COMMANDLINE:
                raise self._misplaced(ctx, max(each.opts, key=len))

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command's name, sorted; imports nothing."""
        return sorted({*super().list_commands(ctx), *self._lazy})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported if it is lazy; None if there is none."""
        if cmd_name not in self._lazy:
            return super().get_command(ctx, cmd_name)
        return _imported(self._lazy[cmd_name])


def _spellings(option: click.Parameter) -> list[str]:
    return [*option.opts, *option.secondary_opts]


def _imported(place: str) -> click.Command:
    """The command at ``module:attribute``."""
    module, _, attribute = place.partition(":")
    command: click.Command = getattr(import_module(module), attribute)
    return command


_WITH_OPTIONS = "rankdeck.with_options"
_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_LAZY = {
    "run": "console.cli.run:run",
    "predict": "console.cli.predict:predict",
    "doctor": "console.cli.doctor:doctor",
    "ps": "console.cli.history:ps",
    "show": "console.cli.history:show",
    "artifacts": "console.cli.artifacts:artifacts",
    "result": "console.cli.history:result",
    "compare": "console.cli.history:compare",
    "rerun": "console.cli.rerun:rerun",
    "rm": "console.cli.manage:rm",
    "prune": "console.cli.manage:prune",
    "export": "console.cli.manage:export",
    "stacks": "console.cli.manage:stacks",
    "engine": "console.cli.manage:engine",
    "config": "console.cli.config:config",
    "help": "console.cli.manual:help_",
    "serve": "console.web.command:serve",
    "serve-page": "console.web.command:serve_page",
    "torchrun": "console.cli.originals.command:torchrun",
    "deepspeed": "console.cli.originals.command:deepspeed",
    "accelerate": "console.cli.originals.command:accelerate",
    "horovodrun": "console.cli.originals.command:horovodrun",
}
_ORIGINALS = frozenset({"torchrun", "deepspeed", "accelerate", "horovodrun"})
_LOOK = ("theme", "mouse", "ascii")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command and exit with its code. Only this module maps errors to exit codes."""
    echo.open_missing()
    _tolerate_encodings()
    try:
        code = _run(argv)
        echo.flush()
    except echo.OutputLost as lost:
        if not lost.nobody_reads:
            echo.say(f"rankdeck: {lost}")
        code = lost.exit_code
    sys.exit(code)


def _run(argv: Sequence[str] | None) -> int:
    """Run the command and return its exit code."""
    try:
        code = cli.main(args=argv, prog_name="rankdeck", standalone_mode=False)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        return _explain(error)
    except click.Abort:
        return 130
    except launcher.LauncherError as error:
        _complain(str(error))
        return error.exit_code
    except OSError as error:
        _complain(str(error))
        return launcher.LauncherError.exit_code
    return code if isinstance(code, int) else 0


def _explain(error: click.ClickException) -> int:
    """Print click's message, which quotes the command line, and return the exit code."""
    message = io.StringIO()
    error.show(message)
    echo.say(_without_secrets(message.getvalue().removesuffix("\n")))
    if isinstance(error, click.NoSuchOption):
        beside = error.ctx is not None and error.ctx.meta.get(_WITH_OPTIONS)
        words = "another launcher's own options, and its script's, go after its word"
        echo.say(words.capitalize() if beside else "A script's own arguments go after --")
        return 2
    return error.exit_code


def _complain(text: str) -> None:
    echo.say(f"rankdeck: {_without_secrets(text)}")


def _without_secrets(text: str) -> str:
    """Mask the command line's secrets in an error message, which may end in the log of a job."""
    from launcher.spec.redaction import Redactor, named_words

    redactor = Redactor()
    for option, word in named_words(sys.argv):
        redactor.mask(word, option)
    return redactor.mask_known(text)


def _tolerate_encodings() -> None:
    """Print ASCII to a terminal without UTF-8, instead of a traceback."""
    glyphs.register()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=glyphs.ERRORS)


@click.group(
    cls=LazyGroup,
    lazy=_LAZY,
    options="console.cli.originals.command:before",
    after_options=_ORIGINALS,
    invoke_without_command=True,
    context_settings=_CONTEXT,
)
@click.version_option(launcher.__version__, prog_name="rankdeck", message="%(prog)s %(version)s")
@click.option("--theme", help="Colour theme of the console; `rankdeck themes` lists them.")
@click.option("--mouse/--no-mouse", default=None, help="Let the console use the mouse.")
@click.option("--ascii/--no-ascii", default=None, help="Draw the console in ASCII.")
@click.pass_context
def cli(context: click.Context, /, **options: object) -> int | None:
    """Launch distributed trainings and watch every rank. Without a command: the console."""
    assert isinstance(context.command, LazyGroup)
    context.command.require_command(context)
    context.obj = {name: options[name] for name in _LOOK}
    if context.invoked_subcommand is not None:
        return None
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        echo.print_text(context.get_help())
        return 0
    return _console(context.obj)


def _console(options: dict[str, Any], run: Path | None = None) -> int:
    from launcher.runs.paths import runs_root

    try:
        from ..app import run_console
    except ModuleNotFoundError as error:
        raise click.ClickException(f"the console needs {error.name}: pip install textual") from error
    code: int = run_console(root=runs_root(), workdir=Path.cwd(), open_run=run, look=options)
    return code


@cli.command()
@click.argument("id")
@click.option("-r", "--rank", type=int, help="Of this rank only.")
@click.option("--attempt", type=int, metavar="K", help="Of this attempt only; the first one is 0.")
@click.option("-f", "--follow", is_flag=True, help="Follow until the run ends; exit with its code.")
@click.option("--grep", metavar="RE", help="Only lines that match.")
@click.option("--raw", is_flag=True, help="A rank's exact bytes, without prefixes.")
@click.option("--stderr", is_flag=True, help="With --raw: standard error instead of standard output.")
def logs(id: str, **options: Any) -> int:  # noqa: A002
    """Print a run's output, merged in the order of arrival."""
    from . import output

    return output.logs(find(id, LOGS), **options)


@cli.command()
@click.argument("id")
@click.pass_obj
def attach(options: dict[str, Any], id: str) -> int:  # noqa: A002
    """Open a run in the console; without a terminal, follow its output."""
    folder = find(id, ALL)
    if sys.stdin.isatty() and sys.stdout.isatty():
        return _console(options, folder)
    from . import output

    return output.logs(folder, follow=True)


@cli.command()
@click.argument("id")
@click.option("--force", is_flag=True, help="SIGKILL at once, without the grace period.")
def stop(id: str, *, force: bool) -> int:  # noqa: A002
    """Stop a run: SIGTERM, grace period, SIGKILL. Waits until nothing of it is alive."""
    from . import output

    return output.stop(find(id), force=force)


@cli.command()
@click.option("--speed", default=1.0, show_default=True, help="How much faster than real time.")
@click.pass_obj
def demo(options: dict[str, Any], speed: float) -> int:
    """Replay a recorded run of eight ranks in the console."""
    if not sys.stdout.isatty():
        raise click.UsageError("the demo needs a terminal")
    from ..demo import run_demo

    return run_demo(speed=speed, look=options)


@cli.command()
def themes() -> int:
    """List the colour themes."""
    from ..themes import theme_names

    echo.print_text("\n".join(theme_names()))
    return 0


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print a shell's completion script, to be evaluated by its start-up file."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    echo.print_text(kind(cli, {}, "rankdeck", "_RANKDECK_COMPLETE").source())
    return 0
