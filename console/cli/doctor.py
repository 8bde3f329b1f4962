"""`rankdeck doctor`: the checks of a launch, without the launch."""

from __future__ import annotations

from typing import Any

import click

from launcher.errors import SpecError
from launcher.spec.job import LAUNCH_OPTIONS, RUN_MODULE

from ..echo import print_json, print_text, say
from ..sanitize import escaped
from .run import given_options, launch_options, request_from

INTERRUPTED = 130


@click.command()
@click.argument("target", required=False)
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.option("-m", "--module", is_flag=True, help="TARGET is a module, run as python -m runs it.")
@launch_options
@click.option("--no-defaults", is_flag=True, help="Ignore [defaults] of config.toml.")
@click.option("--json", "as_json", is_flag=True, help="An object: ok, exit_code, seconds, and the checks.")
@click.pass_context
def doctor(
    context: click.Context,
    /,
    target: str | None,
    args: tuple[str, ...],
    *,
    module: bool,
    no_defaults: bool,
    as_json: bool,
    **_options: Any,
) -> int:
    """Check whether a launch of TARGET can work: places, hosts, versions, network, GPUs.

    Nothing is run. Without TARGET, only the places are checked. The options are those of `run`; those that
    change neither places nor hosts have no effect. Exit code 0: no check fails; 1: one does; 69: the ranks
    have no place now.
    """
    from launcher.engine.doctor import diagnose

    from ..settings import launch_defaults

    if module and not target:
        raise SpecError("-m names no module", hint="rankdeck doctor -m package.module")
    defaults = {} if no_defaults else launch_defaults()
    given = given_options(context, LAUNCH_OPTIONS)
    wanted: Any = (f"{RUN_MODULE} {target}" if module else target) if target else _no_target()
    request = request_from(wanted, args, given, defaults)
    say("checking …")
    try:
        report = diagnose(request)
    except KeyboardInterrupt:
        say("rankdeck: interrupted; nothing is left running")
        return INTERRUPTED
    if as_json:
        print_json(report.document())
    else:
        for line in report.lines():
            print_text(escaped(line))
        say(escaped(report.summary))
    return report.exit_code


def _no_target() -> Any:
    """What stands for a target where there is none: checks of a target are then left out."""
    from launcher.spec.job import Target, TargetKind

    return Target(TargetKind.SCRIPT, "")
