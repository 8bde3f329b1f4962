"""``accelerate launch``: accelerate itself says what its options and its configuration file mean.

`accelerate_program` asks it, in the ranks' interpreter; here its answer becomes ours. So the table has no row
for an option of a newer accelerate, which counts as one that sets variables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from launcher.agent.gpus import VISIBLE
from launcher.errors import SpecError

from .base import (
    HELP,
    KEPT,
    LOGS,
    MEETING,
    MODULE,
    PROGRAM,
    RANKS,
    ROLE,
    STARTING,
    WATCHING,
    HelpWanted,
    Here,
    Original,
    ParsedLine,
    Row,
    Translation,
    count_needed,
    kind_of,
    notes_on,
    quoted,
    several_machines,
    shortened,
    without_secrets,
)

_WHO = "accelerate"
_LAUNCH = "accelerate launch"
_PROGRAM = Path(__file__).with_name("accelerate_program.py")
_TPU = "rankdeck starts no TPU trainings. Run accelerate itself for them"
_AWS = "rankdeck starts no SageMaker jobs. Run accelerate itself for them"
_MPI = "rankdeck's ranks meet through gloo or NCCL, and not through MPI: leave it out"
_VARIABLES = "Variables of the ranks, as accelerate itself makes them"

ROWS = (
    HELP,
    Row("--config_file", f"{_VARIABLES}; without it accelerate's own default file."),
    Row("-q --quiet", without="accelerate's own launcher does not run", words=0),
    Row("--cpu", f"{_VARIABLES}.", words=0),
    Row("--multi_gpu", f"{_VARIABLES}.", words=0),
    Row("--mixed_precision --num_cpu_threads_per_process --enable_cpu_affinity", f"{_VARIABLES}."),
    Row("--num_processes", "The number of all ranks, our -n.", option=RANKS),
    Row("--num_machines", "1; on Spark it has no meaning beside --num_processes."),
    Row("--dynamo_*", f"{_VARIABLES}."),
    Row("--use_deepspeed", f"{_VARIABLES}; ranks get DeepSpeed's too.", words=0),
    Row("--use_fsdp --use_parallelism_config --use_megatron_lm", f"{_VARIABLES}.", words=0),
    Row("--gpu_ids", "Chooses GPUs of this machine; on Spark it has no meaning."),
    Row("--same_network", words=0, without=MEETING),
    Row("--machine_rank", without="one line starts the ranks of all machines"),
    Row("--main_process_ip", without=MEETING),
    Row("--main_process_port", without=MEETING),
    Row("-t --tee", KEPT),
    Row("--log_dir", without=LOGS),
    Row("--role", without=ROLE),
    Row("--rdzv_backend", without=MEETING),
    Row("--rdzv_conf", without=MEETING),
    Row("--max_restarts", "Our --max-restarts.", option="max_restarts"),
    Row("--monitor_interval", without=WATCHING),
    Row("-m --module", MODULE, words=0),
    Row("--no_python", PROGRAM, words=0),
    Row("--tpu --tpu_cluster --tpu_use_sudo --vm --env", refused=_TPU),
    Row(
        "--no_tpu_cluster --main_training_function --downcast_bf16",
        without="rankdeck starts no TPU trainings",
    ),
    Row("--deepspeed_hostfile", without=STARTING),
    Row("--deepspeed_exclusion_filter", without=STARTING),
    Row("--deepspeed_inclusion_filter", without=STARTING),
    Row("--deepspeed_multinode_launcher", without=STARTING),
    Row(
        "--deepspeed_config_file --deepspeed_moe_layer_cls_names --zero* --offload_* --gradient_*",
        f"{_VARIABLES}.",
    ),
    Row("--fsdp_*", f"{_VARIABLES}."),
    Row("--megatron_lm_*", f"{_VARIABLES}."),
    Row("--fp8_*", f"{_VARIABLES}."),
    Row("--parallelism_config_*", f"{_VARIABLES}."),
    Row("--aws_*", refused=_AWS),
    Row("--debug", f"{_VARIABLES}.", words=0),
    Row("--mpirun_hostfile", refused=_MPI),
)


def row_of(option: str) -> Row | None:
    """The row of an option, by its own name or by a pattern; None for one that the table does not know."""
    return next((row for row in ROWS if any(fnmatchcase(option, name) for name in row.spellings)), None)


def translate(words: Sequence[str], here: Here) -> Translation:
    """What a line means here.

    Raises:
        SpecError: the line is wrong, its launcher is not ours to stand for, there is no accelerate to ask, or
            it is meant for several machines and there is no Spark cluster.
        HelpWanted: it asks for help.
    """
    command, rest = (words[0], words[1:]) if words else ("", ())
    if command in HELP.spellings or (command == "launch" and rest and rest[0] in HELP.spellings):
        raise HelpWanted
    if command != "launch":
        wanted = f"accelerate {quoted(command)}" if command else "accelerate without a command"
        raise SpecError(
            f"{wanted} is no launch", hint="run accelerate itself for what is not accelerate launch"
        )
    return translated(here.ask(_PROGRAM.read_text(), rest), here)


def translated(found: Mapping[str, Any], here: Here) -> Translation:
    """What accelerate's answer means here.

    Raises:
        SpecError, HelpWanted: as `translate`.
    """
    line = _line(found)
    if not here.on_spark:
        _require_this_machine(found)
    kind = kind_of(_LAUNCH, "--no_python", module=found["module"], program=found["no_python"])
    environ = dict(found["environ"])
    chosen = environ.get(VISIBLE)
    if here.on_spark:
        environ.pop(VISIBLE, None)
        environ.pop("PYTHONPATH", None)  # folders of this machine
    options: dict[str, Any] = {"framework": "deepspeed" if found["launcher"] == "deepspeed" else "accelerate"}
    if found["restarts"]:
        options["max_restarts"] = found["restarts"]
    made = Translation(kind, found["script"], tuple(found["args"]), options, environ=environ)
    if RANKS not in here.ours:
        options[RANKS] = (None, _count(found, here))
        made = made.noting(_on_count(found))
    return made.noting(*notes_on(_LAUNCH, line, here), *_on_spark(line, chosen, here))


def _line(found: Mapping[str, Any]) -> ParsedLine:
    """The options that accelerate says are given, each with its row.

    Raises:
        SpecError: there is no accelerate, it refuses the line, or we do.
        HelpWanted: the line asks for help.
    """
    if "missing" in found:
        hint = "--python before the word names the interpreter of the ranks"
        raise SpecError(f"{_LAUNCH}: accelerate cannot be imported: {found['missing']}", hint=hint)
    if found.get("help"):
        raise HelpWanted
    rows = {row: option for option in found.get("said", ()) if (row := row_of(option)) is not None}
    for row, option in rows.items():
        if row.refused:
            raise SpecError(f"{_LAUNCH} {option}: {row.refused}")
    if "error" in found:
        why = " ".join(str(found["error"]).split()) or "it does not say why"
        if file := found.get("file"):
            why = f"the configuration file {quoted(file)} cannot be used: {why}"
        usage = None if file else f"rankdeck {_WHO} --help lists its options"
        raise SpecError(f"{_LAUNCH}: {shortened(without_secrets(why))}", hint=usage)
    for kind, why in (("tpu", _TPU), ("sagemaker", _AWS)):
        if found["launcher"] == kind:
            raise SpecError(f"{_LAUNCH}: the configuration file is for another place: {why}")
    return ParsedLine({}, rows)


def _require_this_machine(found: Mapping[str, Any]) -> None:
    """Refuse several machines where there is no Spark cluster.

    Raises:
        SpecError: the line or its configuration file says several.
    """
    machines, machine, count = found["machines"], found["machine"], found["processes"]
    if machines < 2 and machine == 0:
        return
    what = f"--num_machines {machines}" if machines > 1 else f"--machine_rank {machine}"
    shown = f"--num_processes {count or 8} {found['script']}"
    raise several_machines(_LAUNCH, what, shown)


def _count(found: Mapping[str, Any], here: Here) -> int:
    """The number of ranks.

    Raises:
        SpecError: neither the line nor its configuration file says it, and it is not that of this machine.
    """
    if here.on_spark and not found["counted"]:
        raise count_needed(_LAUNCH, "--num_processes 8", "without --num_processes")
    count = int(found["processes"])
    if count < 0 or (count == 0 and "--num_processes" in found["said"]):
        raise SpecError(f"{_LAUNCH} --num_processes takes 1 or more, not {quoted(str(count))}")
    return max(count, 1)


def _on_count(found: Mapping[str, Any]) -> str:
    """A note where accelerate starts fewer processes than its option says; empty elsewhere."""
    if found["processes"] > 1 and found["launcher"] == "simple":
        count = found["processes"]
        return (
            f"{count} ranks, as --num_processes says: accelerate itself starts 1 process without several GPUs"
        )
    if not found["counted"] and not found["processes"]:
        return "there is no GPU here to count: 1 rank. --num_processes N makes it N"
    return ""


def _on_spark(line: ParsedLine, chosen: str | None, here: Here) -> tuple[str, ...]:
    """Notes on what says something of one machine, where ranks run on many."""
    if not here.on_spark:
        return ()
    notes = []
    if chosen is not None:
        notes.append(f"{_LAUNCH}'s --gpu_ids has no meaning here: Spark chooses GPUs")
    if any(option == "--num_machines" for option in line.said.values()):
        notes.append(f"{_LAUNCH}'s --num_machines has no meaning here: Spark places the ranks")
    return tuple(notes)


ORIGINAL = Original(
    _WHO,
    "launch [OPTIONS] SCRIPT [ARGS]...",
    ROWS,
    translate,
    "The accelerate of the ranks' interpreter says what its options and its configuration file mean; "
    "--python before the word names that interpreter. Its other commands (config, env, test, ...) are "
    "accelerate's own. Several machines need a Spark cluster: rankdeck --master spark://HOST:7077 accelerate "
    "launch --num_processes 8 train.py",
)
