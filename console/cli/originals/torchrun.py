"""torchrun's command line: nodes times processes become ranks, and what says where nodes meet falls away.

The options are those of torch.distributed.run 2.13. ``PET_<OPTION>`` variables are their defaults, as there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from launcher.errors import SpecError
from launcher.spec.job import TargetKind

from .base import (
    HELP,
    KEPT,
    LOGS,
    MEETING,
    MODULE,
    PROGRAM,
    RANKS,
    ROLE,
    WATCHING,
    Here,
    Original,
    ParsedLine,
    Row,
    Translation,
    count_needed,
    kind_of,
    notes_on,
    parse,
    quoted,
    ranks_of,
    several_machines,
)

_WHO = "torchrun"
_FILTERED = "the run's folder keeps every rank's output, and `rankdeck logs --grep` filters it"
_GRACE_S = 30.0
_GRACE_VARIABLE = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"

ROWS = (
    HELP,
    Row(
        "--nnodes",
        "N or MIN:MAX nodes: with --nproc-per-node the number of ranks, our -n. Several nodes need a Spark "
        "cluster.",
        option=RANKS,
    ),
    Row(
        "--nproc-per-node --nproc_per_node",
        "Ranks of each node; gpu, auto and cpu count what this machine has.",
        option=RANKS,
    ),
    Row("--rdzv-backend --rdzv_backend", without=MEETING),
    Row("--rdzv-endpoint --rdzv_endpoint", without=MEETING),
    Row("--rdzv-id --rdzv_id", without=MEETING),
    Row("--rdzv-conf --rdzv_conf", without=MEETING),
    Row("--standalone", "What one machine does anyway.", words=0),
    Row("--max-restarts --max_restarts", "Our --max-restarts.", kind=int, option="max_restarts"),
    Row("--monitor-interval --monitor_interval", kind=float, without=WATCHING),
    Row(
        "--start-method --start_method",
        choices=("spawn", "fork", "forkserver"),
        without="every rank is a program of its own",
    ),
    Row("--event-log-handler --event_log_handler", without="the run's folder keeps its events"),
    Row("--role", without=ROLE),
    Row("-m --module", MODULE, words=0),
    Row("--no-python --no_python", PROGRAM, words=0),
    Row("--run-path --run_path", "What a script does anyway.", words=0),
    Row("--log-dir --log_dir", without=LOGS),
    Row("-r --redirects", without=LOGS),
    Row("-t --tee", KEPT),
    Row(
        "--local-ranks-filter --local_ranks_filter",
        "Prints the output of these ranks only, our --ranks. On Spark it has no meaning.",
        option="ranks",
    ),
    Row("--duplicate-stdout-filters --duplicate_stdout_filters", without=_FILTERED),
    Row("--duplicate-stderr-filters --duplicate_stderr_filters", without=_FILTERED),
    Row("--node-rank --node_rank", "0 on one machine; on Spark it has no meaning.", kind=int),
    Row("--master-addr --master_addr", without=MEETING),
    Row("--master-port --master_port", kind=int, without=MEETING),
    Row("--local-addr --local_addr", without=MEETING),
    Row("--logs-specs --logs_specs", without=LOGS),
    Row("--numa-binding --numa_binding", without="rankdeck binds no rank to cores"),
    Row(
        "--signals-to-handle --signals_to_handle",
        without="rankdeck stops the run at SIGINT and SIGTERM; at SIGHUP a run that a terminal started "
        "goes on, unless --on-disconnect stop stands before the word; it forwards no other signal",
    ),
    Row(
        "--shutdown-timeout --shutdown_timeout",
        f"Our --grace; without it ${_GRACE_VARIABLE}, or {_GRACE_S:g} s.",
        kind=int,
        option="grace_s",
    ),
    Row(
        "--virtual-local-rank --virtual_local_rank",
        words=0,
        without="LOCAL_RANK stays a rank's number on its host, and all ranks of a host see its GPUs",
    ),
)
_WITHOUT_VARIABLE = ("--logs-specs", "--numa-binding")


def translate(words: Sequence[str], here: Here) -> Translation:
    """What a line means here.

    Raises:
        SpecError: the line is wrong, or is meant for several machines and there is no Spark cluster.
        HelpWanted: it asks for help.
    """
    before = dict(_from_variables(here.environ))
    line = parse(_WHO, ROWS, words, script="training_script", before=before)
    low, high = _nodes(line)
    _require_place(line, low, here)
    kind = _kind(line)
    options: dict[str, Any] = {"framework": "torch"}
    if (grace_s := _grace_s(line, here)) is not None:
        options["grace_s"] = grace_s
    if "max_restarts" in line.values:
        options["max_restarts"] = line.values["max_restarts"]
    if python := here.environ.get("PYTHON_EXEC"):
        options["python"] = python
    made = Translation(kind, line.script, line.args, options, usual={"grace_s": _GRACE_S})
    if RANKS not in here.ours:
        per_node = _per_node(line, here)
        options[RANKS] = ranks_of(per_node, *((low, high) if here.on_spark else (1, 1)))
        made = made.noting(_on_nodes(low, high, per_node, here))
    return _with_filter(made, line, here).noting(*notes_on(_WHO, line, here), *_of_node(line, here))


def _from_variables(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The variables that set options, each with the option as a word of a line.

    Raises:
        SpecError: the variable of an option without a value is no number.
    """
    for row in ROWS:
        option = next(name for name in row.spellings if name.startswith("--"))
        name = f"PET_{option.removeprefix('--').replace('-', '_').upper()}"
        if row.asks or option in _WITHOUT_VARIABLE or name not in environ:
            continue
        if row.words:
            yield name, f"{option}={environ[name]}"
        elif not re.fullmatch(r"\s*[+-]?\d{1,9}\s*", environ[name], re.ASCII):
            raise SpecError(f"{name} must be 1 or 0, not {quoted(environ[name])}")
        elif int(environ[name]):
            yield name, option


