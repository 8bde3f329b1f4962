"""The command line: options to requests, errors to exit codes. stdout is data, stderr is narration.

Only this and `headless` print. Textual, torch and pyspark are imported by no command that can do without
them; `launcher` is imported inside commands, so that ``--help`` is quick.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import launcher

if TYPE_CHECKING:
    from collections.abc import Sequence

    from launcher.request import Request

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command and exit with its code: the only place that maps errors to codes."""
    _tolerate_encodings()
    try:
        code = cli.main(args=argv, prog_name="rankdeck", standalone_mode=False)
    except click.exceptions.Exit as error:
        code = error.exit_code
    except click.NoSuchOption as error:
        error.show()
        click.echo("A script's own arguments go after --", err=True)
        code = 2
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except click.Abort:
        code = 130
    except launcher.LauncherError as error:
        _complain(str(error))
        code = error.exit_code
    except OSError as error:
        _complain(str(error))
        code = launcher.LauncherError.exit_code
    sys.exit(code if isinstance(code, int) else 0)


def _complain(text: str) -> None:
    from console.printing import say

    say(f"rankdeck: {text}")


def _tolerate_encodings() -> None:
    """A terminal that knows no UTF-8 gets question marks, not a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


@click.group(invoke_without_command=True, context_settings=_CONTEXT)
@click.version_option(launcher.__version__, prog_name="rankdeck", message="%(prog)s %(version)s")
@click.option("--theme", help="Colour theme of the console; `rankdeck themes` lists them.")
@click.option("--mouse/--no-mouse", default=True, help="Let the console use the mouse.")
@click.pass_context
def cli(context: click.Context, theme: str | None, *, mouse: bool) -> int | None:
    """Launch distributed trainings and watch every rank. Without a command: the console."""
    context.obj = {"theme": theme, "mouse": mouse}
    if context.invoked_subcommand is not None:
        return None
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        click.echo(context.get_help())
        return 0
    return _console(context.obj)


def _console(options: dict[str, Any], run: Path | None = None) -> int:
    from launcher.runs.paths import runs_root

    try:
        from console.app import run_console
    except ModuleNotFoundError as error:
        raise click.ClickException(f"the console needs {error.name}: pip install textual") from error
    code: int = run_console(root=runs_root(), workdir=Path.cwd(), open_run=run, **options)
    return code


@cli.command()
@click.argument("target")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.option("-n", "--num-processes", default=1, show_default=True, help="World size.")
@click.option(
    "--mode", type=click.Choice(["local", "cluster", "connect"]), default="local", show_default=True
)
@click.option(
    "--gpu/--no-gpu", default=None, help="Demand or hide GPUs; by default they are used if there are enough."
)
@click.option(
    "--param", multiple=True, metavar="K=V", help="Keyword argument of a function, a Python literal."
)
@click.option("--env", multiple=True, metavar="K=V", help="Addition to the ranks' environment.")
@click.option("--workdir", type=click.Path(path_type=Path), help="The ranks' working directory.")
@click.option("--name", default="", help="A label for people.")
@click.option("--timeout", type=float, metavar="S", help="Stop the run after so many seconds (exit 124).")
@click.option(
    "--grace", type=float, default=10.0, show_default=True, metavar="S", help="From SIGTERM to SIGKILL."
)
@click.option("--sample-interval", type=float, default=1.0, show_default=True, metavar="S")
@click.option("--detach", is_flag=True, help="Start it, print its id, and leave it running.")
@click.option("--dry-run", is_flag=True, help="Print the plan and start nothing.")
@click.option("--output", type=click.Choice(["text", "jsonl"]), default="text", show_default=True)
@click.option(
    "--ranks", default="all", show_default=True, metavar="all|none|0,3-5", help="Whose output to print."
)
def run(target: str, args: tuple[str, ...], **options: Any) -> int:
    """Run TARGET on every rank: train.py, train.py:function or package.module:function.

    A script's own ARGS go after --.
    """
    from console import headless

    request = _request(target, args, options)
    if options["dry_run"]:
        return headless.print_plan(request)
    if options["detach"]:
        return headless.detach(request, output=options["output"], ranks=options["ranks"])
    return headless.run(request, output=options["output"], ranks=options["ranks"])


def _request(target: str, args: Sequence[str], options: dict[str, Any]) -> Request:
    from launcher.request import Request
    from launcher.spec import JobSpec, Mode
    from launcher.target import resolve

    workdir = (options["workdir"] or Path.cwd()).absolute()
    params = _pairs(options["param"], "--param")
    spec = JobSpec(
        target=resolve(target, params=params, args=args, workdir=_base(target, workdir)),
        num_processes=options["num_processes"],
        mode=Mode(options["mode"]),
        gpu=options["gpu"],
        name=options["name"],
        workdir=str(workdir),
        env=_pairs(options["env"], "--env"),
        grace_s=options["grace"],
        timeout_s=options["timeout"],
        sample_s=options["sample_interval"],
    )
    return Request(spec)


def _base(target: str, workdir: Path) -> Path:
    """Where a target is looked for: a file from here, a module from where the ranks will import it."""
    source = target.rpartition(":")[0]
    return workdir if source and not source.endswith(".py") and "/" not in source else Path.cwd()


def _pairs(items: Sequence[str], option: str) -> dict[str, str]:
    pairs = {}
    for item in items:
        key, sign, value = item.partition("=")
        if not sign or not key:
            raise launcher.SpecError(f"{option} takes NAME=VALUE, not {item!r}")
        if key in pairs:
            raise launcher.SpecError(f"{option} {key} is given twice")
        pairs[key] = value
    return pairs


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="A list of objects, newest first.")
def ps(*, as_json: bool) -> int:
    """List runs, newest first."""
    from console import listing

    return listing.ps(as_json=as_json)


@cli.command()
@click.argument("id")
@click.option("--json", "as_json", is_flag=True)
def show(id: str, *, as_json: bool) -> int:  # noqa: A002  the contract's own word
    """Show a run: what was asked, how it stands, every rank."""
    from console import listing

    return listing.show(_find(id), as_json=as_json)


@cli.command()
@click.argument("id")
@click.option("-r", "--rank", type=int, help="Of this rank only.")
@click.option("-f", "--follow", is_flag=True, help="Until the run ends; exits with its code.")
@click.option("--grep", metavar="RE", help="Only lines that match.")
@click.option("--raw", is_flag=True, help="A rank's exact bytes, without prefixes.")
@click.option("--stderr", is_flag=True, help="With --raw: standard error instead of standard output.")
def logs(id: str, **options: Any) -> int:  # noqa: A002
    """Print a run's output, merged in the order of arrival."""
    from console import headless

    return headless.logs(_find(id), **options)


