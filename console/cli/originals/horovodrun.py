"""horovodrun's command line: tuning options become Horovod's variables, and how hosts are reached falls away.

The options are those of horovod.runner.launch 0.28, and so are the keys of its configuration file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from launcher.errors import SpecError, counted
from launcher.spec.job import TargetKind
from launcher.state.outcome_rules import listed

from .base import (
    HELP,
    LOGS,
    RANKS,
    STARTING,
    Here,
    Original,
    ParsedLine,
    Row,
    Translation,
    is_here,
    notes_on,
    parse,
    quoted,
    several_machines,
    shortened,
    text_of,
    without_secrets,
)
from .horovod_variables import KNOBS, environ_of

_WHO = "horovodrun"
_MPI = "ranks meet through Horovod's gloo controller here; operations on GPUs use NCCL where it is built in"
_ELASTIC = (
    "elastic training is not served: the world keeps its size. rankdeck's --max-restarts starts it again"
)
_ITSELF = "that is about Horovod's installation. Run horovodrun itself for it"
READ_YAML = """
import json, sys
try:
    import yaml
    with open(sys.argv[1]) as file:
        found = {"config": yaml.safe_load(file)}
except ImportError:
    found = {"error": "the ranks' interpreter has no PyYAML to read it with"}
except Exception as error:
    found = {"error": " ".join(str(error).split()) or type(error).__name__}
