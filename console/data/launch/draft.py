"""A launch as filled in on the form: checked by the launcher, and written as the equivalent command."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from launcher.errors import LauncherError, SpecError
from launcher.frameworks.registry import require_framework
from launcher.spec.job import (
    LAUNCH_OPTIONS,
    RUN_MODULE,
    JobSpec,
    SparkSpec,
    Target,
    TargetKind,
    applies,
    argument_places,
    named_module,
    world_size,
)
from launcher.spec.modes import DEFAULT_MODE, Mode
from launcher.spec.options import Option, pairs, split
from launcher.spec.redaction import REDACTED
from launcher.spec.request import (
    Request,
    config_text,
    require_addresses,
    require_python,
    require_sent_files,
    require_workdir,
)

from .given import overrides_all

MODES: tuple[Mode, ...] = tuple(Mode)
"""The modes that the launch screen offers."""

EXTRAS: tuple[Option, ...] = tuple(each for each in LAUNCH_OPTIONS if not each.row)
"""The options without a row of their own on the launch form, in the order of a command."""

PAIRED = tuple(each.name for each in EXTRAS if each.kind.paired)
"""The extras whose values are pairs of a name and a value."""

SENT, WORKDIR = ("py_files", "files"), "workdir"


class Misfit(SpecError):
    """A field of a draft is invalid.

    `field` is the name of a field of `Draft` or of an option, or ``param:`` and a parameter's name.
    """

    def __init__(self, error: LauncherError, field: str) -> None:
        super().__init__(error.message, hint=error.hint)
        self.field = field


@contextmanager
def errors_in(field: str) -> Iterator[None]:
    """Turn launcher errors raised in the block into errors of a field.

    Raises:
        Misfit: the block raised a launcher error.
    """
    try:
        yield
    except Misfit:
        raise
    except LauncherError as error:
        raise Misfit(error, field) from error


@dataclass(frozen=True, slots=True)
class Draft:
    """A launch as filled in, not checked yet: all values are text as the user typed it.

    `args` is one line, split as a shell would; `gpu` is ``auto``, ``yes`` or ``no``; `processes` is a
    number or ``MIN:MAX``; `spark` is a master or a Connect server, empty for that of the environment;
    `extras` are texts of other options by name, an option left out has its default.
    `secrets` are the values that texts show as stars, by their places in `JobSpec.texts`; None if unknown.
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
    secrets: Mapping[str, str | None] = field(default_factory=dict, repr=False)

    @property
    def source(self) -> str:
        """The file or module."""
        return split_target(self.target)[0]

    @property
    def function(self) -> str:
        """The function's name; empty for a script."""
        return split_target(self.target)[1]

    def without_params(self) -> Draft:
        """The draft without parameters, for a script."""
        return replace(self, params={})

    def resolved(self) -> JobSpec:
        """The job that the draft describes.

        Raises:
            Misfit: a field is missing or invalid.
        """
        if self.secrets:
            return self._revealed().resolved()
        target = self._target()
        with errors_in("processes"):
            least, most = world_size(self.processes)
            spec = JobSpec(target, most, min_processes=least)
        gpu = {"yes": True, "no": False}.get(self.gpu)
        spec = replace(spec, mode=self.mode, gpu=gpu, workdir=str(self.ranks_workdir))
        with errors_in("spark"):
            spec = replace(spec, spark=self._spark())
        for extra, text in fitting(self.extras, self.mode):
            with errors_in(extra.name):
                spec = spec.with_options({extra.name: extra.read_text(text, self.workdir)})
        with errors_in("spark"):
            require_addresses(spec.spark)
        with errors_in(WORKDIR):
            require_workdir(spec)
        for name in SENT:
            with errors_in(name):
                require_sent_files(spec, name)
        with errors_in("python"):
            require_python(Request(spec))
        with errors_in("framework"):
            require_framework(spec)
        with errors_in("deepspeed_config"):
            config_text(spec)
        return spec

    def _revealed(self) -> Draft:
        """The draft with its secrets in place of the stars.

        Raises:
            Misfit: a secret is unknown.
        """
        with errors_in("args"):
            words = split(self.args)
        args = [self._reveal(p, word, "args") for p, word in zip(argument_places(words), words, strict=True)]
        params = {name: self._reveal(f"param {name}", v, f"param:{name}") for name, v in self.params.items()}
        extras = {name: self._revealed_extra(name, text) for name, text in self.extras.items()}
        spark = self._reveal(self.mode.traits.address, self.spark, "spark")
        line = self.args if args == words else shlex.join(args)
        return replace(self, args=line, params=params, extras=extras, spark=spark, secrets={})

    def _revealed_extra(self, name: str, text: str) -> str:
        place = next((each.place for each in EXTRAS if each.name == name), name)
        if REDACTED not in text:
            return text
        if name not in PAIRED:
            return self._reveal(place, text, name)
        with errors_in(name):
            words = [word.partition("=") for word in split(text)]
        return shlex.join(f"{key}{sign}{self._reveal(f'{place} {key}', v, name)}" for key, sign, v in words)

    def _reveal(self, place: str, text: str, field: str) -> str:
        if REDACTED not in text or place not in self.secrets:
            return text
        with errors_in(field):
            if (secret := self.secrets[place]) is None:
                raise SpecError(f"the secret here was not recorded: type it in place of {REDACTED}")
        return secret

    @property
    def ranks_workdir(self) -> Path:
        """The ranks' working directory: the one that is filled in, else the console's."""
        text = self.extras.get(WORKDIR, "")
        return (
            (self.workdir / os.path.expanduser(text)).absolute() if text.strip() else self.workdir.absolute()
        )

    @property
    def base(self) -> Path:
        """The folder in which the target is searched: a file here, a module where ranks will import it."""
        source = named_module(self.target) or self.target.strip().rpartition(":")[0]
        is_module = source and not source.endswith(".py") and "/" not in source
        return self.ranks_workdir if is_module else self.workdir.absolute()

    def _target(self) -> Target:
        from launcher.spec.target import resolve

        name = self.target.strip()
        with errors_in("target"):
            if not name:
                raise SpecError("choose a file or a function to run")
        with errors_in("args"):
            words = split(self.args)
        try:
            return resolve(name, params=dict(self.params), args=words, workdir=self.base)
        except SpecError as error:
            raise Misfit(error, self._invalid_field(words)) from error

    def _invalid_field(self, words: list[str]) -> str:
        """The field for which the target cannot be resolved."""
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
    """The Spark of a mode at an address; an empty address means the environment's Spark."""
    address = mode.traits.address
    fields: dict[str, Any] = {address: url} if address else {}
    return SparkSpec(**fields)