@cli.command()
@click.argument("id")
@click.pass_obj
def attach(options: dict[str, Any], id: str) -> int:  # noqa: A002
    """Open a run in the console; without a terminal, follow its output."""
    folder = _find(id)
    if sys.stdin.isatty() and sys.stdout.isatty():
        return _console(options, folder)
    from console import headless

    return headless.logs(folder, follow=True)


@cli.command()
@click.argument("id")
@click.option("--force", is_flag=True, help="SIGKILL at once, without the grace period.")
def stop(id: str, *, force: bool) -> int:  # noqa: A002
    """Stop a run: SIGTERM, grace period, SIGKILL. Waits until nothing of it is alive."""
    from console import headless

    return headless.stop(_find(id), force=force)


@cli.command()
@click.argument("id")
@click.option("-r", "--rank", type=int, default=0, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="{rank, type, value}")
def result(id: str, rank: int, *, as_json: bool) -> int:  # noqa: A002
    """Print a rank's return value, from the run's summary; nothing is unpickled."""
    from console import listing

    return listing.result(_find(id), rank, as_json=as_json)


@cli.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID…")
def rm(ids: tuple[str, ...]) -> int:
    """Delete runs that have ended."""
    from launcher.runs.catalog import remove_run, require_ended

    folders = dict.fromkeys(_find(i) for i in ids)
    for folder in folders:
        require_ended(folder)
    for folder in folders:
        remove_run(folder)
        click.echo(folder.name)
    return 0


@cli.command()
@click.option("--speed", default=1.0, show_default=True, help="How much faster than life.")
@click.pass_obj
def demo(options: dict[str, Any], speed: float) -> int:
    """Replay a recorded run of eight ranks in the console."""
    if not sys.stdout.isatty():
        raise click.UsageError("the demo needs a terminal")
    from console.demo import run_demo

    return run_demo(speed=speed, **options)


@cli.command()
def themes() -> int:
    """List the colour themes."""
    from console.theming import theme_names

    click.echo("\n".join(theme_names()))
    return 0


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print a shell's completion script, to be evaluated by its start-up file."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "rankdeck", "_RANKDECK_COMPLETE").source())
    return 0


def _find(wanted: str) -> Path:
    from launcher.runs.catalog import find_run
    from launcher.runs.paths import runs_root

    return find_run(runs_root(), wanted)