print(json.dumps(found, default=str))
"""
"""Prints the configuration in a file, or why it cannot be read."""


ROWS = (
    HELP,
    Row("-v --version", words=0, refused=_ITSELF),
    Row("-np --num-proc", "The number of ranks, our -n.", kind=int, option=RANKS),
    Row("-cb --check-build", words=0, refused=_ITSELF),
    Row("--disable-cache", words=0, without=STARTING),
    Row("--start-timeout", "Our --start-timeout.", kind=int, option="start_timeout_s"),
    Row(
        "--network-interfaces",
        "Sets HOROVOD_GLOO_IFACE to the first, and NCCL_SOCKET_IFNAME to all.",
        many=True,
        dest="nics",
    ),
    Row("--network-interface", "As --network-interfaces.", many=True, dest="nics"),
    Row("--output-filename", without=LOGS),
    Row("--verbose", words=0, without="horovodrun itself does not run"),
    Row("--config-file", "Its values count where the line has none."),
    Row("-p --ssh-port", kind=int, without=STARTING),
    Row("-i --ssh-identity-file", without=STARTING),
    *(row for knob in KNOBS for row in knob.rows),
    Row("--min-np --min-num-proc", kind=int, refused=_ELASTIC),
    Row("--max-np --max-num-proc", kind=int, refused=_ELASTIC),
    Row("--slots-per-host", kind=int, refused=_ELASTIC),
    Row("--elastic-timeout", kind=int, refused=_ELASTIC),
    Row("--reset-limit", kind=int, refused=_ELASTIC),
    Row("--blacklist-cooldown-range", kind=int, words=2, refused=_ELASTIC),
    Row("--host-discovery-script", refused=_ELASTIC),
    Row("--mpi-args", without=_MPI),
    Row("--tcp", "Sets NCCL_IB_DISABLE=1.", words=0),
    Row("--binding-args", without=_MPI),
    Row(
        "-prefix-timestamp --prefix-output-with-timestamp",
        words=0,
        without="the console shows the time of each line",
        excludes="log_with_timestamp",
    ),
    Row("-H --hosts", "This machine; on Spark it has no meaning.", excludes="hosts"),
    Row("-hostfile --hostfile", "As --hosts.", excludes="hosts"),
    Row("--gloo", "What a run does anyway.", words=0, excludes="controller"),
    Row("--mpi", words=0, without=_MPI, excludes="controller"),
    Row("--jsrun", words=0, without=_MPI, excludes="controller"),
)


def translate(words: Sequence[str], here: Here) -> Translation:
    """What a line means here.

    Raises:
        SpecError: the line is wrong, or is meant for several machines and there is no Spark cluster.
        HelpWanted: it asks for help.
    """
    line = parse(_WHO, ROWS, words, script="")
    count = line.get("num_proc")
    if count is None and RANKS not in here.ours:
        raise SpecError(f"{_WHO} needs the number of ranks", hint="-np N")
    config = _config(line, here)
    note = _require_hosts(line, count, here)
    made = _command(line.args, here)
    options: dict[str, Any] = {**made.options, "framework": "horovod"}
    if count is not None:
        options[RANKS] = (None, count)
    if (limit := _start_limit(line, here)) is not None:
        options["start_timeout_s"] = limit
    made = replace(made, options=options, environ=environ_of(line, config))
    mpi = str(config.get("controller", "")).lower() not in ("", "gloo") and f"controller in the file: {_MPI}"
    if "python" in made.options and (ours := here.ours.get("python")):
        made = made.noting(f"{_WHO}'s {quoted(line.args[0])} has no effect: {ours} stands before the word")
    return made.noting(note, mpi or "", *notes_on(_WHO, line, here))


def _config(line: ParsedLine, here: Here) -> Mapping[str, Any]:
    """The configuration file; empty without one.

    Raises:
        SpecError: it cannot be read, or is no table.
    """
    if not (path := line.get("config_file")):
        return {}
    what = f"{_WHO} --config-file"
    text_of(what, path, here)  # else the interpreter might wait for the end of a pipe
    found = here.ask(READ_YAML, [path])
    if why := found.get("error"):
        raise SpecError(f"{what}: {quoted(path)} cannot be read: {shortened(without_secrets(why))}")
    config = found["config"]
    if config is not None and not isinstance(config, dict):
        raise SpecError(f"{_WHO} --config-file: {quoted(path)} holds no table")
    return config or {}


def _require_hosts(line: ParsedLine, count: int | None, here: Here) -> str:
    """A note on hosts on Spark; empty for none.

    Raises:
        SpecError: they are other machines and there is no Spark cluster, or have too few slots.
    """
    slots = _slots(line, here)
    if not slots:
        return ""
    if here.on_spark:
        return f"{_WHO}'s hosts have no meaning here: Spark places the ranks"
    if others := [host for host in slots if not is_here(host, here)]:
        shown = f"-np {count or 4} …"
        raise several_machines(_WHO, f"on {listed(others)}", shown)
    if count is not None and count > (total := sum(slots.values())):
        raise SpecError(f"{_WHO} -np {count}: the hosts have {counted(total, 'slot')}")
    return ""


def _slots(line: ParsedLine, here: Here) -> dict[str, int]:
    """The hosts with their slots; empty if the line names none.

    Raises:
        SpecError: the text or file has another form.
    """
    if path := line.get("hostfile"):
        text = text_of(f"{_WHO} --hostfile", path, here)
        parts = [each for each in map(str.strip, text.splitlines()) if each]
        form, shown = r"([\w.-]+)\s+slots\s*=\s*(\d{1,9})", "HOST slots=N"
    else:
        parts = [each.strip() for each in line.get("hosts", "").split(",")] if "hosts" in line.values else []
        form, shown = r"([\w.-]+):(\d{1,9})", "HOST:N"
    slots: dict[str, int] = {}
    for part in parts:
        match = re.fullmatch(form, part, re.ASCII)
        if match is None:
            raise SpecError(f"{_WHO}: a host is written as {shown}, and not as {quoted(part)}")
        slots[match[1]] = slots.get(match[1], 0) + int(match[2])
    return slots


def _start_limit(line: ParsedLine, here: Here) -> float | None:
    """How long the start may take, in seconds, if the line or the variable says it.

    Raises:
        SpecError: the variable is no number.
    """
    text = here.environ.get("HOROVOD_START_TIMEOUT", "")
    if "start_timeout" not in line.values and not text:
        return None
    try:
        return float(line.get("start_timeout", text))
    except ValueError:
        raise SpecError(f"HOROVOD_START_TIMEOUT must be a number of seconds, not {quoted(text)}") from None


_PYTHON = re.compile(r"(?:.*/)?python(?:3(?:\.\d+)?)?")


def _command(words: Sequence[str], here: Here) -> Translation:
    """What a command runs: Python's script or module, so that its errors are understood, or a program.

    Raises:
        SpecError: there is none.
    """
    if not words:
        raise SpecError(f"{_WHO} needs a command to run", hint=f"{_WHO} -np 2 python train.py")
    program, rest = words[0], [*words[1:]]
    if _PYTHON.fullmatch(program):
        while rest and rest[0] == "-u":  # ranks are never buffered
            del rest[0]
        # on a cluster a bare name means the executors' own interpreter
        options = {} if here.on_spark and "/" not in program else {"python": _absolute(program)}
        if len(rest) > 1 and rest[0] == "-m":
            return Translation(TargetKind.MODULE, rest[1], tuple(rest[2:]), options)
        if rest and not rest[0].startswith("-"):
            return Translation(TargetKind.SCRIPT, rest[0], tuple(rest[1:]), options)
    return Translation(TargetKind.PROGRAM, program, tuple(words[1:]))


def _absolute(program: str) -> str:
    return os.path.abspath(program) if "/" in program else program


ORIGINAL = Original(
    _WHO,
    "-np N [OPTIONS] COMMAND...",
    ROWS,
    translate,
    "COMMAND is python train.py, python -m package.module, or another program. Several hosts need a Spark "
    "cluster: rankdeck --master spark://HOST:7077 horovodrun -np 8 python train.py",
)