def _nodes(line: ParsedLine) -> tuple[int, int]:
    """The least and the most nodes.

    Raises:
        SpecError: the text is neither a number nor a range.
    """
    text, option = line.get("nnodes", "1"), line.named("--nnodes")
    match = re.fullmatch(r"\s*(\d{1,9})\s*(?::\s*(\d{1,9})\s*)?", text, re.ASCII)
    if match is None:
        raise SpecError(f"{_WHO} {option} takes a number or MIN:MAX, not {quoted(text)}")
    low, high = int(match[1]), int(match[2] or match[1])
    if not 0 < low <= high:
        raise SpecError(f"{_WHO} {option} takes 1 node or more, and MIN at most as MAX, not {quoted(text)}")
    return low, high


def _require_place(line: ParsedLine, low: int, here: Here) -> None:
    """Refuse a line for several machines where there is no Spark cluster.

    Raises:
        SpecError: there is none.
    """
    rank = line.get("node_rank", 0)
    if here.on_spark or (low == 1 and rank == 0):
        return
    nodes, per_node = line.get("nnodes", "1"), line.get("nproc_per_node", "1")
    what = f"{line.named('--nnodes')} {nodes}" if low > 1 else f"{line.named('--node-rank')} {rank}"
    shown = f"--nnodes {nodes} --nproc-per-node {per_node} {line.script}"
    raise several_machines(_WHO, what, shown)


def _kind(line: ParsedLine) -> TargetKind:
    """What the line runs.

    Raises:
        SpecError: it says two things at once.
    """
    if not line.get("run_path"):
        return kind_of(
            _WHO, "--no-python", module=bool(line.get("module")), program=bool(line.get("no_python"))
        )
    if line.get("module"):
        raise SpecError(f"{_WHO} takes --run-path, for a script, or --module, and not both")
    return TargetKind.SCRIPT