def split_target(target: str) -> tuple[str, str]:
    """A target's file or module, and its function's name."""
    source, _, name = target.strip().rpartition(":")
    return (source, name) if source else (name, "")


def draft_of(spec: JobSpec, here: Path | None = None, private: Mapping[str, str] | None = None) -> Draft:
    """The draft that would launch a recorded run again, in the folder `here` if given, else in the run's.

    Paths below that folder become relative to it. The target's source is read, if it still exists, to write
    the arguments as they are typed. Secrets, which the record lacks, come from `private` and show as stars.
    """
    from launcher.spec.target import typed_arguments

    moved = here is not None and str(here) != spec.workdir
    folder = here if here is not None else Path(spec.workdir or ".")
    args, params = typed_arguments(spec.target, Path(spec.workdir or "."))
    secrets = _secrets_of(spec, private or {})
    extras = extras_of(spec, secrets)
    return Draft(
        target=_relative(spec.target, str(folder)),
        params=params,
        secrets=secrets,
        args=shlex.join(args),
        processes=_processes(spec),
        spark=spec.spark.master or _known_part(spec.spark.remote, secrets),
        extras={WORKDIR: spec.workdir, **extras} if moved and spec.workdir else extras,
        mode=spec.mode,
        gpu="auto" if spec.gpu is None else "yes" if spec.gpu else "no",
        workdir=folder,
    )


def require_editable(spec: JobSpec) -> None:
    """Refuse a run that the form cannot express.

    Raises:
        SpecError: the run's target is a pickle, or it is a prediction.
    """
    if spec.prediction is not None:
        raise SpecError("the form is for trainings, and this is a prediction", hint="rankdeck predict")
    if spec.target.kind is TargetKind.CALLABLE or spec.target.pickled:
        raise SpecError(
            f"{spec.target.label} was started from Python, with a pickle", hint="rankdeck rerun runs it again"
        )


def _processes(spec: JobSpec) -> str:
    least = "" if spec.min_processes is None else f"{spec.min_processes}:"
    return f"{least}{spec.num_processes}"


def _relative(target: Target, workdir: str) -> str:
    source = target.source
    if workdir and os.path.isabs(source) and Path(source).is_relative_to(workdir):
        source = os.path.relpath(source, workdir)
    return replace(target, source=source).label


