"""What differs between a draft and the last run of its target: options, arguments, sizes, the file itself.

Values are compared as they are typed; one that is left out counts as its default, as far as the source tells.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from launcher.errors import LauncherError
from launcher.runs.reader import read_spec
from launcher.runs.status import Status
from launcher.spec.job import named_module
from launcher.spec.redaction import REDACTED

from ...formatting import ago, tilde
from ..options.arguments import read_line
from ..options.guessed import guessed
from ..options.option import ScriptOption
from ..options.reading import parser_of, source_file
from .draft import EXTRAS, WORKDIR, Draft, draft_of, require_editable, split_target
from .targets import functions_of

_LOOKED_AT = 1000
_TRIED = 5
_UNSET = ""
_SWITCHED = {"True": "yes", "False": "no"}


@dataclass(frozen=True, slots=True)
class Change:
    """A value of the last run, and that of the draft; empty if it has none."""

    name: str
    before: str
    now: str


@dataclass(frozen=True, slots=True)
class SinceLast:
    """The last run of a target, and what has changed since."""

    run: Status
    changes: tuple[Change, ...] = ()


def since_last(draft: Draft, runs: Iterable[Status], root: Path, now: float) -> SinceLast | None:
    """Compare a draft with the first of these runs that has its target and can be read; None without one.

    Blocks, and looks at a limited number of them.
    """
    wanted = _canonical(draft.target, draft.base)
    if not wanted:
        return None
    newest = islice(runs, _LOOKED_AT)
    alike = (run for run in newest if _canonical(run.target, draft.workdir) == wanted)
    for run in islice(alike, _TRIED):
        if (found := _compared(draft, run, root, now)) is not None:
            return found
    return None


def _canonical(target: str, base: Path) -> str:
    """A target by which others are recognised as the same: with the whole path of a file."""
    source, name = split_target(target)
    if not source or "\0" in source or named_module(target):
        return named_module(target) or ""
    if source.endswith(".py") or "/" in source:
        source = os.path.normpath(os.path.join(base, os.path.expanduser(source)))
    return f"{source}:{name}"


def _compared(draft: Draft, run: Status, root: Path, now: float) -> SinceLast | None:
    try:
        spec = read_spec(root / run.id)
        require_editable(spec)
        last = draft_of(spec, draft.workdir)
    except LauncherError:
        return None
    changes = [*_edited(draft, run, now), *differences(last, draft)]
    return SinceLast(run, tuple(changes))


def _edited(draft: Draft, run: Status, now: float) -> Iterator[Change]:
    """Whether the target's file was changed after the run had started."""
    path = source_file(draft.source, draft.base)
    try:
        changed = path.stat().st_mtime if path else None
    except OSError:
        return
    if path is not None and changed is not None and run.started is not None and changed > run.started:
        yield Change(path.name, "", f"edited {ago(changed, now)}")


def differences(last: Draft, draft: Draft) -> Iterator[Change]:
    """The values that differ, in the order of the form."""
    options = () if draft.function else parser_of(draft.source, draft.base, draft.args).options
    defaults = {o.names[0]: _UNSET if o.flag else o.default or _UNSET for o in options}
    yield from _each(arguments_of(last.args, options), arguments_of(draft.args, options), defaults)
    signature = next((f for f in functions_of(draft.target, draft.base) if f.name == draft.function), None)
    defaults = {p.name: p.default or _UNSET for p in signature.parameters} if signature else {}
    yield from _each(last.params, draft.params, defaults)
    fields = ("processes", "mode", "spark", "gpu")
    labels = {"processes": "processes", "mode": "mode", "spark": "Spark", "gpu": "GPUs"}
    before, after = ({labels[f]: str(getattr(side, f)).strip() for f in fields} for side in (last, draft))
    yield from _each(before, after, {"processes": "1"})
    names = {extra.name: extra.flag_name for extra in EXTRAS}
    last_extras, extras = (
        {names.get(n, n): text.strip() for n, text in side.extras.items() if text.strip()}
        for side in (last, draft)
    )
    for side, texts in ((last, last_extras), (draft, extras)):
        texts[names[WORKDIR]] = tilde(side.ranks_workdir)
    yield from _each(last_extras, extras, {})


def _each(last: Mapping[str, str], now: Mapping[str, str], defaults: Mapping[str, str]) -> Iterator[Change]:
    for name in dict.fromkeys([*last, *now]):
        default = defaults.get(name, _UNSET)
        before, after = last.get(name, default), now.get(name, default)
        if REDACTED in before and before != after:
            yield Change(name, "a secret", "not compared")
        elif not _same(before, after):
            yield Change(name, before, after)


def _same(one: str, other: str) -> bool:
    """Whether two texts mean the same value: ``1e-3`` and ``0.001`` do, and so do ``'a'`` and ``a``."""
    if one == other or _bare(one) == _bare(other):
        return True
    try:
        return float(one) == float(other)
    except ValueError:
        return False


def _bare(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def arguments_of(line: str, options: Sequence[ScriptOption]) -> dict[str, str]:
    """A script's arguments by the names of its options; other options as they are named, the rest together.

    A line that cannot be split is one value.
    """
    read = read_line(options, line)
    if read is None:
        return {"arguments": line}
    values = {option: read.value(option) for option in options}
    given = {
        option.names[0]: _SWITCHED.get(value, value) if option.switch else value
        for option, value in values.items()
        if value is not None
    }
    others: dict[str, list[str]] = {}
    for each in guessed([read.words[number].text for number in sorted(read.rest)]):
        others.setdefault(each.name or "arguments", []).extend(each.values or ["yes"])
    return given | {name: " ".join(values) for name, values in others.items()}
