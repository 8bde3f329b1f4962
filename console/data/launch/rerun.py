"""Running a recorded run again: its request, its missing secrets, and lines that describe what would run."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from launcher.errors import SpecError
from launcher.runs import files, paths
from launcher.runs.catalog import read_private
from launcher.runs.reader import read_spec
from launcher.spec.job import LAUNCH_OPTIONS, JobSpec, TargetKind, applies
from launcher.spec.modes import ADDRESSES
from launcher.spec.options import Option, options_of, texts_in
from launcher.spec.redaction import REDACTED, hides, redacted_text
from launcher.spec.request import Request

from ...formatting import number, tilde
from ...sanitize import escaped
from .draft import Draft, draft_of, words_of
from .given import mode_of, require_effect

_MOST_PICKLE = 4 << 30
Ask = Callable[[str], str | None]


def request_again(
    folder: Path,
    given: Mapping[str, Any] | None = None,
    args: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    ask: Ask | None = None,
    agree: Callable[[JobSpec], None] | None = None,
    root: Path | None = None,
) -> Request:
    """The request that would run a recorded run again.

    Records do not contain secrets. Those of an own run come from the private file that its launch wrote, else
    from the environment; those of a run from elsewhere only from `given`, `args` and `ask`.

    Args:
        folder: the run's folder.
        given: the launch options to change, as values by their names.
        args: other arguments, if any.
        environ: the environment variables in which missing secrets are looked up; ours by default.
        ask: asks the user for a missing secret; called with the option that it belongs to.
        agree: called with the job of a run from elsewhere before anything else is done with it; raises any
            error to refuse it.
        root: the folder of our own runs, if not the usual one.

    Raises:
        SpecError: the run cannot be run again: a secret or the target is missing, or an option does not fit.
        RecordError: the folder holds no readable run.
    """
    own = is_own(folder, root)
    private = read_private(folder) if own else {}
    job = changed(_as_typed(filled(read_spec(folder), private)), given or {}, args)
    if agree is not None and not own:
        agree(job)
    variables = (os.environ if environ is None else environ) if own else {}
    spec = _checked(restored(job, variables, folder.name, ask))
    pickled = spec.target.kind is TargetKind.CALLABLE or spec.target.pickled
    if spec.prediction is not None and not spec.prediction.input:
        raise SpecError(f"run {folder.name} predicted a DataFrame", hint="start it from Python again")
    if spec.prediction is not None and not pickled:
        from launcher.inference.predicting import named_request

        return named_request(spec)
    path = (*_import_root(spec), spec.workdir) if pickled else ()
    return Request(spec, payload=_payload(folder) if pickled else None, path=path)


def is_own(folder: Path, root: Path | None = None) -> bool:
    """Whether a run was launched here: its folder is in the folder of our runs, and not by a link."""
    if not paths.is_run_id(folder.name) or folder.is_symlink():
        return False
    return folder.parent.resolve() == (root or paths.runs_root()).resolve()


def filled(spec: JobSpec, private: Mapping[str, str]) -> JobSpec:
    """A spec with those of its withheld values that `private` contains."""
    values = {place: private[place] for place in spec.withheld if place in private}
    missing = tuple(place for place in spec.withheld if place not in private)
    return replace(spec.with_texts(values), withheld=missing)


def changed(spec: JobSpec, given: Mapping[str, Any], args: Sequence[str]) -> JobSpec:
    """A spec with some of its values replaced; the pairs of environment, conf and parameters are merged.

    Raises:
        SpecError: a value does not fit the others.
    """
    mode = mode_of(given, fallback=spec.mode)
    require_effect(given, mode)
    dropped = {each.name: each.default for each in options_of(JobSpec) if not applies(each, mode)}
    # the address of another mode does not apply
    dropped |= {name: "" for name in ADDRESSES if name != mode.traits.address}
    values = {
        each.name: _merged(each, spec, given[each.name]) for each in LAUNCH_OPTIONS if each.name in given
    }
    other = spec.with_options({**dropped, **values, "mode": mode})
    return _with_arguments(other, given.get("param", {}), args)


def _merged(option: Option, spec: JobSpec, value: Any) -> Any:
    return {**dict(option.value(spec)), **value} if option.kind.paired else value


def _with_arguments(spec: JobSpec, params: Mapping[str, str], args: Sequence[str]) -> JobSpec:
    target = spec.target
    if not (params or args):
        return spec
    if target.kind is TargetKind.CALLABLE or target.pickled:
        raise SpecError(f"the arguments of {target.label} are a pickle: they cannot be changed")
    kwargs = {**dict(target.kwargs), **params}
    return replace(
        spec, target=replace(target, kwargs=tuple(kwargs.items()), args=tuple(args) or target.args)
    )


def restored(spec: JobSpec, environ: Mapping[str, str], run: str, ask: Ask | None = None) -> JobSpec:
    """A spec with its missing secrets, from the environment, else from `ask`.

    Raises:
        SpecError: secrets are missing; the message names all of them.
    """
    values: dict[str, str] = {}
    missing: dict[str, str] = {}
    for place in missing_places(spec):
        masked = spec.texts[place]
        value = _from_environment(place, masked, environ)
        if value is None and ask is not None:
            answer = ask(option_of(place))
            value = None if answer is None else masked.replace(REDACTED, answer)
        if value is None:
            missing[place] = option_of(place)
        else:
            values[place] = value
    if missing:
        raise SpecError(
            f"run {run} had secrets that were not recorded: give "
            f"{', '.join(dict.fromkeys(missing.values()))}",
            hint="those of the environment may also be set here",
        )
    return replace(spec.with_texts(values), withheld=())


def missing_places(spec: JobSpec) -> list[str]:
    """The places, as in `JobSpec.texts`, of a spec's missing secrets.

    Older records mask secrets without listing their places, so masked values are recognised too.
    """
    pickled = spec.target.kind is TargetKind.CALLABLE or spec.target.pickled
    places = [
        place
        for place, text in spec.texts.items()
        if REDACTED in text and (place in spec.withheld or _looks_masked(place, text))
    ]
    # a pickle still contains its target and arguments, even if the record masks them
    return [p for p in places if not (pickled and p.startswith(("args ", "param ", "source", "function")))]


def _looks_masked(place: str, text: str) -> bool:
    kind, _, name = place.partition(" ")
    if kind in ("env", "conf"):
        return text == REDACTED and hides(name, text)
    return kind == "remote" and f"={REDACTED}" in text


def _from_environment(place: str, masked: str, environ: Mapping[str, str]) -> str | None:
    """A place's value in the environment: the variable, or a server whose masked address is the same."""
    kind, _, name = place.partition(" ")
    if kind == "env":
        return environ.get(name)
    remote = environ.get("SPARK_REMOTE", "")
    return remote if kind == "remote" and redacted_text(remote) == masked else None


