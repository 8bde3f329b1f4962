"""Named launches, stored as ``presets/NAME.toml`` in the config folder. Everything here may block."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from launcher.errors import RecordError, SpecError
from launcher.settings import config_file
from launcher.spec.job import argument_places
from launcher.spec.modes import DEFAULT_MODE, Mode
from launcher.spec.options import split
from launcher.spec.redaction import REDACTED, Redactor, looks_secret, named_words, redacted_text

from .draft import EXTRAS, PAIRED, Draft

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,47}")
_SUFFIX = ".toml"
_TEXTS = ("target", "args", "processes", "mode", "gpu", "spark")
_TABLES = ("params", "extras")
_GPU = ("auto", "yes", "no")
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Preset:
    """A stored launch; or, for a file that cannot be read, `problem` and no draft."""

    name: str
    draft: Draft | None
    problem: str = ""


def presets_folder() -> Path:
    """The folder of the presets."""
    return config_file().parent / "presets"


def list_presets(folder: Path, workdir: Path) -> list[Preset]:
    """All presets by name, to be launched in `workdir`; those that cannot be read have a problem."""
    try:
        names = sorted(n for n in os.listdir(folder) if n.endswith(_SUFFIX) and not n.startswith("."))
    except OSError:
        return []
    return [_read(folder / name, workdir) for name in names]


def _read(file: Path, workdir: Path) -> Preset:
    try:
        with open(file, "rb") as opened:
            data = tomllib.loads(opened.read(_MOST_BYTES).decode())
        return Preset(file.stem, _draft(data, workdir))
    except (OSError, ValueError, RecursionError) as error:
        return Preset(file.stem, None, str(error))


def _draft(data: Mapping[str, Any], workdir: Path) -> Draft:
    """The draft of a preset's file.

    Raises:
        ValueError: a key or a value is invalid.
    """
    known = {e.name for e in EXTRAS}
    for key, value in data.items():
        if key not in (*_TEXTS, *_TABLES):
            raise ValueError(f"`{key}` is no field of a launch")
        texts = [value] if key in _TEXTS else [*value.values()] if isinstance(value, dict) else [None]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError(f"`{key}` must be {'text' if key in _TEXTS else 'a table of texts'}")
    if unknown := data.get("extras", {}).keys() - known:
        raise ValueError(f"`extras` has no {min(unknown)}")
    if data.get("gpu", "auto") not in _GPU:
        raise ValueError(f"`gpu` must be one of {', '.join(_GPU)}")
    return _with_unknown_secrets(
        Draft(**{**data, "mode": Mode(data.get("mode", DEFAULT_MODE)), "workdir": workdir})
    )


def check_name(name: str) -> str:
    """The name without surrounding spaces.

    Raises:
        SpecError: the name is not a valid preset name.
    """
    name = name.strip()
    if not _NAME.fullmatch(name):
        raise SpecError(
            "a preset's name is letters, digits, spaces, dots and dashes, at most 48", hint="such as smoke-2"
        )
    return name


def save_preset(folder: Path, name: str, draft: Draft) -> list[str]:
    """Store a launch, replacing a preset of that name; return the names whose secret values were left out.

    Raises:
        SpecError: the name is invalid, or a text of the launch is not valid Unicode.
        RecordError: the file cannot be written.
    """
    name = check_name(name)
    stored, withheld = without_secrets(draft)
    try:
        data = "".join(_lines(stored)).encode()
    except UnicodeError:
        raise SpecError("a name in it is no valid Unicode, which a preset's file must be") from None
    file, new = folder / f"{name}{_SUFFIX}", folder / f".{name}.{os.getpid()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as opened:
            opened.write(data)
        os.replace(new, file)
    except OSError as error:
        with contextlib.suppress(OSError):  # report the first error
            new.unlink(missing_ok=True)
        raise RecordError(f"{file} cannot be written: {error.strerror}") from error
    return withheld


def remove_preset(folder: Path, name: str) -> None:
    """Remove a preset, if it exists.

    Raises:
        RecordError: the file cannot be removed.
    """
    if "/" in name:
        raise RecordError(f"{name} is no preset's name")
    try:
        (folder / f"{name}{_SUFFIX}").unlink(missing_ok=True)
    except OSError as error:
        raise RecordError(f"the preset {name} cannot be removed: {error.strerror}") from error


def without_secrets(draft: Draft) -> tuple[Draft, list[str]]:
    """The draft without values whose names look secret, and those names."""
    extras, withheld = dict(draft.extras), list[str]()
    for option in PAIRED:
        words = _words(extras.get(option, ""))
        secret = [w.partition("=")[0] for w in words if _is_secret(*w.partition("=")[::2])]
        withheld += secret
        if secret:
            extras[option] = shlex.join(w for w in words if w.partition("=")[0] not in secret)
    server, *parameters = draft.spark.split(";")
    hidden = [p for p in parameters if looks_secret(p.partition("=")[0])]
    withheld += [p.partition("=")[0] for p in hidden]
    spark = ";".join([server, *(p for p in parameters if p not in hidden)])
    args, options = _without_secret_words(draft.args)
    params = {name: text for name, text in draft.params.items() if not _is_secret(name, text)}
    withheld += [*options, *(name for name in draft.params if name not in params)]
    return replace(draft, extras=extras, spark=redacted_text(spark), args=args, params=params), withheld


def _is_secret(name: str, value: str) -> bool:
    return REDACTED in value or Redactor().mask(value, name) != value


def _without_secret_words(line: str) -> tuple[str, list[str]]:
    """Arguments with stars in place of secret words, and the options that those words belong to."""
    try:
        words = split(line)
    except SpecError:  # an open quotation: the line cannot be split into options
        return redacted_text(line), []
    named = list(zip(words, argument_places(words), named_words(words), strict=True))
    masked = [Redactor().mask(word, option) for word, _, (option, _) in named]
    pairs = zip(named, masked, strict=True)
    hidden = [place.removeprefix("args ") for (word, place, _), shown in pairs if shown != word]
    return (shlex.join(masked), hidden) if hidden else (line, [])


def _with_unknown_secrets(draft: Draft) -> Draft:
    """Mark the stars in a stored draft's arguments as unknown secrets: the user must replace them."""
    if REDACTED not in draft.args:
        return draft
    try:
        words = _words(draft.args)
    except SpecError as error:
        raise ValueError(str(error)) from error
    places = [place for place, word in zip(argument_places(words), words, strict=True) if REDACTED in word]
    return replace(draft, secrets=dict.fromkeys(places))


def _words(text: str) -> list[str]:
    """Split a text into words.

    Raises:
        SpecError: it cannot be split, and so cannot be searched for secrets; it must not be stored.
    """
    try:
        return split(text)
    except SpecError as error:
        raise SpecError(f"the environment or a setting is not finished: {error.message}") from error


def _lines(draft: Draft) -> Iterator[str]:
    for name in _TEXTS:
        yield f"{name} = {_quoted(str(getattr(draft, name)))}\n"
    for table in _TABLES:
        yield f"\n[{table}]\n"
        for key, value in getattr(draft, table).items():
            if value:
                yield f"{_quoted(key)} = {_quoted(value)}\n"


def _quoted(text: str) -> str:
    """Text as a TOML string: escaped as in JSON, and DEL too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
