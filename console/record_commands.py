"""Commands about runs' folders: delete some, keep the rest in bounds, take one elsewhere."""

from __future__ import annotations

from pathlib import Path

import click

from console.echo import say, tell
from console.finding import ALL, find, find_stored
from console.sources.cleaning import escaped


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID…")
@click.option("--dry-run", is_flag=True, help="Only say which.")
def rm(ids: tuple[str, ...], *, dry_run: bool) -> int:
    """Delete runs that have ended."""
    from launcher.runs.catalog import remove_run, require_ended

    folders = dict.fromkeys(find_stored(i) for i in ids)
    for folder in folders:
        require_ended(folder)
    for folder in folders:
        if not dry_run:
            remove_run(folder)
        tell(folder.name)
    return 0


@click.command()
@click.option("--keep", type=click.IntRange(min=0), metavar="N", help="How many runs stay, the newest.")
@click.option("--older-than", metavar="AGE", help="Those that ended longer ago go: 12h, 30d, 8w.")
@click.option("--max-bytes", metavar="SIZE", help="How much room all may take: 500M, 10G.")
@click.option("--dry-run", is_flag=True, help="Only say which.")
def prune(*, keep: int | None, older_than: str | None, max_bytes: str | None, dry_run: bool) -> int:
    """Delete old runs that have ended: beyond the limits given here, else those of config.toml.

    Without either, the newest 10,000 stay. A run that goes on is never deleted.
    """
    from dataclasses import replace

    from console.amounts import bytes_of, seconds_of
    from launcher import settings
    from launcher.runs import retention
    from launcher.runs.paths import runs_root

    policy = settings.load().retention
    if keep is not None:
        policy = replace(policy, count=keep)
    if older_than is not None:
        policy = replace(policy, age_s=seconds_of(older_than))
    if max_bytes is not None:
        policy = replace(policy, bytes=bytes_of(max_bytes))
    for gone in retention.prune(runs_root(), policy, dry_run=dry_run):
        tell(gone)
    return 0


@click.command()
@click.argument("id")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default=Path(), help="The file, or a folder for it."
)
@click.option("--results", is_flag=True, help="With the pickles of values and callables.")
@click.option("--no-logs", is_flag=True, help="Without what ranks wrote.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def export(id: str, *, output: Path, results: bool, no_logs: bool, force: bool) -> int:  # noqa: A002
    """Make one .zip of a run: its folder, and a report.html for any browser.

    Wherever an ID is asked for, such a file is taken too.
    """
    from console import exporting

    folder = find(id, ALL)
    out = exporting.export(folder, output, results=results, logs=not no_logs, force=force)
    tell(escaped(str(out)))
    if withheld := exporting.left_out(folder, results=results):
        say(withheld)
    return 0
