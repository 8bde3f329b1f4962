"""A launch as filled in: checked by the launcher, and written as the command that does the same."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from launcher.errors import LauncherError, SpecError
from launcher.spec.job import JobSpec, SparkSpec, Target, TargetKind, argument_places, world_size
from launcher.spec.modes import DEFAULT_MODE, SPARK, Mode
from launcher.spec.redaction import REDACTED
from launcher.spec.request import require_py_files, require_workdir

MODES: tuple[Mode, ...] = tuple(Mode)
"""The modes that the launch screen offers."""


class Misfit(SpecError):
    """Something that was filled in cannot be right.

    `field` says where: the name of a field of `Draft`, of an `Extra`, or ``param:`` and a parameter's name.
    """

    def __init__(self, error: LauncherError, field: str) -> None:
        super().__init__(error.message, hint=error.hint)
        self.field = field


@contextmanager
def concerning(field: str) -> Iterator[None]:
    """What goes wrong in here concerns a field.

    Raises:
        Misfit: something did.
    """
    try:
        yield
    except Misfit:
        raise
    except LauncherError as error:
        raise Misfit(error, field) from error


@dataclass(frozen=True, slots=True)
class Draft:
    """A launch as filled in, not checked yet: everything is text as a person typed it.

    `args` is one line, split as a shell would; `gpu` is ``auto``, ``yes`` or ``no``; `processes` is a
    number or ``MIN:MAX``; `spark` is a master or a Connect server, empty for what the environment says;
    `extras` are the other options by the names of `console.data.launch.draft`, those left out have defaults.
    `kept` is what a text shows as stars, by its place as `JobSpec.texts` calls it; None: nobody knows it.
    """

    target: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    args: str = ""
    processes: str = "1"
    mode: Mode = DEFAULT_MODE
    gpu: str = "auto"
    spark: str = ""
    extras: Mapping[str, str] = field(default_factory=dict)
    workdir: Path = field(default_factory=Path.cwd)
    kept: Mapping[str, str | None] = field(default_factory=dict, repr=False)

    @property
    def source(self) -> str:
        """The file or module."""
        return split_target(self.target)[0]

    @property
    def function(self) -> str:
        """The function's name; empty for a script."""
        return split_target(self.target)[1]

    def without_params(self) -> Draft:
        """The same for a script, which has none."""
        return replace(self, params={})

    def resolved(self) -> JobSpec:
        """The spec that this means.

        Raises:
            Misfit: something is missing or does not fit.
        """
        if self.kept:
            return self._revealed().resolved()
        target = self._target()
        with concerning("processes"):
            least, most = world_size(self.processes)
            spec = JobSpec(target, most, min_processes=least)
        gpu = {"yes": True, "no": False}.get(self.gpu)
        spec = replace(spec, mode=self.mode, gpu=gpu, workdir=str(self.ranks_workdir))
        with concerning("spark"):
            spec = replace(spec, spark=self._spark())
        for extra, text in fitting(self.extras, self.mode):
            with concerning(extra.name):
                spec = _with(spec, extra, extra.read(extra, text, self.workdir))
        with concerning(WORKDIR):
            require_workdir(spec)
        with concerning(PY_FILES):
            require_py_files(spec)
        return spec

    def _revealed(self) -> Draft:
        """The same with what is kept in place of the stars.

        Raises:
            Misfit: there are stars in place of what nobody knows.
        """
        with concerning("args"):
            words = split(self.args)
        args = [self._kept(p, word, "args") for p, word in zip(argument_places(words), words, strict=True)]
        params = {name: self._kept(f"param {name}", v, f"param:{name}") for name, v in self.params.items()}
        extras = {name: self._extra(name, text) for name, text in self.extras.items()}
        spark = self._kept(self.mode.traits.address, self.spark, "spark")
        line = self.args if args == words else shlex.join(args)
        return replace(self, args=line, params=params, extras=extras, spark=spark, kept={})

    def _extra(self, name: str, text: str) -> str:
        if REDACTED not in text:
            return text
        if name not in (ENV, CONF):
            return self._kept(name, text, name)
        with concerning(name):
            pairs = [word.partition("=") for word in split(text)]
        return shlex.join(f"{key}{sign}{self._kept(f'{name} {key}', v, name)}" for key, sign, v in pairs)

    def _kept(self, place: str, text: str, field: str) -> str:
        if REDACTED not in text or place not in self.kept:
            return text
        with concerning(field):
            if (known := self.kept[place]) is None:
                raise SpecError(f"the secret here was not written down: type it in place of {REDACTED}")
        return known

    @property
    def ranks_workdir(self) -> Path:
        """The ranks' working directory: the one that is filled in, else the one in which that is done."""
        text = self.extras.get(WORKDIR, "")
        return (
            (self.workdir / os.path.expanduser(text)).absolute() if text.strip() else self.workdir.absolute()
        )

    @property
    def base(self) -> Path:
        """Where the target is looked for: a file from here, a module from where ranks will import it."""
        source = self.target.strip().rpartition(":")[0]
        is_module = source and not source.endswith(".py") and "/" not in source
        return self.ranks_workdir if is_module else self.workdir.absolute()

    def _target(self) -> Target:
        from launcher.spec.target import resolve

        name = self.target.strip()
        with concerning("target"):
            if not name:
                raise SpecError("choose a file or a function to run")
        with concerning("args"):
            words = split(self.args)
        try:
            return resolve(name, params=dict(self.params), args=words, workdir=self.base)
        except SpecError as error:
            raise Misfit(error, self._culprit(words)) from error

    def _culprit(self, words: list[str]) -> str:
        """Which field keeps the target from being run."""
        from launcher.spec.target import misfitting, signature_for

        try:
            signature = signature_for(self.target.strip(), self.base)
        except SpecError:
            return "target"
        name = misfitting(signature, self.params, len(words)) if signature else None
        return f"param:{name}" if name else "args" if words else "target"

    def _spark(self) -> SparkSpec:
        return spark_at(self.mode, self.spark.strip())