def _secrets_of(spec: JobSpec, private: Mapping[str, str]) -> dict[str, str | None]:
    """The secrets that the record lacks, as the user would type them; None for an unknown one."""
    from launcher.spec.target import typed_arguments

    full = spec.with_texts(private).target
    args, params = typed_arguments(full, Path(spec.workdir or "."))
    typed = dict(zip(argument_places(spec.target.args), args, strict=True))
    typed |= {f"param {name}": text for name, text in params.items()}
    return {place: typed.get(place, private[place]) if place in private else None for place in spec.withheld}


def _known_part(remote: str, secrets: Mapping[str, str | None]) -> str:
    """A Connect server's address, without the parameters whose values are unknown."""
    if secrets.get("remote") is not None:
        return remote
    return ";".join(part for part in remote.split(";") if not part.endswith(f"={REDACTED}"))


def command_words(draft: Draft, defaults: Mapping[str, str] | None = None) -> list[str]:
    """The command that launches the draft without the console, where the settings have these `defaults`."""
    words = ["rankdeck", "run", *_positional(draft.target), "-n", draft.processes.strip() or "1"]
    if draft.mode is not DEFAULT_MODE:
        words += ["--mode", str(draft.mode)]
    if (address := draft.mode.traits.address) and (url := draft.spark.strip()):
        words += [f"--{address}", url]
    if draft.gpu != "auto":
        words.append("--gpu" if draft.gpu == "yes" else "--no-gpu")
    for name, value in draft.params.items():
        words += ["--param", f"{name}={value}"]
    words += words_of(draft.extras, draft.mode)
    complete = overrides_all(_settings(draft), defaults or {}, draft.mode, draft.workdir)
    return words if complete else [*words, NO_DEFAULTS]


NO_DEFAULTS = "--no-defaults"
"""The option that makes a command ignore the settings' defaults."""


def _settings(draft: Draft) -> dict[str, str]:
    """The texts that the command contains, by the keys of settings."""
    mode = "" if draft.mode is DEFAULT_MODE else str(draft.mode)
    gpu = "" if draft.gpu == "auto" else draft.gpu
    return {
        **draft.extras,
        "num_processes": draft.processes or "1",
        "mode": mode,
        "gpu": gpu,
        "spark": draft.spark,
    }


def _positional(target: str) -> list[str]:
    """The words of the target, of which a command line takes none but that of a module for an option."""
    target = target.strip() or "TARGET"
    if module := named_module(target):
        return [RUN_MODULE, module]
    return [f"./{target}" if target.startswith("-") else target]


def command_text(draft: Draft, defaults: Mapping[str, str] | None = None) -> str:
    """The command that launches the draft, as one line for a shell."""
    line = shlex.join(command_words(draft, defaults))
    try:
        args = shlex.join(shlex.split(draft.args))
    except ValueError:
        args = draft.args
    return f"{line} -- {args}" if args else line


def split_pairs(text: str, option: str = "it") -> dict[str, str]:
    """The ``K=V`` words of a text as a mapping.

    Raises:
        SpecError: a word has no name or no value, or a name is given twice.
    """
    return pairs(split(text), option)


def fitting(extras: Mapping[str, str], mode: Mode) -> Iterator[tuple[Option, str]]:
    """The extras that are filled in and apply in a mode, each with its text."""
    for extra in EXTRAS:
        text = extras.get(extra.name, "")
        if text.strip() and applies(extra, mode):
            yield extra, text


def words_of(extras: Mapping[str, str], mode: Mode) -> list[str]:
    """The extras that apply in a mode as words of a command; a text that cannot be split stays one word."""
    return [word for extra, text in fitting(extras, mode) for word in extra.words(text)]


def extras_of(spec: JobSpec, secrets: Mapping[str, str | None]) -> dict[str, str]:
    """The texts of a recorded run's extras that are not defaults; values hidden by stars only if known."""
    texts = {}
    for extra in EXTRAS:
        value = extra.value(spec)
        if isinstance(value, Mapping):
            value = {k: v for k, v in value.items() if REDACTED not in str(v) or _is_known(extra, k, secrets)}
        if extra.name != WORKDIR and value != extra.default and (text := extra.text(value)):
            texts[extra.name] = text
    return texts


def _is_known(extra: Option, name: str, secrets: Mapping[str, str | None]) -> bool:
    return secrets.get(f"{extra.place} {name}") is not None


def unwritten(spec: JobSpec, private: Mapping[str, str]) -> list[str]:
    """The names of secret values that neither a record nor the `private` values beside it hold."""
    return [
        name
        for extra in EXTRAS
        if extra.name in PAIRED
        for name, value in extra.value(spec).items()
        if REDACTED in value and f"{extra.place} {name}" not in private
    ]
