"""The `deepspeed` command's line: hosts and slots become ranks, and how hosts are reached falls away.

The options are those of deepspeed.launcher.runner 0.19, and those that older versions had besides.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launcher.agent.gpus import VISIBLE
from launcher.errors import SpecError, counted
from launcher.state.outcome_rules import listed

from .base import (
    HELP,
    LOGS,
    MEETING,
    MODULE,
    MOST_RANKS,
    PROGRAM,
    RANKS,
    STARTING,
    Here,
    Original,
    ParsedLine,
    Row,
    Translation,
    count_needed,
    is_here,
    kind_of,
    notes_on,
    parse,
    quoted,
    ranks_of,
    several_machines,
    too_many,
    unreadable,
)

_WHO = "deepspeed"
_CORES = "rankdeck tells ranks their share of the cores by OMP_NUM_THREADS, and binds none"
_OWN_WORDS = "deepspeed's own launcher does not run"
_ELASTIC = (
    "elastic training is not served: the world keeps its size. rankdeck's -n MIN:MAX chooses it at the start"
)
_HOSTFILE = "/job/hostfile"

ROWS = (
    HELP,
    Row("-H --hostfile", "Its hosts and slots are counted: the number of ranks, our -n.", option=RANKS),
    Row(
        "-i --include",
        "Chooses GPUs of this machine (localhost:0,2); on Spark its slots are counted.",
        option=RANKS,
    ),
    Row("-e --exclude", "As --include, but for what is left.", option=RANKS),
    Row("--num_nodes", "Times --num_gpus: our -n. Several nodes need Spark.", kind=int, option=RANKS),
    Row(
        "--num_gpus --num_accelerators",
        "Ranks of each node, one for each GPU. Without it: all GPUs of this machine, or 1 rank without any.",
        kind=int,
        option=RANKS,
    ),
    Row("--master_port", kind=int, without=MEETING),
    Row("--master_addr", without=MEETING),
    Row("--node_rank", kind=int, without="one line starts the ranks of all nodes"),
    Row("--launcher", without=STARTING),
    Row("--launcher_args", without=STARTING),
    Row("--module", MODULE, words=0),
    Row("--no_python", PROGRAM, words=0),
    Row(
        "--no_local_rank",
        words=0,
        without="--local_rank is passed to scripts that name this option, and to no others",
    ),
    Row("--no_ssh", words=0, without=STARTING),
    Row("--no_ssh_check", words=0, without=STARTING),
    Row("--force_multi", words=0, without=STARTING),
    Row(
        "--save_pid", words=0, without="`rankdeck ps` finds the run, and `rankdeck show` its ranks' processes"
    ),
    Row("--enable_each_rank_log", without=LOGS),
    Row(
        "--autotuning",
        choices=("tune", "run"),
        refused="the autotuner starts trainings of its own. Run deepspeed itself for it",
    ),
    Row("--bind_cores_to_rank", words=0, without=_CORES),
    Row("--bind_core_list", without=_CORES),
    Row("--ssh_port", kind=int, without=STARTING),
    Row("--venv_script", without="--python before the word names the ranks' interpreter"),
    Row("--log_level", choices=("debug", "info", "warning", "error", "critical"), without=_OWN_WORDS),
    Row("-q --quiet", words=0, without=_OWN_WORDS),
    Row("--elastic_training", words=0, refused=_ELASTIC),
    Row("--min_elastic_nodes", kind=int, refused=_ELASTIC),
    Row("--max_elastic_nodes", kind=int, refused=_ELASTIC),
)
Slots = Mapping[str, Sequence[int] | None]
"""The slots of each host; None for as many as the host has GPUs."""


@dataclass(frozen=True, slots=True)
class Hosts:
    """The hosts that a line means.

    Attributes:
        slots: those that it names, in order, each with its slots.
        filed: whether a hostfile names them.
        nodes: how many nodes such as the one host there are; 1 if a hostfile names them.
    """

    slots: Slots
    filed: bool = False
    nodes: int = 1

    @property
    def chosen(self) -> Sequence[Sequence[int] | None]:
        """The slots of each host."""
        return tuple(self.slots.values())


def translate(words: Sequence[str], here: Here) -> Translation:
    """What a line means here.

    Raises:
        SpecError: the line is wrong, or is meant for several machines and there is no Spark cluster.
        HelpWanted: it asks for help.
    """
    line = parse(_WHO, ROWS, words, script="user_script")
    kind = kind_of(_WHO, "--no_python", module=bool(line.get("module")), program=bool(line.get("no_python")))
    hosts = _hosts(line, here)
    if not here.on_spark:
        _require_this_machine(line, hosts, here)
    options: dict[str, Any] = {"framework": "deepspeed"}
    made = Translation(
        kind,
        line.script,
        line.args,
        options,
        environ=_exported(here) if here.on_spark else _visible(line, hosts, here),
    )
    if RANKS not in here.ours:
        count, note = _count(line, hosts, here)
        options[RANKS] = ranks_of(count, hosts.nodes, hosts.nodes)
        made = made.noting(note)
    return made.noting(*notes_on(_WHO, line, here), *_remarks(line, hosts, here))


def _hosts(line: ParsedLine, here: Here) -> Hosts:
    """The hosts that the line means.

    Raises:
        SpecError: options exclude each other, or name what there is not.
    """
    include, exclude = line.get("include", ""), line.get("exclude", "")
    nodes, gpus = line.get("num_nodes", -1), line.get("num_gpus", -1)
    if include and exclude:
        raise SpecError(f"{_WHO} takes --include or --exclude, and not both")
    if (include or exclude) and (nodes >= 0 or gpus >= 0):
        raise SpecError(f"{_WHO} takes --include and --exclude, or --num_nodes and --num_gpus, and not both")
    if max(nodes, gpus) > MOST_RANKS:
        raise too_many()
    pool = _pool(line, here)
    filed = bool(pool)
    hosts: Slots = {host: range(slots) for host, slots in pool.items()} or {"localhost": None}
    if include or exclude:
        named = _named(include or exclude)
        if exclude:
            return Hosts(_without(named, hosts, here), filed)
        return Hosts(_included(named, named if here.on_spark and not pool else hosts, here), filed)
    if nodes > 0 and pool:
        hosts = {host: hosts[host] for host in [*hosts][:nodes]}
    hosts = {host: range(gpus) if gpus > 0 else slots for host, slots in hosts.items()}
    return Hosts(hosts, filed, 1 if filed else max(nodes, 1))


def _pool(line: ParsedLine, here: Here) -> Mapping[str, int]:
    """The hosts of the hostfile with the number of their slots; none without one.

    Raises:
        SpecError: the file has another form.
    """
    path = line.get("hostfile", _HOSTFILE)
    try:
        text = here.read(path)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise unreadable(f"{_WHO} --hostfile", path, error) from error
    pool: dict[str, int] = {}
    for each in filter(None, map(str.strip, text.splitlines())):
        if each.startswith("#"):
            continue
        match = re.match(r"(\S+)\s+slots=(\d{1,9})", each, re.ASCII)
        if match is None or match[1] in pool:
            raise SpecError(f"{_WHO}: {path} has hosts as HOST slots=N, each once, and not {quoted(each)}")
        pool[match[1]] = int(match[2])
    if not pool:
        raise SpecError(f"{_WHO}: {path} names no hosts")
    if sum(pool.values()) > MOST_RANKS:
        raise too_many()
    return pool


def _named(text: str) -> Slots:
    """The hosts and slots of ``--include`` or ``--exclude``.

    Raises:
        SpecError: the text has another form.
    """
    found: dict[str, list[int] | None] = {}
    for part in text.split("@"):
        match = re.fullmatch(r"([^:\s]+)(?::(\d{1,9}(?:,\d{1,9})*))?", part, re.ASCII)
        if match is None:
            raise SpecError(f"{_WHO}: hosts are HOST or HOST:0,2, joined by @, and not {quoted(text)}")
        slots = [int(slot) for slot in match[2].split(",")] if match[2] else []
        found[match[1]] = sorted({*(found.get(match[1]) or ()), *slots}) or None
    return found


def _included(named: Slots, known: Slots, here: Here) -> Slots:
    """The named slots of the known hosts, in the order of these."""
    _require_known(named, known, here)
    order = sorted(named, key=[*known, *named].index)
    return {host: named[host] or known.get(host) for host in order}


def _without(named: Slots, known: Slots, here: Here) -> Slots:
    """The slots of the known hosts that are not named."""
    _require_known(named, known, here)
    kept: dict[str, Sequence[int] | None] = {}
    for host, slots in known.items():
        if host not in named:
            kept[host] = slots
        elif (fewer := named[host]) is not None:
            has = _all(slots, here, f"--exclude {host}:{','.join(map(str, fewer))}")
            kept[host] = [slot for slot in has if slot not in fewer]
    left = {host: slots for host, slots in kept.items() if slots is None or len(slots)}
    if not left:
        raise SpecError(f"{_WHO} --exclude leaves nothing")
    return left


def _require_known(named: Slots, known: Slots, here: Here) -> None:
    """Refuse hosts and slots that there are not; other machines without a hostfile are refused later.

    Raises:
        SpecError: there is no such host or slot.
    """
    alone = [*known] == ["localhost"]
    for host, slots in named.items():
        if host not in known and not alone:
            raise SpecError(f"{_WHO}: the hostfile has no host {host}", hint=f"it has {listed([*known])}")
        has = known.get(host)
        if has is None and not here.on_spark and is_here(host, here):
            has = range(here.gpus_here) if here.gpus_here else None
        if has is not None and (missing := [slot for slot in slots or () if slot not in has]):
            raise SpecError(f"{_WHO}: {host} has {counted(len(has), 'slot')}, and no slot {missing[0]}")


def _all(slots: Sequence[int] | None, here: Here, what: str) -> Sequence[int]:
    """The slots of a host, counted if they are not named.

    Raises:
        SpecError: they are those of another machine.
    """
    if slots is None and here.on_spark:
        raise count_needed(_WHO, "--num_gpus 4", what)
    return range(here.gpus_here or 1) if slots is None else slots


def _require_this_machine(line: ParsedLine, hosts: Hosts, here: Here) -> None:
    """Refuse other machines where there is no Spark cluster.

    Raises:
        SpecError: the line means some.
    """
    rank, others = line.get("node_rank", -1), [host for host in hosts.slots if not is_here(host, here)]
    if not others and rank < 1 and hosts.nodes == 1:
        return
    nodes = max(len(hosts.slots), hosts.nodes, 2)
    gpus = line.get("num_gpus") or max((len(slots) for slots in hosts.chosen if slots), default=4)
    what = f"on {listed(others)}" if others else f"--node_rank {rank}"
    if line.get("num_nodes", 1) > 1:
        what = f"--num_nodes {line.get('num_nodes')}"
    shown = f"--num_nodes {nodes} --num_gpus {gpus} {line.script}"
    raise several_machines(_WHO, what, shown)


def _chooses(line: ParsedLine) -> bool:
    """Whether the line chooses among GPUs, so that CUDA_VISIBLE_DEVICES does not."""
    return bool(line.get("include") or line.get("exclude") or line.get("num_gpus", 0) > 0)


def _visible(line: ParsedLine, hosts: Hosts, here: Here) -> dict[str, str]:
    """CUDA_VISIBLE_DEVICES with the GPUs that the line chooses; nothing if it chooses none."""
    count = here.gpus_here if _chooses(line) else 0
    if not count:
        return {}
    chosen = [slot for slots in hosts.chosen for slot in _all(slots, here, "") if slot < count]
    return {VISIBLE: ",".join(map(str, chosen))}


def _count(line: ParsedLine, hosts: Hosts, here: Here) -> tuple[int, str]:
    """The number of ranks of a node, and a note on it, which may be empty.

    Raises:
        SpecError: nobody can tell it.
    """
    if here.on_spark:
        what = "without a number of GPUs"
        return sum(len(_all(slots, here, what)) for slots in hosts.chosen), ""
    if _chooses(line) or any(slots is not None for slots in hosts.chosen):
        return sum(len(_all(slots, here, "")) for slots in hosts.chosen), ""
    if gpus := here.gpus_seen:
        return gpus, ""
    return 1, f"there is no GPU here to count: 1 rank. {_WHO} --num_gpus N makes it N"


def _exported(here: Here) -> dict[str, str]:
    """The variables that DeepSpeed takes to other hosts, from a file in the home folder or in this one.

    Raises:
        SpecError: there is such a file, and it cannot be read.
    """
    name = here.environ.get("DS_ENV_FILE", ".deepspeed_env")
    found: dict[str, str] = {}
    for folder in (here.environ.get("HOME", ""), "."):
        path = os.path.join(folder, name)
        try:
            text = here.read(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError) as error:
            raise unreadable(_WHO, path, error) from error
        parts = [each.partition("=") for each in text.splitlines()]
        found |= {variable: value for variable, sign, value in parts if sign}
    return found


def _remarks(line: ParsedLine, hosts: Hosts, here: Here) -> tuple[str, ...]:
    """What else a user should know of a line."""
    notes = []
    if "hostfile" in line.values and not hosts.filed:
        notes.append(f"there is no hostfile {line.get('hostfile')}: it is left aside")
    if here.on_spark and (line.get("include") or line.get("exclude") or hosts.filed):
        notes.append("Spark chooses hosts and GPUs; those that the line names are counted")
    if not here.on_spark and _chooses(line) and here.environ.get(VISIBLE) and VISIBLE not in here.ours:
        notes.append(f"{VISIBLE} is left aside: the line chooses the GPUs")
    if line.get("no_python") and not line.get("no_local_rank"):
        notes.append("a program gets no --local_rank: it finds LOCAL_RANK in its environment")
    return tuple(notes)


ORIGINAL = Original(
    _WHO,
    "[OPTIONS] SCRIPT [ARGS]...",
    ROWS,
    translate,
    "Scripts that take --local_rank get it, and all find DeepSpeed's variables; on Spark also those of "
    ".deepspeed_env. Several hosts need a Spark "
    "cluster: rankdeck --master spark://HOST:7077 deepspeed --num_nodes 2 --num_gpus 4 train.py",
)