def spark_at(mode: Mode, url: str) -> SparkSpec:
    """The Spark of a mode that is at an address; empty for what the environment says."""
    address = mode.traits.address
    fields: dict[str, Any] = {address: url} if address else {}
    return SparkSpec(**fields)


def _with(spec: JobSpec, extra: Extra, value: Any) -> JobSpec:
    if extra.of_spark:
        return replace(spec, spark=replace(spec.spark, **{extra.name: value}))
    return replace(spec, **{extra.name: value})


def split_target(target: str) -> tuple[str, str]:
    """A target's file or module, and its function's name."""
    source, _, name = target.strip().rpartition(":")
    return (source, name) if source else (name, "")


def draft_of(spec: JobSpec, here: Path | None = None, private: Mapping[str, str] | None = None) -> Draft:
    """The draft that would launch a recorded run again, from another folder if `here` says so.

    Paths below that folder become relative to it. The source is read, if it is still there, for how the
    arguments are typed. What the record does not hold is kept, as far as it is `private`, and shown as stars.
    """
    from launcher.spec.target import typed_arguments

    elsewhere = here is not None and str(here) != spec.workdir
    folder = here if here is not None else Path(spec.workdir or ".")
    args, params = typed_arguments(spec.target, Path(spec.workdir or "."))
    kept = _kept_of(spec, private or {})
    extras = extras_of(spec, known=kept)
    return Draft(
        target=_near(spec.target, str(folder)),
        params=params,
        kept=kept,
        args=shlex.join(args),
        processes=_counted(spec),
        spark=spec.spark.master or _known_part(spec.spark.remote, kept),
        extras={WORKDIR: spec.workdir, **extras} if elsewhere and spec.workdir else extras,
        mode=spec.mode,
        gpu="auto" if spec.gpu is None else "yes" if spec.gpu else "no",
        workdir=folder,
    )


def require_editable(spec: JobSpec) -> None:
    """Refuse a run that no form can say.

    Raises:
        SpecError: what it ran is a pickle.
    """
    if spec.target.kind is TargetKind.CALLABLE or spec.target.pickled:
        raise SpecError(
            f"{spec.target.label} was started from Python, with a pickle", hint="rankdeck rerun runs it again"
        )


def _counted(spec: JobSpec) -> str:
    least = "" if spec.min_processes is None else f"{spec.min_processes}:"
    return f"{least}{spec.num_processes}"


def _near(target: Target, workdir: str) -> str:
    source = target.source
    if workdir and os.path.isabs(source) and Path(source).is_relative_to(workdir):
        source = os.path.relpath(source, workdir)
    return f"{source}:{target.name}" if target.kind is TargetKind.FUNCTION else source


