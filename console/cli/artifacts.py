"""The command `artifacts`: list the files that ranks wrote and that came home, or copy them into a folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..echo import print_json, print_text, say
from ..formatting import date, number, table
from ..sanitize import escaped
from .run_lookup import find

if TYPE_CHECKING:
    from launcher.state.artifacts import Artifact


@click.command()
@click.argument("id")
@click.option("--to", "folder", type=click.Path(path_type=Path), metavar="DIR", help="Copy them into DIR.")
@click.option("--json", "as_json", is_flag=True, help="A list of {path, host, rank, size, digest, …}.")
def artifacts(id: str, *, folder: Path | None, as_json: bool) -> int:  # noqa: A002  the name in the usage line
    """List the files that ranks wrote on other hosts and that came home, or copy them into a folder.

    Where hosts have different files of one name, that of the latest attempt keeps it, and of one attempt that
    of the host with the lowest rank. The others lie in rank-N.
    """
    from launcher.runs.artifacts import read_artifacts
    from launcher.state.artifacts import merged

    run = find(id)
    tree = merged(read_artifacts(run))
    if folder is not None:
        return _copy(run, tree, folder)
    if as_json:
        print_json([_document(run, path, each) for path, each in tree.items()])
    elif tree:
        print_text(table(("PATH", "SIZE", "BY", "HOST", "WRITTEN"), [_row(*item) for item in tree.items()]))
    else:
        say(_why_none(run))
    return 0


def _row(path: str, artifact: Artifact) -> tuple[str, ...]:
    from launcher.errors import size_text

    leads_to = f" -> {artifact.link}" if artifact.link else ""
    by = "" if artifact.rank is None else f"rank {artifact.rank}"
    size = "" if artifact.link else size_text(artifact.size)
    return escaped(f"{path}{leads_to}"), size, by, artifact.host, date(artifact.time)


def _document(run: Path, path: str, artifact: Artifact) -> dict[str, Any]:
    from launcher.runs.artifacts import place_of

    return {
        "path": path,
        "host": artifact.host,
        "rank": artifact.rank,
        "size": artifact.size,
        "digest": artifact.digest,
        "link": artifact.link,
        "attempt": artifact.attempt,
        "time": artifact.time,
        "file": None if artifact.link else str(place_of(run, artifact)),
    }


def _why_none(run: Path) -> str:
    """Why no files came home: there is none, or the run worked in the caller's own folder."""
    from launcher.runs.reader import read_spec

    if read_spec(run).mode.traits.inherits:
        return "no files came home: the ranks ran on this machine, and what they wrote is where they wrote it"
    return "no files came home: the ranks wrote none, or worked in a folder that their hosts share with you"


def _copy(run: Path, tree: Mapping[str, Artifact], folder: Path) -> int:
    """Copy the files into a folder that has none of these names."""
    from launcher.errors import SpecError, size_text
    from launcher.runs.artifacts import export_artifacts

    if not tree:
        say(_why_none(run))
        return 0
    taken = [path for path in tree if os.path.lexists(folder / path.lstrip("/"))]
    if taken:
        raise SpecError(f"{folder / taken[0].lstrip('/')} is there already", hint="choose an empty folder")
    size = export_artifacts(run, tree, folder)
    say(f"{number(len(tree), 'file')}, {size_text(size)}, copied to {folder}")
    return 0
