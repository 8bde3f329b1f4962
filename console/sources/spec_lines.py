"""What a recorded run would start, in a few lines: for who is asked whether to start it again. Pure but for
the target's source, which says how its arguments are typed.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from console.sources.drafts import Draft, draft_of
from console.sources.extras import words_of
from console.sources.homes import tilde
from launcher.spec import JobSpec, Mode

_LONGEST = 300


def spec_lines(spec: JobSpec) -> tuple[tuple[str, str], ...]:
    """What each line is about, and what is said of it."""
    return tuple((about, _shortened(text)) for about, text in _lines(spec, draft_of(spec)) if text)


def _lines(spec: JobSpec, draft: Draft) -> Iterator[tuple[str, str]]:
    yield "target", f"{draft.target or spec.target.label} {draft.args}".strip()
    yield "parameters", shlex.join(f"{name}={value}" for name, value in draft.params.items())
    least = "" if spec.min_processes is None else f"{spec.min_processes} to "
    yield "ranks", f"{least}{spec.num_processes}"
    yield "GPUs", _gpus(spec)
    where = draft.spark or "as the environment says"
    yield "mode", str(spec.mode) if spec.mode is Mode.LOCAL else f"{spec.mode}: {where}"
    yield "folder", tilde(spec.workdir)
    yield "options", shlex.join(words_of(draft.extras, draft.mode))


def _gpus(spec: JobSpec) -> str:
    if spec.gpu is False:
        return "none"
    each = f"{spec.gpus_per_rank} for each rank"
    return each if spec.gpu else f"{each}, if there are enough"


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