def option_of(place: str) -> str:
    """The option or argument by which the user gives a place's value."""
    kind, _, name = place.partition(" ")
    if kind == "args":
        return "its arguments again, after --"
    option = next((each for each in LAUNCH_OPTIONS if each.place == kind), None)
    if option is None:
        return "its target again, to rankdeck run"
    if option.kind.paired:
        return f"{option.flag_name} {name}=…"
    return f"{option.flag_name} {option.metavar or '…'}"


def _as_typed(spec: JobSpec) -> JobSpec:
    """The spec with its arguments as the user types them, so that typed ones can be merged in."""
    from launcher.spec.target import typed_arguments

    if spec.target.pickled:
        return spec
    args, kwargs = typed_arguments(spec.target, Path(spec.workdir))
    return replace(spec, target=replace(spec.target, args=args, kwargs=tuple(kwargs.items())))


def _checked(spec: JobSpec) -> JobSpec:
    """The spec with its target resolved again.

    Raises:
        SpecError: the target no longer exists, or takes other arguments now.
    """
    from launcher.spec.target import resolve, resolve_loader

    target = spec.target
    if target.kind is TargetKind.CALLABLE or target.pickled:
        return spec
    if spec.prediction is not None:
        params = dict(target.kwargs)
        return replace(spec, target=resolve_loader(target.label, params=params, workdir=Path(spec.workdir)))
    now = resolve(target.label, params=dict(target.kwargs), args=target.args, workdir=Path(spec.workdir))
    return replace(spec, target=now)