def _kept_of(spec: JobSpec, private: Mapping[str, str]) -> dict[str, str | None]:
    """What was not written down, as a person would type it; None where it is not known."""
    from launcher.spec.target import typed_arguments

    full = spec.with_texts(private).target
    args, params = typed_arguments(full, Path(spec.workdir or "."))
    typed = dict(zip(argument_places(spec.target.args), args, strict=True))
    typed |= {f"param {name}": text for name, text in params.items()}
    return {place: typed.get(place, private[place]) if place in private else None for place in spec.withheld}


def _known_part(remote: str, kept: Mapping[str, str | None]) -> str:
    """A Connect server, without the parameters whose values nobody knows any more."""
    if kept.get("remote") is not None:
        return remote
    return ";".join(part for part in remote.split(";") if not part.endswith(f"={REDACTED}"))


def command_words(draft: Draft) -> list[str]:
    """The command that launches the same without the console."""
    words = ["rankdeck", "run", _positional(draft.target), "-n", draft.processes.strip() or "1"]
    if draft.mode is not DEFAULT_MODE:
        words += ["--mode", str(draft.mode)]
    if (address := draft.mode.traits.address) and (url := draft.spark.strip()):
        words += [f"--{address}", url]
    if draft.gpu != "auto":
        words.append("--gpu" if draft.gpu == "yes" else "--no-gpu")
    for name, value in draft.params.items():
        words += ["--param", f"{name}={value}"]
    return words + words_of(draft.extras, draft.mode)


def _positional(target: str) -> str:
    """A target that no command line takes for an option."""
    target = target.strip() or "TARGET"
    return f"./{target}" if target.startswith("-") else target


def command_text(draft: Draft) -> str:
    """The same as one line for a shell."""
    line = shlex.join(command_words(draft))
    try:
        args = shlex.join(shlex.split(draft.args))
    except ValueError:
        args = draft.args
    return f"{line} -- {args}" if args else line


Reader = Callable[["Extra", str, Path], Any]


@dataclass(frozen=True, slots=True)
class Extra:
    """One option.

    Attributes:
        name: the field of the spec, or of its Spark, that it sets.
        flag: the option on a command line.
        label: what a form calls it.
        hint: what stands in its empty field.
        read: text to value.
        spark: it has a meaning with Spark only.
        of_spark: `name` is a field of the spec's `spark`.
        many: it may be given several times; the text is split as a shell would.
    """

    name: str
    flag: str
    label: str
    hint: str
    read: Reader
    spark: bool = False
    of_spark: bool = False
    many: bool = False

    def value(self, spec: JobSpec) -> Any:
        """What a spec has of it."""
        return getattr(spec.spark if self.of_spark else spec, self.name)


def _whole(extra: Extra, text: str, _: Path) -> int:
    try:
        return int(text)
    except ValueError:
        raise SpecError(f"{extra.flag} takes a whole number, not {text!r}") from None


def _number(extra: Extra, text: str, _: Path) -> float:
    try:
        return float(text)
    except ValueError:
        raise SpecError(f"{extra.flag} takes a number of seconds, not {text!r}") from None


def _text(_: Extra, text: str, __: Path) -> str:
    return text


def _pairs(extra: Extra, text: str, _: Path) -> dict[str, str]:
    return split_pairs(text, extra.flag)


def split_pairs(text: str, option: str = "it") -> dict[str, str]:
    """``K=V`` words as a mapping.

    Raises:
        SpecError: one has no name or no value, or a name is given twice.
    """
    found: dict[str, str] = {}
    for word in split(text):
        key, sign, value = word.partition("=")
        if not sign or not key:
            raise SpecError(f"{option} takes NAME=VALUE, not {word!r}")
        if key in found:
            raise SpecError(f"{option} {key} is given twice")
        found[key] = value
    return found


def _paths(_: Extra, text: str, here: Path) -> tuple[str, ...]:
    return tuple(str((here / os.path.expanduser(word)).absolute()) for word in split(text))


def _folder(_: Extra, text: str, here: Path) -> str:
    return str((here / os.path.expanduser(text)).absolute())


def split(text: str) -> list[str]:
    """Words as a shell would see them.

    Raises:
        SpecError: a quotation does not end.
    """
    try:
        return shlex.split(text)
    except ValueError as error:
        raise SpecError(f"{text!r} cannot be split into words: {error}") from error