def _per_node(line: ParsedLine, here: Here) -> int:
    """How many ranks a node has.

    Raises:
        SpecError: the text is no number and no word for one, or counts what is not known here.
    """
    text, option = line.get("nproc_per_node", "1"), line.named("--nproc-per-node")
    if re.fullmatch(r"\s*[+-]?\d{1,9}\s*", text, re.ASCII):
        return int(text)
    if text not in ("gpu", "auto", "cpu"):
        hint = "give the number" if text == "xpu" else None
        raise SpecError(f"{_WHO} {option} takes a number, gpu, auto or cpu, not {quoted(text)}", hint=hint)
    if here.on_spark:
        raise count_needed(_WHO, "--nproc-per-node 4", f"{option} {text}")
    gpus = here.gpus_seen if text != "cpu" else 0
    if text == "gpu" and not gpus:
        raise SpecError(
            f"{_WHO} {option} gpu: there is no GPU here", hint="--nproc-per-node cpu, or a number"
        )
    return gpus or here.cpus


def _grace_s(line: ParsedLine, here: Here) -> float | None:
    """Seconds from SIGTERM to SIGKILL, if the line or the variable says them.

    Raises:
        SpecError: the variable is no number.
    """
    text = here.environ.get(_GRACE_VARIABLE, "")
    try:
        said = line.get("shutdown_timeout", int(text) if text else None)
        return None if said is None else float(said)
    except ValueError:
        raise SpecError(f"{_GRACE_VARIABLE} must be a whole number of seconds, not {quoted(text)}") from None


def _on_nodes(low: int, high: int, per_node: int, here: Here) -> str:
    """A note on how far the world is from what the line says of nodes; empty if it is just that."""
    if not here.on_spark:
        return f"--nnodes {low}:{high} on one machine: 1 node" if high > 1 else ""
    if high == 1:
        return ""
    return (
        "Spark decides how many ranks a host gets: --nnodes and --nproc-per-node make "
        f"{per_node * high:,} ranks"
        f"{' at most' if low < high else ''}"
    )


def _of_node(line: ParsedLine, here: Here) -> tuple[str, ...]:
    """A note on ``--node-rank``, which is said again on Spark."""
    if not here.on_spark or "node_rank" not in line.values:
        return ()
    return (
        f"{_WHO}'s --node-rank has no meaning here: Spark places the ranks, and one line starts them all",
    )


def _with_filter(made: Translation, line: ParsedLine, here: Here) -> Translation:
    """The same with the ranks whose output is wanted: on one machine a local rank is a rank.

    Raises:
        SpecError: they are no list of numbers.
    """
    text = line.get("local_ranks_filter", "")
    if not text or "ranks" in here.ours:
        return made
    if not re.fullmatch(r"\s*\d{1,9}\s*(,\s*\d{1,9}\s*)*", text, re.ASCII):
        raise SpecError(
            f"{_WHO} {line.named('--local-ranks-filter')} takes ranks such as 0,1,2, not {quoted(text)}"
        )
    if here.on_spark:
        return made.noting(
            f"{_WHO}'s --local-ranks-filter has no meaning here: Spark decides which ranks share a host. "
            "--ranks before the word chooses ranks"
        )
    chosen = [int(word) for word in text.split(",")]
    count = made.options.get(RANKS, (None, max(chosen) + 1))[1]
    ranks = ",".join(str(rank) for rank in chosen if rank < count) or "none"
    return replace(made, ranks=ranks)


ORIGINAL = Original(
    _WHO,
    "[OPTIONS] SCRIPT [ARGS]...",
    ROWS,
    translate,
    "The variables PET_<OPTION> are defaults of its options, as with torchrun. On several nodes it needs a "
    "Spark cluster, and runs once, from one machine: rankdeck --master spark://HOST:7077 torchrun --nnodes 2 "
    "--nproc-per-node 4 train.py",
)
