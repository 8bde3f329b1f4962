"""A launch as filled in: checked by the launcher, and written as the command that does the same."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from launcher.errors import SpecError
from launcher.spec import JobSpec, Mode, Target, TargetKind

MODES: tuple[Mode, ...] = (Mode.LOCAL,)
"""The modes that the launch screen offers."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A launch as filled in, not checked yet: everything is text as a person typed it.

    `args` is one line, split as a shell would; `gpu` is ``auto``, ``yes`` or ``no``.
    """

    target: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    args: str = ""
    processes: str = "1"
    mode: Mode = Mode.LOCAL
    gpu: str = "auto"
    workdir: Path = field(default_factory=Path.cwd)

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
            SpecError: something is missing or does not fit.
        """
        from launcher.target import resolve

        if not self.target.strip():
            raise SpecError("choose a file or a function to run")
        target = resolve(
            self.target.strip(), params=dict(self.params), args=self._words(), workdir=self.workdir
        )
        return JobSpec(
            target=target,
            num_processes=self._count(),
            mode=self.mode,
            gpu={"yes": True, "no": False}.get(self.gpu),
            workdir=str(self.workdir.absolute()),
        )

    def _words(self) -> list[str]:
        try:
            return shlex.split(self.args)
        except ValueError as error:
            raise SpecError(f"the arguments cannot be split: {error}") from error

    def _count(self) -> int:
        try:
            return int(self.processes)
        except ValueError:
            raise SpecError(
                f"the number of processes must be a whole number, not {self.processes!r}"
            ) from None


def split_target(target: str) -> tuple[str, str]:
    """A target's file or module, and its function's name."""
    source, _, name = target.strip().rpartition(":")
    return (source, name) if source else (name, "")


def draft_of(spec: JobSpec) -> Draft:
    """The draft that would launch a recorded run again; paths below its folder become relative."""
    target = spec.target
    return Draft(
        target=_near(target, spec.workdir),
        params=dict(target.kwargs),
        args=shlex.join(target.args),
        processes=str(spec.num_processes),
        mode=spec.mode,
        gpu="auto" if spec.gpu is None else "yes" if spec.gpu else "no",
        workdir=Path(spec.workdir or "."),
    )


def _near(target: Target, workdir: str) -> str:
    source = target.source
    if workdir and os.path.isabs(source) and Path(source).is_relative_to(workdir):
        source = os.path.relpath(source, workdir)
    return f"{source}:{target.name}" if target.kind is TargetKind.FUNCTION else source


def command_words(draft: Draft) -> list[str]:
    """The command that launches the same without the console."""
    words = ["rankdeck", "run", draft.target.strip() or "TARGET", "-n", draft.processes.strip() or "1"]
    if draft.mode is not Mode.LOCAL:
        words += ["--mode", str(draft.mode)]
    if draft.gpu != "auto":
        words.append("--gpu" if draft.gpu == "yes" else "--no-gpu")
    for name, value in draft.params.items():
        words += ["--param", f"{name}={value}"]
    return words


def command_text(draft: Draft) -> str:
    """The same as one line for a shell."""
    line = shlex.join(command_words(draft))
    try:
        args = shlex.join(shlex.split(draft.args))
    except ValueError:
        args = draft.args
    return f"{line} -- {args}" if args else line
