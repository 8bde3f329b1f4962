"""The program of a worker group, as the agent writes it for its ranks: a JSON line and then a pickle.

A rank imports this before its target. It takes the fields that it needs from the document, as the spec's own
decoder and the option table would take a fifth of a rank's start to import.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .files.working_folder import Layout


CONFIG = "\0config"
"""Stands in arguments for the path of the framework's configuration file, which only the agent knows."""
PYTHON, FOLDER, IMPORTS = "\0python", "\0folder", "\0imports"
"""Stand in a service's settings for the ranks' interpreter, a short folder of the agent's own, and the
folders from which the target's modules are imported, as in PYTHONPATH."""


@dataclass(frozen=True, slots=True)
class Naming:
    """Maps names of an unpacked target's files to the caller's: the folder `here` is a copy of `there`."""

    here: str = ""
    there: str = ""

    def __call__(self, text: str) -> str:
        """The text with the caller's own paths."""
        return text.replace(self.here, self.there) if self.here else text


@dataclass(frozen=True, slots=True)
class Program:
    """What one rank runs.

    Attributes:
        kind, source, name, args, kwargs, pickled: as in `launcher.spec.job.Target`; a program's arguments are
            the rank's own.
        added: what the framework adds to the `sys.argv` of a function.
        is_file: whether `source` is a path rather than a dotted module name.
        payload: the pickle: the callable and its arguments, or the arguments alone; empty without one.
        pickled_by: the version of Python that made the pickle; empty without one.
        cloudpickle: where the interpreter imports the caller's cloudpickle from, to read the pickle: another
            host's, or a foreign interpreter's own, may be older. Empty for its own.
        path: the folders to import from before the interpreter's own.
        foreign: whether the interpreter is another one, and `launcher` lies among packages that may not
            load in it.
        lead: the folder to import from first, if the target is no file; empty for the working directory.
        naming: how tracebacks name the target's files.
        frameworks: the frameworks to watch for, as in `launcher.agent.membership`.
        record_locals: whether values of the variables of a failing frame are recorded.
    """

    kind: str
    source: str
    name: str
    args: list[str]
    added: list[str]
    kwargs: list[tuple[str, str]]
    pickled: bool
    is_file: bool
    payload: bytes
    pickled_by: str
    cloudpickle: str
    path: tuple[str, ...]
    lead: str
    naming: Naming
    foreign: bool
    frameworks: list[tuple[str, list[str], list[str]]]
    record_locals: bool = False


def encode(
    order: Mapping[str, Any],
    payload: bytes,
    layout: Layout | None,
    *,
    cwd: str,
    root: str,
    config: str = "",
) -> bytes:
    """The bytes from which ranks read their program.

    Args:
        order: `program` of the START document.
        payload: the pickle that came before it.
        layout: where the run's files are, if the engine sent them.
        cwd: the ranks' working directory.
        root: the folder or zip that holds `launcher`; a zip holds cloudpickle too, and nothing else.
        config: the path of the framework's configuration file; empty without one.
    """
    argv = {
        rank: [config if word == CONFIG else word for word in args] for rank, args in order["argv"].items()
    }
    document = {**order, "argv": argv}
    from_zip = not os.path.isdir(root)
    if order.get("foreign"):
        document["foreign"] = not from_zip
    if from_zip or order.get("foreign"):
        document["cloudpickle"] = root if from_zip else _folder_of("cloudpickle")
    if layout:
        # the run's sources go before files of the same names on this host, which may be older
        last = [] if layout.source else [cwd]
        document["path"] = [*layout.path, *document["path"], *last]
        document["lead"] = layout.lead
        document["names"] = [layout.copied, ""]
        if layout.source:
            document["target"] = {**document["target"], "source": layout.source}
    return b"%s\n%s" % (json.dumps(document).encode(), payload)


def encode_service(order: Mapping[str, Any], words: Mapping[str, str]) -> bytes:
    """The bytes from which a service reads its order; in texts of its settings, `words` get their meaning."""
    settings = {
        name: words.get(value, value) if isinstance(value, str) else value
        for name, value in order["settings"].items()
    }
    return json.dumps({"module": order["module"], "settings": settings}).encode()


def read_service(descriptor: int) -> dict[str, Any]:
    """A service's order: its `module`, and the `settings` for it."""
    order: dict[str, Any] = json.loads(_whole(descriptor))
    return order


def import_folders(order: Mapping[str, Any], layout: Layout | None, cwd: str) -> tuple[str, ...]:
    """The folders from which ranks import the target's modules: that of the target, and the caller's.

    Args:
        order: `program` of the START document.
        layout: where the run's files are, if the engine sent them.
        cwd: the ranks' working directory.
    """
    source = layout.source if layout and layout.source else order["target"]["source"]
    lead = os.path.dirname(os.path.realpath(source)) if order["is_file"] else (layout and layout.lead) or cwd
    sent = layout.path if layout else ()
    return tuple(dict.fromkeys(filter(None, (lead, *sent, *order["path"]))))


def _folder_of(package: str) -> str:
    """The folder that this process imports a package from; empty if it has none."""
    spec = importlib.util.find_spec(package)
    return os.path.dirname(os.path.dirname(spec.origin)) if spec and spec.origin else ""


def read(descriptor: int, rank: int) -> Program:
    """A rank's program, from the descriptor that all ranks of the group share."""
    head, _, payload = _whole(descriptor).partition(b"\n")
    document = json.loads(head)
    target, own = document["target"], document["argv"].get(str(rank))
    return Program(
        kind=target["kind"],
        source=target["source"],
        name=target["name"],
        args=target["args"] if target["name"] or own is None else own,
        added=own or [],
        kwargs=target["kwargs"],
        pickled=target["pickled"],
        is_file=document["is_file"],
        payload=payload,
        pickled_by=document.get("pickled_by", ""),
        cloudpickle=document.get("cloudpickle", ""),
        path=tuple(document["path"]),
        lead=document.get("lead", ""),
        naming=Naming(*document.get("names", ())),
        foreign=bool(document.get("foreign")),
        frameworks=document.get("frameworks", []),
        record_locals=bool(document.get("record_locals")),
    )


def _whole(descriptor: int) -> bytes:
    """All bytes of a file, read without the offset that the ranks share."""
    size = os.fstat(descriptor).st_size
    data = bytearray()
    while len(data) < size:
        data += os.pread(descriptor, size - len(data), len(data))
    return bytes(data)
