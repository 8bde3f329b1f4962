"""The options of `rankdeck run`, and the request that they make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

import launcher

if TYPE_CHECKING:
    from launcher.request import Request

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "-n",
        "--num-processes",
        default="1",
        show_default=True,
        metavar="N|MIN:MAX",
        help="World size; with MIN:MAX, as many as there is room for.",
    ),
    click.option(
        "--mode",
        type=click.Choice(["local", "cluster", "connect"]),
        help="Where: by default local, or what --master and --remote say.",
    ),
    click.option(
        "--gpu/--no-gpu",
        default=None,
        help="Demand or hide GPUs; by default they are used if there are enough.",
    ),
    click.option("--gpus-per-rank", default=1, show_default=True, metavar="K", help="GPUs of each rank."),
    click.option(
        "--gpus-per-task", type=int, metavar="K", help="GPUs of one Spark task, whose ranks share it."
    ),
    click.option("--master", default="", metavar="URL", help="Spark master, such as spark://host:7077."),
    click.option("--remote", default="", metavar="URL", help="Spark Connect server: sc://host:15002."),
    click.option("--conf", multiple=True, metavar="K=V", help="A setting of Spark's own."),
    click.option(
        "--listen", default="", metavar="HOST[:PORT[-PORT]]", help="Where executors find this machine."
    ),
    click.option(
        "--spool",
        default="",
        metavar="DIR",
        help="Shared folder for output, where executors cannot reach this machine.",
    ),
    click.option(
        "--lost-after",
        default=20.0,
        show_default=True,
        metavar="S",
        help="Silence after which an executor's host counts as lost.",
    ),
    click.option(
        "--py-files", multiple=True, metavar="PATH", help="Python files, folders or zips to send along."
    ),
    click.option(
        "--max-restarts", default=0, show_default=True, metavar="N", help="Start a failed gang again."
    ),
    click.option(
        "--start-timeout", default=600.0, show_default=True, metavar="S", help="How long to wait for slots."
    ),
    click.option(
        "--param", multiple=True, metavar="K=V", help="Keyword argument of a function, a Python literal."
    ),
    click.option("--env", multiple=True, metavar="K=V", help="Addition to the ranks' environment."),
    click.option("--workdir", type=click.Path(path_type=Path), help="The ranks' working directory."),
    click.option("--name", default="", help="A label for people."),
    click.option("--timeout", type=float, metavar="S", help="Stop the run after so many seconds (exit 124)."),
    click.option(
        "--no-progress-timeout",
        type=float,
        metavar="S",
        help="Stop it when no rank has written, reported or returned anything for so long (exit 125).",
    ),
    click.option(
        "--grace", type=float, default=10.0, show_default=True, metavar="S", help="From SIGTERM to SIGKILL."
    ),
    click.option("--sample-interval", type=float, default=1.0, show_default=True, metavar="S"),
)


def launch_options(command: F) -> F:
    """Add what describes a launch to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def request_from(target: str, args: Sequence[str], options: dict[str, Any]) -> Request:
    """The request that a target, its arguments and `launch_options` mean.

    Raises:
        SpecError: they mean nothing that could be launched.
    """
    from launcher.request import Request, require_py_files, require_workdir
    from launcher.spec import JobSpec, Mode, world_size
    from launcher.target import resolve

    mode = Mode(options["mode"] or _implied(options))
    _check_elsewhere(mode, options)
    workdir = (options["workdir"] or Path.cwd()).absolute()
    params = pairs(options["param"], "--param")
    least, most = world_size(options["num_processes"])
    spec = JobSpec(
        target=resolve(target, params=params, args=args, workdir=_base(target, workdir)),
        num_processes=most,
        min_processes=least,
        mode=mode,
        gpu=options["gpu"],
        gpus_per_rank=options["gpus_per_rank"],
        gpus_per_task=options["gpus_per_task"],
        name=options["name"],
        workdir=str(workdir),
        env=pairs(options["env"], "--env"),
        grace_s=options["grace"],
        timeout_s=options["timeout"],
        no_progress_timeout_s=options["no_progress_timeout"],
        sample_s=options["sample_interval"],
        max_restarts=options["max_restarts"],
        start_timeout_s=options["start_timeout"],
        py_files=tuple(str(Path(path).absolute()) for path in options["py_files"]),
        spark=_spark(options),
    )
    require_workdir(spec)
    require_py_files(spec)
    return Request(spec)


def _spark(options: dict[str, Any]) -> Any:
    from launcher.spec import SparkSpec

    return SparkSpec(
        master=options["master"],
        remote=options["remote"],
        conf=pairs(options["conf"], "--conf"),
        listen=options["listen"],
        spool=options["spool"],
        lost_after_s=options["lost_after"],
    )


def _implied(options: dict[str, Any]) -> str:
    return "connect" if options["remote"] else "cluster" if options["master"] else "local"


def _check_elsewhere(mode: str, options: dict[str, Any]) -> None:
    """An option that would have no effect is a mistake to be told."""
    if mode == "local":
        for name in ("master", "remote", "conf", "listen", "spool", "py_files", "gpus_per_task"):
            if options[name]:
                option = "--" + name.replace("_", "-")
                raise launcher.SpecError(
                    f"{option} is for Spark, and the mode is local", hint="add --mode cluster or connect"
                )
    if mode == "cluster" and options["remote"]:
        raise launcher.SpecError("--remote names a Connect server", hint="use --mode connect")
    if mode == "connect" and options["master"]:
        raise launcher.SpecError("--master names a cluster", hint="use --mode cluster, or --remote")


def pairs(items: Sequence[str], option: str) -> dict[str, str]:
    """``K=V`` options as a mapping.

    Raises:
        SpecError: one has no name or no value, or a name is given twice.
    """
    found = {}
    for item in items:
        key, sign, value = item.partition("=")
        if not sign or not key:
            raise launcher.SpecError(f"{option} takes NAME=VALUE, not {item!r}")
        if key in found:
            raise launcher.SpecError(f"{option} {key} is given twice")
        found[key] = value
    return found


def _base(target: str, workdir: Path) -> Path:
    """Where a target is looked for: a file from here, a module from where the ranks will import it."""
    source = target.rpartition(":")[0]
    return workdir if source and not source.endswith(".py") and "/" not in source else Path.cwd()