def _payload(folder: Path) -> bytes:
    try:
        return files.read_whole(folder, folder / paths.TARGET, _MOST_PICKLE)
    except OSError as error:
        raise SpecError(
            f"run {folder.name} has no pickle of what it ran: {error.strerror}", hint="start it from Python"
        ) from error


def _import_root(spec: JobSpec) -> tuple[str, ...]:
    """The folder from which the target's own module is imported."""
    if not spec.target.is_file:
        return ()
    folder = Path(spec.target.source).parent
    while (folder / "__init__.py").exists() and folder != folder.parent:
        folder = folder.parent
    return (str(folder),)


FOREIGN = "This run was not launched here. Run its code?"
_MOST = 400


def what_would_run(spec: JobSpec) -> list[str]:
    """A line for each value that decides what would run; control characters in it are shown as escapes."""
    spec = spec.redacted()
    pickled = spec.target.kind is TargetKind.CALLABLE or spec.target.pickled
    python = spec.mode.traits.python or sys.executable
    rows = [
        ("target", shlex.join([*spec.target.words, *spec.target.args])),
        ("with", " ".join(f"{name}={value}" for name, value in spec.target.kwargs)),
        ("pickle", "code and data of whoever made it, which every rank runs as you" if pickled else ""),
        ("ranks", f"{spec.num_processes}, {spec.mode}"),
        *((each.place, _option_text(each, spec)) for each in options_of(JobSpec)),
        ("python", "" if spec.python else python),
    ]
    return [f"{name:<8} {_short(escaped(text))}" for name, text in rows if text]


def _option_text(option: Option, spec: JobSpec) -> str:
    """An option's values, or pairs of names and values; empty if it has no texts."""
    value = option.value(spec)
    return " ".join(option.kind.write(option, value)) if texts_in(option, value) else ""


def _short(text: str) -> str:
    return text if len(text) <= _MOST else f"{text[:_MOST]}… ({number(len(text) - _MOST, 'more character')})"


_LONGEST = 300


def spec_lines(spec: JobSpec) -> tuple[tuple[str, str], ...]:
    """A description of a recorded run's request, as pairs of a label and a text."""
    return tuple((label, _shortened(text)) for label, text in _lines(spec, draft_of(spec)) if text)


def _lines(spec: JobSpec, draft: Draft) -> Iterator[tuple[str, str]]:
    yield "target", f"{draft.target or spec.target.label} {draft.args}".strip()
    yield "parameters", shlex.join(f"{name}={value}" for name, value in draft.params.items())
    least = "" if spec.min_processes is None else f"{spec.min_processes} to "
    yield "ranks", f"{least}{spec.num_processes}"
    yield "GPUs", _gpus(spec)
    where = draft.spark or "as the environment says"
    yield "mode", f"{spec.mode}: {where}" if spec.mode.traits.address else str(spec.mode)
    yield "folder", tilde(spec.workdir)
    yield "options", shlex.join(words_of(draft.extras, draft.mode))


def _gpus(spec: JobSpec) -> str:
    if spec.gpu is False:
        return "none"
    shared = spec.ranks_per_gpu > 1
    each = f"1 for {spec.ranks_per_gpu} ranks" if shared else f"{spec.gpus_per_rank} for each rank"
    return each if spec.gpu else f"{each}, if there are enough"


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
