"""The options of a launch that a form folds away: how each is written, read and filled in again. Pure."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.errors import SpecError
from launcher.redaction import REDACTED
from launcher.spec import JobSpec, Mode

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
        if text.strip() and not (extra.spark and mode is Mode.LOCAL):
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