ENV, CONF, PY_FILES, WORKDIR = "env", "conf", "py_files", "workdir"

EXTRAS: tuple[Extra, ...] = (
    Extra(WORKDIR, "--workdir", "Work folder", "the ranks' own; empty: this one", _folder),
    Extra("name", "--name", "Name", "a label for people", _text),
    Extra("gpus_per_rank", "--gpus-per-rank", "GPUs a rank", "1", _whole),
    Extra("gpus_per_task", "--gpus-per-task", "GPUs a task", "one rank a task", _whole, spark=True),
    Extra("max_restarts", "--max-restarts", "Restarts", "0; after a failure or a loss", _whole),
    Extra("start_timeout_s", "--start-timeout", "Start limit", "600 s to wait for slots", _number),
    Extra("timeout_s", "--timeout", "Time limit", "seconds; none", _number),
    Extra("no_progress_timeout_s", "--no-progress-timeout", "No progress", "seconds; no limit", _number),
    Extra("grace_s", "--grace", "Grace", "10 s from SIGTERM to SIGKILL", _number),
    Extra("sample_s", "--sample-interval", "Sampled each", "1 s", _number),
    Extra("listen", "--listen", "Listen at", "HOST[:PORT[-PORT]]", _text, spark=True, of_spark=True),
    Extra("spool", "--spool", "Spool", "a folder shared with executors", _text, spark=True, of_spark=True),
    Extra(
        "lost_after_s", "--lost-after", "Lost after", "20 s of silence", _number, spark=True, of_spark=True
    ),
    Extra(ENV, "--env", "Environment", "NCCL_DEBUG=WARN NAME='a b'", _pairs, many=True),
    Extra(
        CONF, "--conf", "Spark conf", "spark.executor.memory=2g", _pairs, spark=True, of_spark=True, many=True
    ),
    Extra(PY_FILES, "--py-files", "Sent along", "lib.zip more.py", _paths, spark=True, many=True),
)
"""In the order in which a command names them."""

PATHS = frozenset({WORKDIR, "spool"})
"""Those that are one path."""


def fitting(extras: Mapping[str, str], mode: Mode) -> Iterator[tuple[Extra, str]]:
    """Those that are filled in and have a meaning in a mode."""
    for extra in EXTRAS:
        text = extras.get(extra.name, "")
        if text.strip() and not (extra.spark and SPARK not in mode.traits.takes):
            yield extra, text


def words_of(extras: Mapping[str, str], mode: Mode) -> list[str]:
    """The same as words of a command. What cannot be split stays one word."""
    words = []
    for extra, text in fitting(extras, mode):
        for value in _written(extra, text):
            words += [extra.flag, value]
    return words


def _written(extra: Extra, text: str) -> list[str]:
    if extra.name == WORKDIR:
        return [os.path.expanduser(text)]
    if not extra.many:
        return [text]
    try:
        words = split(text)
    except SpecError:
        return [text]
    # in quotes, as a command's words are, a shell would leave the tilde alone
    return [os.path.expanduser(word) for word in words] if extra.name == PY_FILES else words


def extras_of(spec: JobSpec, known: Mapping[str, str | None]) -> dict[str, str]:
    """What a recorded run has of them that is not the usual; stars stand for values that are `known`."""
    usual, found = JobSpec(spec.target), {}
    for extra in EXTRAS:
        value = extra.value(spec)
        if (
            extra.name != WORKDIR
            and value != extra.value(usual)
            and (text := _filled_in(extra, value, known))
        ):
            found[extra.name] = text
    return found


def _filled_in(extra: Extra, value: Any, known: Mapping[str, str | None]) -> str:
    if isinstance(value, Mapping):
        names = [
            k for k, v in value.items() if REDACTED not in v or known.get(f"{extra.name} {k}") is not None
        ]
        return shlex.join(f"{k}={value[k]}" for k in names)
    if extra.many:
        return shlex.join(value)
    return str(value).removesuffix(".0")


def unwritten(spec: JobSpec, private: Mapping[str, str]) -> list[str]:
    """The names of what neither a record nor what was kept beside it holds."""
    pairs = [("env", *pair) for pair in spec.env.items()] + [
        ("conf", *pair) for pair in spec.spark.conf.items()
    ]
    return [name for kind, name, value in pairs if REDACTED in value and f"{kind} {name}" not in private]
